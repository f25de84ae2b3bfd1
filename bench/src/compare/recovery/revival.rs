//! A server is killed between two calls: how long until the call right after the kill is answered.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use badchild::Found;
use nostray_sys::Signal;

use super::book::Door;
use crate::Failure;
use crate::compare::Ground;
use crate::compare::ways::{self, Contender};
use crate::report::Table;
use crate::stats::Spread;
use crate::supervisors::{Kind, Supervisor};
use crate::traffic::{Filling, Insisted, REFUSED, Request, Server, Session, UNHEARD, watch};

/// A contender that has not recovered by then never does.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// supervisord and pm2 take a child for running that has lived for a second.
const LIVED: Duration = Duration::from_millis(1200);

/// What became of all kills of one contender's server.
#[derive(Clone)]
pub(super) enum Outcome {
    /// The next answer came after so many milliseconds, each time from another process.
    Answered(Vec<f64>),
    /// The host's pipe was closed.
    Ended,
    Never,
}

impl Outcome {
    pub(super) fn spread(&self) -> Option<Spread> {
        match self {
            Self::Answered(times) => Some(Spread::of(times)),
            Self::Ended | Self::Never => None,
        }
    }

    pub(super) fn show(&self) -> String {
        match self {
            Self::Answered(times) => Spread::of(times).show(0),
            Self::Ended => "the session ends".to_owned(),
            Self::Never => format!("never ({} s)", PATIENCE.as_secs()),
        }
    }
}

/// One contender.
pub(super) struct Revival {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    pub(super) outcome: Outcome,
    /// Whether each answer came from another process than the killed one.
    pub(super) replaced: bool,
    /// Whether all killed processes have ended.
    pub(super) killed: bool,
}

/// One kill.
struct Killed {
    insisted: Insisted,
    took: Duration,
    replaced: bool,
    killed: bool,
}

/// Which contenders recover at all: all at once, so that those that do not are waited for together. This measures no
/// time.
pub(super) fn try_once(ground: &Ground, server: &Server) -> Result<Vec<Revival>, Failure> {
    let contenders = ways::all(ground);
    let sessions = contenders.iter().map(|contender| open(contender, server)).collect::<Result<Vec<_>, _>>()?;
    watch::doing(format!("recovery: {} is killed everywhere", server.name));
    std::thread::sleep(LIVED); // a child that has lived for less is treated otherwise
    let killed = std::thread::scope(|scope| {
        let threads: Vec<_> = sessions.into_iter().map(|session| scope.spawn(move || kill(session))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| "a thread failed")?;
        threads.into_iter().map(join).collect::<Result<Vec<Killed>, Failure>>()
    })?;
    let revival = |(contender, killed): (&Contender, Killed)| {
        let outcome = match killed.insisted {
            Insisted::Answered => Outcome::Answered(Vec::new()),
            Insisted::Ended => Outcome::Ended,
            Insisted::Unanswered => Outcome::Never,
        };
        let Killed { replaced, killed, .. } = killed;
        Revival { name: contender.name(), ours: contender.ours, outcome, replaced, killed }
    };
    Ok(contenders.iter().zip(killed).map(revival).collect())
}

/// How long the contenders that recover take, with a new session each time, one after the other; and how long
/// supervisors take.
pub(super) fn time(
    ground: &Ground,
    server: &Server,
    all: &mut [Revival],
    signs: &mut [Kept],
    rounds: usize,
) -> Result<(), Failure> {
    let contenders = ways::all(ground);
    for round in 0..rounds {
        let recovers = |revival: &Revival| matches!(revival.outcome, Outcome::Answered(_));
        let mut open_ones = Vec::new();
        for (contender, revival) in contenders.iter().zip(&mut *all).filter(|(_, revival)| recovers(revival)) {
            open_ones.push((open(contender, server)?, revival));
        }
        watch::doing(format!("recovery: {} is killed, {} of {rounds}", server.name, round + 1));
        std::thread::sleep(LIVED); // a child that has lived for less is treated otherwise
        for (session, revival) in open_ones {
            let killed = kill(session)?;
            revival.replaced &= killed.replaced;
            revival.killed &= killed.killed;
            match (&mut revival.outcome, killed.insisted) {
                (Outcome::Answered(times), Insisted::Answered) => times.push(killed.took.as_secs_f64() * 1e3),
                (outcome, Insisted::Ended) => *outcome = Outcome::Ended,
                (outcome, _) => *outcome = Outcome::Never,
            }
        }
        signs.iter_mut().try_for_each(Kept::kill)?;
    }
    Ok(())
}

fn open(contender: &Contender, server: &Server) -> Result<Session, Failure> {
    watch::doing(format!("recovery: opening {}", contender.name()));
    let mut session = contender.way.open(server)?;
    session.call(&mut Request::new(200, Filling::Text))?;
    Ok(session)
}

