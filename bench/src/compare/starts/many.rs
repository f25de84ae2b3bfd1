//! Many servers at once, as a host has them that opens a workspace.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Failure;
use crate::compare::contenders::{Contender, Servers};
use crate::compare::{Check, Ground};
use crate::crowd::{Crowd, Look, together, until_alone};
use crate::stats::Spread;
use crate::traffic::{Filling, Request, Server, watch};

/// A server that was started without a call would be there by then.
const IDLE: Duration = Duration::from_secs(1);

/// One contender.
pub(super) struct Many {
    pub(super) name: &'static str,
    pub(super) ours: bool,
    pub(super) sessions: usize,
    wanted: Servers,
    passes: Vec<Pass>,
}

/// Milliseconds, and what was there.
struct Pass {
    greeted: f64,
    look: Look,
    /// After that, until each has been answered a call.
    called: f64,
}

impl Many {
    pub(super) fn greeted(&self) -> Spread {
        self.spread(|pass| pass.greeted)
    }

    /// From the start until each has been answered a call; the look in between is not counted.
    pub(super) fn answered(&self) -> Spread {
        self.spread(|pass| pass.greeted + pass.called)
    }

    pub(super) fn called(&self) -> Spread {
        self.spread(|pass| pass.called)
    }

    /// Sooner or later.
    pub(super) fn starts_as_many_as(&self, other: &Self) -> bool {
        (self.wanted == Servers::One) == (other.wanted == Servers::One)
    }

    /// In MiB, when all are greeted.
    pub(super) fn memory(&self) -> Spread {
        self.spread(|pass| pass.look.all() / 1024.0)
    }

    pub(super) fn servers(&self) -> usize {
        self.passes.first().map_or(0, |pass| pass.look.servers)
    }

    fn spread(&self, of: impl Fn(&Pass) -> f64) -> Spread {
        Spread::of(&self.passes.iter().map(of).collect::<Vec<_>>())
    }

    /// Whether there were as many servers as there should be.
    pub(super) fn check(&self) -> Check {
        let what = match self.wanted {
            Servers::One => "one server is started",
            Servers::Each => "as many servers are started",
            Servers::EachLater => "no server is started by being greeted",
        };
        let count = self.wanted.greeted(self.sessions);
        let held = self.passes.iter().all(|pass| pass.look.servers == count);
        Check::new(format!("of {} sessions at once with {}, {what}", self.sessions, self.name), held)
    }

    /// One of which only this is known.
    #[cfg(test)]
    pub(super) fn known(name: &'static str, sessions: usize, greeted: &[f64], called: f64, mib: f64) -> Self {
        let look = Look { servers: sessions, of_servers: mib * 1024.0, ..Look::default() };
        let pass = |&greeted: &f64| Pass { greeted, look: look.clone(), called };
        let ours = name.starts_with("nostray");
        Self { name, ours, sessions, wanted: Servers::Each, passes: greeted.iter().map(pass).collect() }
    }
}

pub(super) fn measure(
    ground: &Ground,
    server: &Server,
    sessions: usize,
    passes: usize,
) -> Result<Vec<Many>, Failure> {
    let mut contenders = vec![
        Contender::direct(),
        Contender::run(ground),
        Contender::lazy(ground),
        Contender::share_a_key_each(ground),
        Contender::share(ground),
    ];
    contenders.extend(Contender::mux(ground));
    let new = |contender: &Contender<'_>| {
        let Contender { name, ours, servers: wanted, .. } = *contender;
        Many { name, ours, sessions, wanted, passes: Vec::new() }
    };
    let mut all: Vec<Many> = contenders.iter().map(new).collect();
    for pass in 0..passes {
        for turn in 0..contenders.len() {
            let at = (pass + turn) % contenders.len();
            let contender = &contenders[at];
            watch::doing(format!("{sessions} at once: pass {} of {passes}, {}", pass + 1, contender.name));
            all[at].passes.push(one(contender, server, sessions)?);
        }
    }
    Ok(all)
}

fn one(contender: &Contender<'_>, server: &Server, count: usize) -> Result<Pass, Failure> {
    let begun = Instant::now();
    let entrance = contender.enter(server)?;
    let sessions = together(count, count, |_| entrance.open())?;
    let greeted = begun.elapsed().as_secs_f64() * 1e3;
    let mut crowd = Crowd::of(entrance, sessions);
    let look = Look::now(server)?;
    let begun = Instant::now();
    let waiting: Vec<_> = crowd.sessions.iter_mut().map(Mutex::new).collect();
    together(count, count, |at| {
        let mut session = waiting[at].lock().unwrap_or_else(PoisonError::into_inner);
        session.call(&mut Request::new(200, Filling::Text))
    })?;
    let called = begun.elapsed().as_secs_f64() * 1e3;
    drop(crowd);
    until_alone()?;
    Ok(Pass { greeted, look, called })
}

/// Whether a server of `--lazy` is there when it is called, and not before.
pub(super) fn lazy_waits(lazy: &Contender<'_>, server: &Server) -> Result<[Check; 2], Failure> {
    let entrance = lazy.enter(server)?;
    let mut session = entrance.open()?;
    // That nothing happens has no event.
    std::thread::sleep(IDLE);
    let idle = Look::now(server)?.servers;
    session.call(&mut Request::new(200, Filling::Text))?;
    let called = Look::now(server)?.servers;
    drop((session, entrance));
    until_alone()?;
    Ok([
        Check::new(
            format!("with {}, no server runs {IDLE:?} after a greeting that no call follows", lazy.name),
            idle == 0,
        ),
        Check::new(format!("with {}, one server runs after the first call", lazy.name), called == 1),
    ])
}
