//! One case: a host starts a server with a wrapper around it, the event comes, and the processes that are left are
//! counted.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Folder, Found, PATIENCE, Scene, User};
use nostray_sys::Signal;

use super::case::{Case, Ending};
use super::census::{Census, Look, Marks};
use super::contenders::Contender;
use super::permits::Permits;
use crate::Failure;
use crate::host::Host;

/// When to look which processes are left: so many seconds after the event.
pub(super) const LOOKS: [u64; 3] = [1, 5, 15];

/// Which processes are left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) server: bool,
    pub(super) descendant: bool,
    /// A process of the wrapper's own, its daemons among them.
    pub(super) wrapper: bool,
}

impl Left {
    /// From the processes of a case without host and friend, which are neither.
    fn seen<'a>(processes: impl Iterator<Item = &'a Found>, badchild: &str) -> Self {
        let mut left = Self::default();
        for found in processes {
            match found
                .command
                .strip_prefix(badchild)
                .map(|words| words.split_whitespace().next().unwrap_or_default())
            {
                Some("tree") => left.server = true,
                Some("member") => left.descendant = true,
                Some("host") => {}
                _ => left.wrapper = true,
            }
        }
        left
    }

    pub(super) fn of_tree(self) -> bool {
        self.server || self.descendant
    }

    fn any(self) -> bool {
        self.of_tree() || self.wrapper
    }
}

/// What became of a case.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcome {
    /// At the times of [`LOOKS`].
    pub(super) left: [Left; LOOKS.len()],
    /// By how much one of these looks came late, at most.
    pub(super) late: Duration,
    /// Whether the host's other child was still there.
    pub(super) friend_lives: bool,
}

/// What all cases have in common.
pub(super) struct Stage<'a> {
    pub(super) badchild: &'a Path,
    pub(super) census: &'a Census,
    /// Permits to start a host: more cases at a time than there are processors only wait for each other.
    pub(super) starting: &'a Permits,
}

impl Stage<'_> {
    pub(super) fn play(&self, contender: &Contender, case: Case) -> Result<Outcome, Failure> {
        let folder = Folder::new("tree");
        let complete = folder.path().join("complete");
        let tree = [case.tree.manner.word(), case.tree.descendant.word(), "--serve"].map(OsString::from);
        let mut server = vec![self.badchild.into(), "tree".into()];
        server.extend(tree.into_iter().chain([complete.clone().into()]));

        // A place of its own, so that no other case's nostray sweeps what is left of this tree.
        let mut scene = Scene::apart(User::Current);
        let permit = self.starting.take();
        let mut staged = contender.stage(&server, folder.path())?;
        let mut host = Host::start(&scene, self.badchild, case.ending.options(), &staged.words, Stdio::null())?;
        let wrapper = host.command(PATIENCE)?;
        staged.until_it_serves(&mut host, &complete, PATIENCE)?;
        drop(permit);
        let mut scenes = vec![Marks::of(&scene)?];
        if let Some(daemon) = &staged.daemon {
            scenes.push(Marks::of(&daemon.scene)?);
        }
        let friends = [Marks::of(host.friends())?];
        let has_friend = |look: &Look| look.those(&friends).count() == 1;

        let look = self.census.look();
        let before = self.left(&look, &scenes);
        if !(before.server && before.descendant && has_friend(&look)) {
            return Err(format!("server, descendant or friend was missing before the event: {before:?}").into());
        }
        let wrapper = Found::by_pid(wrapper).ok_or("the wrapper had ended before the event")?;
        match case.ending {
            Ending::StdinClosed => host.close(),
            Ending::KillOfHost | Ending::KillOfHostPipeHeld => host.kill()?,
            Ending::Term | Ending::KillOfWrapper => {}
        }
        if let Some(signal) = case.ending.signal() {
            wrapper.send(signal);
        }
        let mut outcome = self.watch(Instant::now(), &scenes);
        outcome.friend_lives = has_friend(&self.census.look());
        scenes.extend(friends);
        self.end(&scenes);
        let daemons = staged.daemon.as_mut().map(|daemon| &mut daemon.scene);
        [&mut scene, host.friends()].into_iter().chain(daemons).for_each(Scene::is_over);
        Ok(outcome)
    }

    /// Looks which processes are left, until none is or the time of the last look has come.
    fn watch(&self, event: Instant, scenes: &[Marks]) -> Outcome {
        let mut outcome = Outcome::default();
        for second in 1..=LOOKS[LOOKS.len() - 1] {
            let due = event + Duration::from_secs(second);
            // How long they stay is what is measured.
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let look = self.census.look();
            let left = self.left(&look, scenes);
            if let Some(at) = LOOKS.iter().position(|&at| at == second) {
                outcome.left[at] = left;
                outcome.late = outcome.late.max(look.begun - due);
            }
            // With no process left, none can be started.
            if !left.any() {
                break;
            }
        }
        outcome
    }

    fn left(&self, look: &Look, scenes: &[Marks]) -> Left {
        Left::seen(look.those(scenes), &format!("{} ", self.badchild.display()))
    }

    /// Kills the processes that are left, and returns when there are none.
    fn end(&self, scenes: &[Marks]) {
        loop {
            let look = self.census.look();
            let mut left = look.those(scenes).peekable();
            if left.peek().is_none() {
                return;
            }
            left.for_each(|found| found.send(Signal::KILL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(command: &str) -> Found {
        let own = Found::by_pid(badchild::pid(i32::try_from(std::process::id()).expect("small"))).expect("here");
        Found { command: command.to_owned(), ..own }
    }

    #[test]
    fn a_tree_is_told_from_what_is_around_it() {
        let left = |commands: &[&str]| {
            let all: Vec<Found> = commands.iter().map(|command| found(command)).collect();
            Left::seen(all.iter(), "/b/badchild ")
        };
        assert_eq!(left(&["/b/badchild host -- tini -- /b/badchild tree stubborn plain"]), Left::default());
        let wrapper = Left { wrapper: true, ..Left::default() };
        assert_eq!(left(&["tini -- /b/badchild tree stubborn plain"]), wrapper);
        assert_eq!(left(&["sh -c /b/badchild member plain"]), wrapper);
        let both = left(&["/b/badchild tree stubborn plain", "/b/badchild member plain"]);
        assert_eq!(both, Left { server: true, descendant: true, wrapper: false });
    }
}
