//! Many sessions at the same time, and what all of their processes hold together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::traffic::{Filling, Request, Server, Session, watch};
use crate::variants::{Started, Variant};
use crate::{Failure, around, memory};

/// How sessions come to a server, once what has to be there for all of them is.
pub(crate) struct Entrance {
    variant: Variant,
    server: Server,
    /// Ended after the sessions.
    _beside: Option<Started>,
}

impl Entrance {
    /// Each session starts all that it needs.
    pub(crate) fn through(variant: Variant, server: &Server) -> Self {
        Self { variant, server: server.clone(), _beside: None }
    }

    /// To a server that a gateway or a daemon has started for all sessions; each session starts a process that connects
    /// to it.
    pub(crate) fn beside((started, variant): (Started, Variant), server: &Server) -> Self {
        Self { variant, server: Server { command: Vec::new(), ..server.clone() }, _beside: Some(started) }
    }

    /// A session that has been greeted.
    pub(crate) fn open(&self) -> Result<Session, Failure> {
        Session::open(&self.variant, &self.server)
    }

    /// A session that has made a call, too.
    pub(crate) fn open_and_call(&self) -> Result<Session, Failure> {
        let mut session = self.open()?;
        session.call(&mut Request::new(200, Filling::Text))?;
        Ok(session)
    }
}

/// Sessions, ended together.
pub(crate) struct Crowd {
    pub(crate) sessions: Vec<Session>,
    pub(crate) entrance: Entrance,
}

impl Crowd {
    /// Opens so many sessions, has each make a call, and waits until all is quiet.
    pub(crate) fn gather(
        entrance: Entrance,
        count: usize,
        at_once: usize,
        settled: Duration,
    ) -> Result<Self, Failure> {
        let mut crowd = Self::of(entrance, Vec::new());
        crowd.grow(count, at_once)?;
        // What is held when nothing happens is the question.
        std::thread::sleep(settled);
        Ok(crowd)
    }

    /// Opens more sessions until there are so many, a few at once, and has each make a call.
    pub(crate) fn grow(&mut self, count: usize, at_once: usize) -> Result<(), Failure> {
        let entrance = &self.entrance;
        self.sessions.extend(together(count.saturating_sub(self.sessions.len()), at_once, |_| {
            let session = entrance.open_and_call()?;
            watch::goes_on();
            Ok(session)
        })?);
        Ok(())
    }

    pub(crate) fn of(entrance: Entrance, sessions: Vec<Session>) -> Self {
        Self { sessions, entrance }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        badchild::in_parallel(std::mem::take(&mut self.sessions), drop);
    }
}

/// Does something so many times, a few at once, and returns what came of it; nothing more is begun after a failure.
pub(crate) fn together<T: Send>(
    count: usize,
    at_once: usize,
    one: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Ok(Vec::new())));
    let lock = || done.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while lock().is_ok() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        return;
                    }
                    let came = one(at);
                    let mut done = lock();
                    match (done.as_mut(), came) {
                        (Ok(all), Ok(value)) => all.push(value),
                        (Ok(_), Err(error)) => *done = Err(error),
                        (Err(_), _) => {}
                    }
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until all processes of the run but this one have gone.
pub(crate) fn until_alone() -> Result<(), Failure> {
    if badchild::comes_true(badchild::PATIENCE, &mut || around::company().is_empty()) {
        return Ok(());
    }
    let left: Vec<String> =
        around::company().iter().map(|found| format!("{} {}", found.stat.pid, found.command)).collect();
    Err(format!("still running although no session is open: {left:#?}").into())
}

/// One look at all processes of the run, in KiB of PSS.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// How many processes are the server.
    pub(crate) servers: usize,
    pub(crate) of_servers: f64,
    /// All other processes: what is around the servers.
    pub(crate) around: f64,
    /// A part of that.
    pub(crate) of_broker: f64,
}

impl Look {
    pub(crate) fn now(server: &Server) -> Result<Self, Failure> {
        let mut look = Self::default();
        for found in around::company() {
            let is_server = server.is(&found);
            let pss = match memory::Held::of(&found) {
                Ok(held) => held.pss,
                Err(_) if !found.is_alive() => continue,
                Err(error) => return Err(error),
            };
            if is_server {
                look.servers += 1;
                look.of_servers += pss;
            } else {
                look.around += pss;
            }
            if found.stat.name == "nostray-broker" {
                look.of_broker += pss;
            }
        }
        Ok(look)
    }

    pub(crate) fn all(&self) -> f64 {
        self.of_servers + self.around
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_done_once_however_many_are_done_at_once() {
        for at_once in [0, 1, 3, 100] {
            let mut done = together(7, at_once, Ok).expect("none fails");
            done.sort_unstable();
            assert_eq!(done, (0..7).collect::<Vec<_>>());
        }
        assert!(together(0, 4, Ok).expect("none fails").is_empty());
    }

    #[test]
    fn one_failure_fails_all() {
        let failed = together(50, 4, |at| if at == 3 { Err("three".into()) } else { Ok(at) });
        assert_eq!(failed.expect_err("one fails").to_string(), "three");
    }
}
