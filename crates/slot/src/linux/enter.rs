//! Waiting for a slot in the process that the host has started, for as long as the host waits.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use nostray_pen::{PenId, PenOpener, Spec, Witness};
use nostray_registry::{StatusEvent, StatusLines};
use nostray_sys::Signal;
use nostray_sys::descriptors::{overwrite_line_on_stderr, write_to_stderr_at_once};
use nostray_sys::poll::{self, Until};
use nostray_sys::process::Ended;

use crate::claim::Claim;
use crate::held_slot::{HeldSlot, SlotWitness};
use crate::request::{Refusal, SlotRequest, Step};
use crate::{Error, NOT_NOW};

/// What came of it.
#[derive(Debug)]
pub enum Entered {
    /// The slot is ours.
    Got(HeldSlot),
    /// There is nothing to be started, and this is the code to exit with. Standard error has the reason.
    Over(u8),
}

/// Waits for a slot, for the pen that will be called so. A host that reads status lines is told of the wait.
pub fn enter(
    opener: &mut PenOpener,
    request: SlotRequest,
    id: &PenId,
    status: Option<&StatusLines>,
) -> Result<Entered, Error> {
    let slot = request.slot.clone();
    let mut claim = Claim::new(request, id)?.for_host(opener.host());
    let mut progress = Progress::on_terminal();
    let tell = |event: &StatusEvent<'_>| status.into_iter().for_each(|status| status.say(event));
    let over = |progress: &mut Progress, Refusal(why)| {
        progress.clear();
        tell(&StatusEvent::Refused { text: &why });
        say(&why);
        Ok(Entered::Over(NOT_NOW))
    };
    let stdin = nostray_sys::descriptors::standard_input();
    // First a look at the host: no holder is asked for anything on behalf of a host that is gone.
    let (mut timeout, mut has_waited) = (Duration::ZERO, false);
    loop {
        let mut events = vec![(opener.signals(), Until::Readable)];
        events.extend(opener.ends().map(|fd| (fd, Until::Readable)));
        let ends = events.len();
        if opener.stdin_tells() {
            events.push((stdin, Until::HungUp));
        }
        let tells = events.len();
        events.extend(claim.watches());
        let fired = poll::wait(&events, Some(timeout)).unwrap_or_else(|_| {
            // poll has failed: sleep instead.
            std::thread::sleep(Duration::from_millis(50));
            Vec::new()
        });
        let any = |range: std::ops::Range<usize>| fired.get(range).is_some_and(|fired| fired.contains(&true));
        if any(1..ends) {
            return over(&mut progress, claim.give_up("its host has ended"));
        }
        // A host may write all of its input and close it at once. That is no reason to give up before there was a wait.
        if any(ends..tells) && has_waited {
            return over(&mut progress, claim.give_up("stdin was closed"));
        }
        while let Some(arrived) = opener.next_signal() {
            if arrived.signal == Signal::TSTP {
                PenOpener::stop_with_terminal(arrived.signal);
            } else if PenOpener::is_the_end(arrived) {
                claim.give_up(&format!("{} came", arrived.signal));
                return Ok(Entered::Over(Ended::Killed(arrived.signal).shell_code()));
            }
        }
        opener.reap_others();
        match claim.step()? {
            Step::Taken(held) => return Ok(Entered::Got(held)),
            Step::Refused(refusal) => return over(&mut progress, refusal),
            Step::Waiting(news) => {
                if !has_waited {
                    tell(&StatusEvent::Waiting { slot: slot.as_str(), text: &claim.progress() });
                }
                if let Some(text) = news {
                    progress.clear();
                    say(&text);
                }
            }
        }
        has_waited = true;
        timeout = claim.deadline().saturating_duration_since(Instant::now());
        if let Some(next) = progress.show(&claim) {
            timeout = timeout.min(next);
        }
    }
}

/// Runs a command in a pen that holds a slot, and returns the exit code to end with. Where the pen's record is kept, its slot must be
/// said.
///
/// **For a program with one thread that does nothing else**, as with [`nostray_pen::run`].
pub fn run(
    spec: &Spec,
    id: PenId,
    witness: Box<dyn Witness>,
    request: SlotRequest,
    status: Option<&StatusLines>,
) -> Result<u8, nostray_pen::Error> {
    let mut opener = PenOpener::open(&spec.die_with)?;
    match enter(&mut opener, request, &id, status).map_err(|error| nostray_pen::Error::Refused(error.to_string()))? {
        Entered::Over(code) => Ok(code),
        Entered::Got(held) => opener.become_front(spec, id, Box::new(SlotWitness::new(held, witness))),
    }
}

/// One line on the terminal that is standard error, written anew each second, while the claim waits.
struct Progress {
    next: Option<Instant>,
    is_shown: bool,
}

impl Progress {
    const INTERVAL: Duration = Duration::from_secs(1);

    /// Shows nothing where standard error is no terminal: a host's log gets the news only.
    fn on_terminal() -> Self {
        let is_live = std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { next: is_live.then(|| Instant::now() + Self::INTERVAL), is_shown: false }
    }

    /// Writes the line if it is time. Returns when it is time again.
    fn show(&mut self, claim: &Claim) -> Option<Duration> {
        let now = Instant::now();
        let next = self.next.as_mut()?;
        if *next <= now {
            *next = now + Self::INTERVAL;
            overwrite_line_on_stderr(&claim.progress());
            self.is_shown = true;
        }
        Some(next.saturating_duration_since(now))
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            overwrite_line_on_stderr("");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Signals are blocked, so it must not wait for a host that does not read.
fn say(text: &str) {
    write_to_stderr_at_once(&format!("nostray: {text}\n"));
}
