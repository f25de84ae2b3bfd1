//! One act: a host starts its tree, is killed, and what is left of the tree is watched and counted.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cast::{Member, Role};
use super::own_state::OwnState;
use super::stage::{Moment, Stage};
use super::stop::{Interrupts, Stop};
use super::troupe::{PEN_LIMIT, TICK, Troupe};
use super::voices::Voices;
use super::{Actor, Pace};

/// The graces in the second act, as the command line has them: short, since the audience waits.
pub(super) const GRACES: [&str; 4] = ["--eof-grace", "500ms", "--term-grace", "1s"];

/// The child and its tree.
pub(super) const TREE: [Role; 5] = [
    Role::Actor(Actor::Child),
    Role::Actor(Actor::Helper),
    Role::Actor(Actor::Setsid),
    Role::Actor(Actor::Daemon),
    Role::Actor(Actor::Stubborn),
];
/// nostray's own processes.
pub(super) const OWN: [Role; 3] = [Role::Front, Role::Spare, Role::Guard];

/// Whether the host starts its child directly or with nostray.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Alone,
    Penned,
}

impl Act {
    /// The processes of this act, in the order in which they are shown.
    pub(super) fn cast(self) -> Vec<Role> {
        let own: &[Role] = if self == Self::Penned { &OWN } else { &[] };
        [&[Role::Actor(Actor::Host)], own, &TREE].concat()
    }

    /// What the host starts.
    pub(super) fn command(self, program: &Path) -> Vec<OsString> {
        let mut words = Vec::new();
        if self == Self::Penned {
            words.extend([program.as_os_str(), OsStr::new("run")]);
            words.extend(GRACES.iter().map(OsStr::new));
            words.push(OsStr::new("--"));
        }
        words.extend([program.as_os_str(), OsStr::new("demo"), OsStr::new("--actor"), OsStr::new("child")]);
        words.into_iter().map(OsString::from).collect()
    }
}

/// How an act ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The processes that outlived the host, whether they are in the script or not.
    pub(super) survivors: Vec<Role>,
    /// No process with the token is left, and no other descendant.
    pub(super) nothing_left: bool,
    /// From the end of the host to the last end that was seen.
    pub(super) took: Duration,
    /// From the end of the host to the end of the act.
    pub(super) watched: Duration,
    /// What the processes wrote beside their ready line.
    pub(super) said: Vec<String>,
}

impl Outcome {
    /// A descendant is left that does not bear the token.
    pub(super) fn has_unseen(&self) -> bool {
        self.survivors.is_empty() && !self.nothing_left
    }

    /// A process is left that is not in the script.
    pub(super) fn has_others(&self) -> bool {
        self.survivors.contains(&Role::Unknown) || self.has_unseen()
    }
}

/// Plays an act, and ends every process that is left of it, also after an error.
pub(super) fn play(
    act: Act,
    own_state: &OwnState,
    stage: &mut Stage,
    interrupts: &Interrupts,
    pace: Pace,
) -> Result<Outcome, Stop> {
    let troupe = Troupe::new(act)?;
    // Reported before the clean-up, which may take a moment, so that the user does not press Ctrl-C again.
    let outcome = perform(&troupe, own_state, stage, interrupts, pace).inspect_err(|stop| stage.break_off(stop));
    let dismissed = troupe.dismiss();
    outcome.and_then(|outcome| dismissed.map(|()| outcome))
}

fn perform(
    troupe: &Troupe,
    own_state: &OwnState,
    stage: &mut Stage,
    interrupts: &Interrupts,
    pace: Pace,
) -> Result<Outcome, Stop> {
    let mut voices = Voices::new(troupe.start_host(own_state)?);
    voices.wait_for_ready(interrupts)?;
    let mut members = troupe.assemble(interrupts)?;
    interrupts.pause(pace.before, TICK, |left| stage.show(&members, Moment::Before(left)))?;

    let killed = Instant::now();
    members.iter().filter(|member| member.is_host()).for_each(Member::kill);
    let limit = if troupe.act == Act::Penned { PEN_LIMIT } else { pace.watch };
    let empty = loop {
        for member in members.iter_mut().filter(|member| member.gone.is_none()) {
            member.gone = member.handle.has_ended().unwrap_or(false).then(|| killed.elapsed());
        }
        let empty = troupe.is_empty();
        let elapsed = killed.elapsed();
        stage.show(&members, Moment::After(elapsed))?;
        let alive: Vec<_> = members.iter().filter(|m| m.gone.is_none()).map(|m| m.handle.as_fd()).collect();
        if (alive.is_empty() && empty) || elapsed >= limit {
            break empty;
        }
        interrupts.wait(&alive, TICK.min(limit - elapsed))?;
    };
    let survivors: Vec<_> = troupe.members()?.iter().map(|member| member.role).collect();
    let outcome = Outcome {
        nothing_left: survivors.is_empty() && empty,
        survivors,
        took: members.iter().filter_map(|member| member.gone).max().unwrap_or_default(),
        watched: killed.elapsed(),
        said: voices.said(),
    };
    stage.close(&members, troupe.act, &outcome)?;
    Ok(outcome)
}