fn kill(mut session: Session) -> Result<Killed, Failure> {
    let mut request = Request::new(200, Filling::Text);
    let old = session.servers();
    if old.is_empty() {
        return Err("no server to kill".into());
    }
    let start = Instant::now();
    old.iter().for_each(|found| found.send(Signal::KILL));
    let insisted = session.insist(&mut request, PATIENCE)?;
    let took = start.elapsed();
    let is_new =
        |found: &Found| !old.iter().any(|old| old.stat.pid == found.stat.pid && old.stat.start == found.stat.start);
    // A large one closes its files some time before it has ended.
    let killed = badchild::comes_true(PATIENCE, &mut || old.iter().all(|found| !found.is_alive()));
    Ok(Killed { insisted, took, replaced: session.servers().iter().any(is_new), killed })
}

/// A child of supervisord or pm2. No host speaks with it through them, so there is no answer; what can be seen is a new child's first
/// sign of life.
pub(super) struct Kept {
    child: Found,
    door: Door,
    _supervisor: Supervisor,
    revival: Revival,
}

impl Kept {
    pub(super) fn all(ground: &Ground) -> Result<Vec<Self>, Failure> {
        Kind::all(&ground.peers).iter().map(|kind| Self::start(ground, kind)).collect()
    }

    fn start(ground: &Ground, kind: &Kind) -> Result<Self, Failure> {
        watch::doing(format!("recovery: starting {}", kind.name()));
        let mut door = Door::new()?;
        let command: Vec<OsString> = door.staying_child(&ground.programs);
        let supervisor = kind.start(&command, 1)?;
        let child = door.next(badchild::PATIENCE)?.ok_or_else(|| format!("{} starts no child", kind.name()))?;
        let outcome = Outcome::Answered(Vec::new());
        let revival = Revival { name: kind.name(), ours: false, outcome, replaced: true, killed: true };
        Ok(Self { child, door, _supervisor: supervisor, revival })
    }

    fn kill(&mut self) -> Result<(), Failure> {
        let Outcome::Answered(times) = &mut self.revival.outcome else { return Ok(()) };
        let start = Instant::now();
        self.child.send(Signal::KILL);
        match self.door.next(PATIENCE)? {
            None => self.revival.outcome = Outcome::Never,
            Some(next) if next.stat.pid == self.child.stat.pid => return Err("a child has signed twice".into()),
            Some(next) => {
                times.push(start.elapsed().as_secs_f64() * 1e3);
                self.child = next;
            }
        }
        Ok(())
    }

    pub(super) fn into_revival(self) -> Revival {
        self.revival
    }
}

/// What was found with one server.
pub(super) struct With {
    pub(super) server: String,
    pub(super) all: Vec<Revival>,
}

pub(super) fn table(with: &[With], signs: &[Revival], rounds: usize) -> Table {
    let columns = with.iter().map(|with| format!("{}, ms", with.server));
    let columns: Vec<String> = std::iter::once(String::new()).chain(columns).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new("From `kill -9` of the server to the next answer", &columns);
    for (at, first) in with.first().map_or(&[][..], |with| &with.all).iter().enumerate() {
        let cells =
            with.iter().map(|with| with.all.get(at).map_or_else(String::new, |revival| revival.outcome.show()));
        table.row(std::iter::once(first.name.to_owned()).chain(cells));
    }
    for sign in signs {
        let rest = with.iter().skip(1).map(|_| "-".to_owned());
        table.row([format!("{}, first sign of life", sign.name), sign.outcome.show()].into_iter().chain(rest));
    }
    table.note(format!(
        "{rounds} kills each, in turns, each in a new session whose server has answered one call and lived for {LIVED:?}. The call goes out \
         right after the kill; a refused call is made again after {REFUSED:?}, and an unanswered call after \
         {UNHEARD:?}. Where a session ends, or nothing is answered within {PATIENCE:?}, it was tried once: the host \
         has to start everything anew. `nostray run` alone hands its child's end on, as if there were nothing in \
         between."
    ));
    table.note(
        "After a first crash nostray starts the server again at once, and from the second one on after 125 to 250 ms and more \
         (`--backoff`); rmcp-mux pauses for a second. supervisord and pm2 have no host that \
         speaks with their children through them; their child signs when it starts, which is sooner than a first answer.",
    );
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_have_times() {
        let answered = Outcome::Answered(vec![3.0, 1.0, 2.0]);
        assert_eq!((answered.show().as_str(), answered.spread().is_some()), ("2 (1-3)", true));
        for outcome in [Outcome::Ended, Outcome::Never] {
            assert!(outcome.spread().is_none());
        }
        assert_eq!(Outcome::Never.show(), "never (10 s)");
    }
}
