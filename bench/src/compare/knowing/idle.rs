//! How often the processes around one idle child wake up.

use std::ffi::OsString;
use std::time::Duration;

use badchild::{Found, comes_true};

use crate::Failure;
use crate::compare::Ground;
use crate::compare::ways::{self, DIRECT, SHARE};
use crate::programs::running;
use crate::report::Table;
use crate::supervisors::Kind;
use crate::traffic::{Filling, Request, Session, native, watch};
use crate::variants::Variant;
use crate::wakeups::Switches;

/// By then start-up is over, and memory that is given back has been.
const SETTLED: Duration = Duration::from_millis(3500);

/// One contender.
pub(super) struct Woken {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    pub(super) processes: usize,
    /// In a second.
    pub(super) wakeups: f64,
}

/// A control that does wake up: it shows that wake-ups are counted.
pub(super) const RESTLESS: &str = "a shell that sleeps";

/// All of them at once: none is woken by another.
pub(super) fn measure(ground: &Ground, time: Duration) -> Result<Vec<Woken>, Failure> {
    let echo = native(0)?;
    let mut request = Request::new(200, Filling::Text);
    let mut sessions = Vec::new();
    // With nothing around the server there is no process to wake up.
    for contender in ways::all(ground).into_iter().filter(|contender| contender.name() != DIRECT) {
        watch::doing(format!("wake-ups: starting {}", contender.name()));
        let mut session = contender.way.open(&echo)?;
        session.call(&mut request)?;
        sessions.push((contender.name(), contender.ours, session));
    }
    let child: [OsString; 2] = [ground.programs.badchild.clone().into(), "pause".into()];
    let mut supervisors = Vec::new();
    for kind in Kind::all(&ground.peers) {
        watch::doing(format!("wake-ups: starting {}", kind.name()));
        let supervisor = kind.start(&child, 1)?;
        if !comes_true(badchild::PATIENCE, &mut || supervisor.children(&child).len() == 1) {
            return Err(format!("{} does not start a child", kind.name()).into());
        }
        supervisors.push((kind.name(), supervisor));
    }
    let restless = Variant::other(RESTLESS, [""; 0]).start(&restless_command())?;
    watch::doing("wake-ups: watching all".to_owned());
    std::thread::sleep(SETTLED); // no event says that all processes have come to rest

    let of_sessions =
        sessions.iter().map(|(name, ours, session)| (*name, *ours, own(ground, name, session, &sessions)));
    let of_supervisors = supervisors.iter().map(|(name, supervisor)| (*name, false, supervisor.own(&child)));
    let itself = restless
        .scene
        .processes()
        .into_iter()
        .filter(|found| found.stat.pid.to_string() == restless.id().to_string());
    let all: Vec<(&'static str, bool, Vec<Found>)> =
        of_sessions.chain(of_supervisors).chain([(RESTLESS, false, itself.collect())]).collect();
    let look = || all.iter().map(|(.., own)| Switches::of(own)).collect::<Result<Vec<_>, _>>();
    let before = look()?;
    std::thread::sleep(time); // the time in which nothing may happen is what is measured
    let after = look()?;
    let woken = all.into_iter().zip(after.iter().zip(&before)).map(|((name, ours, own), (after, before))| Woken {
        name,
        ours,
        processes: own.len(),
        wakeups: after.since(before) as f64 / time.as_secs_f64(),
    });
    Ok(woken.collect())
}

/// It ends when its `Started` is dropped.
fn restless_command() -> [OsString; 3] {
    ["sh", "-c", "while sleep 0.1; do :; done"].map(Into::into)
}

/// All processes of a session but its server. A broker's parent has ended, so it is added to the session of
/// `nostray share`.
fn own(ground: &Ground, name: &str, session: &Session, all: &[(&'static str, bool, Session)]) -> Vec<Found> {
    let mut own = session.on_the_way();
    if name == SHARE {
        let known: Vec<Found> = all.iter().flat_map(|(.., session)| session.on_the_way()).collect();
        let is_known = |found: &Found| known.iter().any(|other| other.stat.pid == found.stat.pid);
        own.extend(running(&ground.programs.nostray).into_iter().filter(|found| !is_known(found)));
    }
    own
}

pub(super) fn table(all: &[Woken], time: Duration) -> Table {
    let columns = ["", "processes", "wake-ups a second"];
    let mut table = Table::new("Around one idle child", &columns);
    for woken in all.iter().filter(|woken| woken.name != RESTLESS) {
        table.row([woken.name.to_owned(), woken.processes.to_string(), format!("{:.2}", woken.wakeups)]);
    }
    table.note(format!(
        "Context switches of all threads of the processes around the child within {time:?}, {SETTLED:?} after one \
         call. `nostray share` includes its broker and its steward."
    ));
    table
}
