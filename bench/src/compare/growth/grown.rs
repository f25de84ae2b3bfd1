//! More and more sessions, and what is measured at each number of them.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use badchild::User;

use super::frame;
use crate::Failure;
use crate::compare::contenders::Contender;
use crate::compare::{Ground, Size};
use crate::crowd::{Crowd, until_alone};
use crate::looks::time;
use crate::memory::Held;
use crate::programs::running;
use crate::stats::{Spread, percentile};
use crate::traffic::{Filling, Request, Server, Session, watch};
use crate::variants::scene;

/// What there is more and more of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    OneKey,
    AKeyEach,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::OneKey, Self::AKeyEach];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::OneKey => "one child for all",
            Self::AKeyEach => "a child each",
        }
    }

    pub(super) fn chart(self) -> &'static str {
        match self {
            Self::OneKey => "growth-sessions.svg",
            Self::AKeyEach => "growth-children.svg",
        }
    }

    pub(super) fn children(self, sessions: usize) -> usize {
        match self {
            Self::OneKey => 1,
            Self::AKeyEach => sessions,
        }
    }

    fn contender(self, ground: &Ground) -> Contender<'_> {
        match self {
            Self::OneKey => Contender::share(ground),
            Self::AKeyEach => Contender::share_a_key_each(ground),
        }
    }
}

/// How much.
pub(super) struct Amount {
    sessions: &'static [usize],
    children: &'static [usize],
    pub(super) starts: usize,
    pub(super) calls: usize,
    pub(super) looks: usize,
    /// By then start-up is over, and memory that is given back has been.
    settled: Duration,
}

/// Between two calls of the sessions that are at work, and between two of the quiet one.
const WORK_PAUSE: Duration = Duration::from_millis(2);
const QUIET_PAUSE: Duration = Duration::from_millis(3);

impl Amount {
    pub(super) fn of(size: Size) -> Self {
        let settled = Duration::from_millis(2500);
        match size {
            Size::Quick => {
                let counts = &[1, 10, 100];
                Self { sessions: counts, children: counts, starts: 5, calls: 200, looks: 3, settled }
            }
            Size::Full => Self {
                sessions: &[1, 10, 100, 1000],
                children: &[1, 10, 100, 300],
                starts: 15,
                calls: 1000,
                looks: 9,
                settled,
            },
        }
    }

    fn counts(&self, kind: Kind) -> &'static [usize] {
        match kind {
            Kind::OneKey => self.sessions,
            Kind::AKeyEach => self.children,
        }
    }

    /// Without the time that a call takes.
    pub(super) fn calls_a_second(&self) -> u128 {
        1000 / WORK_PAUSE.as_millis()
    }
}

/// With so many sessions.
pub(super) struct Grown {
    pub(super) sessions: usize,
    /// Processes of the server, and children that `nostray ps --json` shows.
    pub(super) servers: usize,
    pub(super) listed: usize,
    /// PSS of all of nostray's processes.
    pub(super) mib: f64,
    /// Milliseconds until the next session is greeted.
    pub(super) start: Spread,
    /// Milliseconds of a call of the quiet session: half of them, and 99 of 100, took no longer.
    pub(super) middle: f64,
    pub(super) slow: f64,
    /// Milliseconds of one look.
    pub(super) ps: Spread,
    pub(super) metrics: Spread,
    pub(super) top: Spread,
}

pub(super) fn measure(ground: &Ground, kind: Kind, server: &Server, amount: &Amount) -> Result<Vec<Grown>, Failure> {
    let contender = kind.contender(ground);
    let mut crowd = Crowd::of(contender.enter(server)?, Vec::new());
    let mut all = Vec::new();
    for &count in amount.counts(kind) {
        watch::doing(format!("growth: opening {count} sessions, {}", kind.words()));
        crowd.grow(count, contender.at_once)?;
        watch::doing(format!("growth: {count} sessions, {}", kind.words()));
        // What is held when nothing happens is the question.
        std::thread::sleep(amount.settled);
        all.push(one(ground, &mut crowd, server, amount)?);
    }
    watch::doing(format!("growth: ending all sessions, {}", kind.words()));
    drop(crowd);
    until_alone()?;
    Ok(all)
}

fn one(ground: &Ground, crowd: &mut Crowd, server: &Server, amount: &Amount) -> Result<Grown, Failure> {
    let nostray = ground.programs.nostray.as_path();
    let held: f64 = running(nostray).iter().map(|found| Ok(Held::of(found)?.pss)).sum::<Result<f64, Failure>>()?;
    let program = std::path::Path::new(server.command.first().ok_or("a server without a program")?);
    let servers = running(program).iter().filter(|found| server.is(found)).count();
    let scene = scene(User::Current);
    let ps = scene.command(nostray).args(["ps", "--json"]).stdin(Stdio::null()).output()?;
    // Every child has one, and nothing else has.
    let listed = String::from_utf8_lossy(&ps.stdout).matches("\"eof_grace\"").count();

    let start = |_| {
        watch::goes_on();
        let start = Instant::now();
        let next = crowd.entrance.open()?;
        let took = milliseconds(start.elapsed());
        drop(next);
        Ok(took)
    };
    let start = Spread::of(&(0..amount.starts).map(start).collect::<Result<Vec<_>, Failure>>()?);
    let calls = beside_others(crowd, amount.calls)?;
    let mut looks: [Vec<f64>; 3] = Default::default();
    for _ in 0..amount.looks {
        watch::goes_on();
        let command = |word: &str| -> Command {
            let mut command = scene.command(nostray);
            command.arg(word);
            command
        };
        let took = [time(&mut command("ps"))?, time(&mut command("metrics"))?, frame::first(&mut command("top"))?];
        for (times, took) in looks.iter_mut().zip(took) {
            times.push(took);
        }
    }
    let [ps, metrics, top] = looks.map(|times| Spread::of(&times));
    Ok(Grown {
        sessions: crowd.sessions.len(),
        servers,
        listed,
        mib: held / 1024.0,
        start,
        middle: percentile(&calls, 0.5),
        slow: percentile(&calls, 0.99),
        ps,
        metrics,
        top,
    })
}

/// Milliseconds of each call of one more session, while the others make calls in turn. So what all of them do together is the same,
/// however many they are.
fn beside_others(crowd: &mut Crowd, calls: usize) -> Result<Vec<f64>, Failure> {
    let mut quiet = crowd.entrance.open_and_call()?;
    let is_over = AtomicBool::new(false);
    let (others, is_over) = (&mut crowd.sessions, &is_over);
    std::thread::scope(|scope| {
        let work = scope.spawn(move || in_turns(others, is_over));
        let mut request = Request::new(200, Filling::Text);
        let one = |_| {
            watch::goes_on();
            std::thread::sleep(QUIET_PAUSE); // it is quiet
            Ok(milliseconds(quiet.call(&mut request)?.0))
        };
        let took: Result<Vec<f64>, Failure> = (0..calls).map(one).collect();
        is_over.store(true, Ordering::Relaxed);
        work.join().map_err(|_| "the sessions at work panicked")?.map_err(Failure::from)?;
        took
    })
}

fn in_turns(sessions: &mut [Session], is_over: &AtomicBool) -> Result<(), String> {
    let mut request = Request::new(200, Filling::Text);
    loop {
        for session in &mut *sessions {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            session.call(&mut request).map_err(|error| error.to_string())?;
            std::thread::sleep(WORK_PAUSE); // so many calls a second
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
