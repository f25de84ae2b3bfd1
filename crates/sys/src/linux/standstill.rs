//! Proof that a process is stopped (SIGSTOP, a debugger) and does nothing. Time alone is no proof: a process may be slow because the
//! machine is. So it has to be seen stopped several times in a row, over some seconds, without having run in between.

use std::time::{Duration, Instant};

use crate::identity::Identity;
use crate::proc::Stat;
use crate::process::cpu_time;

/// For how long a process has to stand still.
const MIN_STOPPED_TIME: Duration = Duration::from_secs(4);
/// And how often it has to be seen so: the observer may have been stopped together with the process.
const MIN_LOOKS: u32 = 4;

/// Looks at one process from time to time.
#[derive(Debug, Clone)]
pub struct Standstill {
    process: Identity,
    seen: Option<Seen>,
}

/// What was seen of a process that is stopped.
#[derive(Debug, Clone, Copy)]
struct Seen {
    since: Instant,
    /// Processor time. It stays the same as long as the process does not run. A process under strace is stopped at each system call,
    /// and runs in between.
    cpu: u64,
    looks: u32,
}

impl Standstill {
    /// How often to look at a process that was seen stopped.
    pub const PACE: Duration = Duration::from_secs(1);

    /// Nothing was seen of this process so far.
    #[must_use]
    pub fn of(process: Identity) -> Self {
        Self { process, seen: None }
    }

    /// The process.
    #[must_use]
    pub fn who(&self) -> Identity {
        self.process
    }

    /// Whether the last look saw it stopped.
    #[must_use]
    pub fn is_suspected(&self) -> bool {
        self.seen.is_some()
    }

    /// Looks at the process. True once it is proved to be stopped.
    pub fn look(&mut self, now: Instant) -> bool {
        let stat =
            Stat::of(self.process.pid).filter(|stat| Identity::from(stat) == self.process && !stat.is_ending());
        // After its end, the last look stays known.
        let Some(stat) = stat else { return false };
        let cpu = cpu_time(self.process.pid).filter(|_| stat.is_stopped());
        self.seen = cpu.map(|cpu| match self.seen {
            Some(seen) if seen.cpu == cpu => Seen { looks: seen.looks + 1, ..seen },
            _ => Seen { since: now, cpu, looks: 1 },
        });
        self.seen.is_some_and(|seen| {
            seen.looks >= MIN_LOOKS && now.saturating_duration_since(seen.since) >= MIN_STOPPED_TIME
        })
    }

    /// What was seen so far proves nothing about what comes.
    pub fn begin_again(&mut self) {
        self.seen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pid, Signal};
    use std::process::{Child, Command};

    struct Victim(Child);

    impl Victim {
        fn start(words: &[&str]) -> Self {
            Self(Command::new(words[0]).args(&words[1..]).spawn().expect("start"))
        }

        fn identity(&self) -> Identity {
            let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("small")).expect("positive");
            Identity::of(pid).expect("is there")
        }

        fn send(&self, signal: Signal, until: impl Fn(&Stat) -> bool) {
            self.identity().open().expect("is there").send(signal).expect("signal");
            while !Stat::of(self.identity().pid).is_some_and(|stat| until(&stat)) {
                std::thread::yield_now();
            }
        }
    }

    impl Drop for Victim {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    /// So many looks, a second apart by the clock of the test.
    fn looks(standstill: &mut Standstill, from: u64, count: u64) -> Vec<bool> {
        let began = Instant::now();
        (from..from + count).map(|second| standstill.look(began + Duration::from_secs(second))).collect()
    }

    #[test]
    fn a_process_is_proved_to_be_stopped_when_it_was_seen_so_for_some_seconds() {
        let victim = Victim::start(&["sleep", "100"]);
        let mut standstill = Standstill::of(victim.identity());
        assert_eq!(looks(&mut standstill, 0, 20), [false; 20], "it sleeps");
        victim.send(Signal::STOP, Stat::is_stopped);
        assert_eq!(looks(&mut standstill, 20, 5), [false, false, false, false, true]);
        assert!(standstill.is_suspected());
        standstill.begin_again();
        assert_eq!(looks(&mut standstill, 26, 3), [false; 3]);
        let began = Instant::now();
        let late =
            |standstill: &mut Standstill, hours: u64| standstill.look(began + Duration::from_secs(3600 * hours));
        standstill.begin_again();
        assert!(
            !late(&mut standstill, 1) && !late(&mut standstill, 2),
            "two looks are not enough, however far apart"
        );
        victim.send(Signal::CONT, |stat| !stat.is_stopped());
        assert_eq!(looks(&mut standstill, 40, 6), [false; 6]);
        assert!(!standstill.is_suspected());
    }

    #[test]
    fn a_process_that_has_run_in_between_is_not_at_a_standstill() {
        let victim = Victim::start(&["sh", "-c", "while :; do :; done"]);
        let mut standstill = Standstill::of(victim.identity());
        for second in 0..12 {
            victim.send(Signal::STOP, Stat::is_stopped);
            assert_eq!(looks(&mut standstill, second, 1), [false], "it has run since the last look");
            let cpu = cpu_time(victim.identity().pid);
            victim.send(Signal::CONT, |_| cpu_time(victim.identity().pid) > cpu);
        }
    }

    #[test]
    fn another_process_with_the_same_number_is_not_meant() {
        let victim = Victim::start(&["sleep", "100"]);
        victim.send(Signal::STOP, Stat::is_stopped);
        let process = victim.identity();
        let stranger = Identity { start: crate::proc::StartTime(process.start.0 + 1), ..process };
        assert_eq!(looks(&mut Standstill::of(stranger), 0, 10), [false; 10]);
    }
}
