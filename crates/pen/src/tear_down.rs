//! The one path on which every tree ends, for any reason: asked, then SIGTERM to every process, then
//! SIGKILL, each after its grace. Only *what happens when* is decided here, with no clock and no process, so
//! that a test can walk through it. `keep` carries it out.

use std::time::{Duration, Instant};

use nostray_sys::escalation::{Escalation, Step};
use nostray_sys::process::Pid;
use nostray_sys::signal::Signal;

use crate::graces::Graces;
use crate::reason::{Ask, Order, Reason};

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Hand the host's own signal to the child.
    Deliver(Signal),
    /// SIGTERM to every process of the tree.
    Terminate,
    /// SIGKILL to every process of the tree, until there is none.
    Kill,
}

/// How far a tear-down has come.
#[derive(Debug)]
pub(crate) struct TearDown {
    graces: Graces,
    /// `None` while the tree runs. *Asked* is: its input has ended, or the child got the host's signal.
    escalation: Option<Escalation>,
    stdin_closed: bool,
    /// A newcomer waits for the slot, and every process of the tree has all the time that was promised.
    hands_over: bool,
    terminal_closed: bool,
    /// The last signal that came for the front.
    signalled: Option<(Signal, Option<Pid>, Instant)>,
}

/// Within this time the same signal from the same sender is the same request: `timeout` signals a process and then its group.
const DUPLICATE_SIGNAL_WINDOW: Duration = Duration::from_millis(50);

impl TearDown {
    pub(crate) fn new(graces: Graces) -> Self {
        Self {
            graces,
            escalation: None,
            stdin_closed: false,
            hands_over: false,
            terminal_closed: false,
            signalled: None,
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.escalation.is_some()
    }

    /// The child was asked to end, and no process got SIGTERM yet.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_asked(&self) -> bool {
        matches!(self.escalation, Some(Escalation::Asked { .. }))
    }

    pub(crate) fn is_killing(&self) -> bool {
        matches!(self.escalation, Some(Escalation::Killing(_)))
    }

    /// When [`TearDown::tick`] wants to be called next.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.escalation.and_then(Escalation::deadline)
    }

    /// The child's input has ended. The reason for that follows.
    pub(crate) fn input_closed(&mut self) {
        self.stdin_closed = true;
    }

    /// There is a reason, perhaps one more.
    pub(crate) fn because(&mut self, reason: &Reason, now: Instant) -> Option<Action> {
        // The supervisor that gives an order closes the child's input, too.
        self.stdin_closed |= matches!(reason, Reason::StdinClosed | Reason::Ordered(_));
        self.hands_over |=
            matches!(reason, Reason::Ordered(Order::HandOver) | Reason::Asked { ask: Ask::HandOver, .. });
        if self.is_impatient(reason, now) {
            let is_new = !self.is_killing();
            self.escalation = Some(Escalation::Killing(1));
            return is_new.then_some(Action::Kill);
        }
        // The kernel may report it more than once, and so may we.
        if *reason == Reason::TerminalClosed && std::mem::replace(&mut self.terminal_closed, true) {
            return None;
        }
        // A host that sends SIGINT means SIGINT: a Python server cleans up on that and not on SIGTERM. So the
        // child gets it as it came, and the rest follows if it takes too long.
        let deliver = match reason {
            Reason::Signal { signal, .. } if *signal != Signal::TERM => Some(*signal),
            Reason::TerminalClosed => Some(Signal::HUP),
            _ => None,
        };
        match (self.escalation, deliver) {
            (None, Some(signal)) => {
                self.ask(now);
                Some(Action::Deliver(signal))
            }
            (Some(Escalation::Asked { .. }), Some(signal)) => Some(Action::Deliver(signal)),
            (None | Some(Escalation::Asked { .. }), None) if *reason == Reason::ChildEnded => {
                let grace = if self.hands_over { self.graces.term() } else { self.graces.leftover() };
                self.terminate(now + grace)
            }
            // The end of its input is what asks a child to end. Without it (another process holds the pipe, or stdin is no pipe) there
            // is nothing to wait for before SIGTERM.
            (None, None) if self.stdin_closed => {
                self.ask(now);
                None
            }
            (None, None) => self.terminate(now + self.graces.term()),
            (Some(Escalation::Asked { .. }), None)
                if matches!(reason, Reason::Signal { .. } | Reason::Asked { .. }) =>
            {
                self.terminate(now + self.graces.term())
            }
            // The graces were promised to the tree; the death of host or front does not shorten them.
            (Some(_), _) => None,
        }
    }

    /// Whether this reason ends all graces: `stop --now`, or a second signal of the host.
    fn is_impatient(&mut self, reason: &Reason, now: Instant) -> bool {
        match *reason {
            Reason::Asked { ask, .. } => ask == Ask::StopNow,
            Reason::Signal { signal, sender, for_front: true } => {
                let before = self.signalled.replace((signal, sender, now));
                self.has_begun()
                    && before.is_some_and(|(same, from, at)| {
                        (same, from) != (signal, sender)
                            || now.saturating_duration_since(at) > DUPLICATE_SIGNAL_WINDOW
                    })
            }
            _ => false,
        }
    }

    /// The child asks for time until then. A grace never becomes shorter by it, and SIGKILL is not delayed once it is sent.
    #[cfg(any(target_os = "linux", test))]
    pub(crate) fn extend(&mut self, to: Instant) {
        if let Some(escalation) = &mut self.escalation {
            escalation.extend(to);
        }
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Action> {
        match self.escalation.as_mut()?.tick(now)? {
            Step::Terminate(_) => Some(Action::Terminate),
            Step::Kill => Some(Action::Kill),
            Step::Done => None,
        }
    }

    fn ask(&mut self, now: Instant) {
        self.escalation = Some(Escalation::Asked { until: now + self.graces.eof(), term_grace: self.graces.term() });
    }

    fn terminate(&mut self, until: Instant) -> Option<Action> {
        self.escalation = Some(Escalation::Terminating { until });
        Some(Action::Terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn signal(signal: Signal) -> Reason {
        Reason::Signal { signal, sender: None, for_front: true }
    }

    fn every_reason() -> Vec<Reason> {
        vec![
            Reason::StdinClosed,
            Reason::HostGone,
            Reason::TerminalClosed,
            signal(Signal::TERM),
            signal(Signal::INT),
            Reason::Asked { sender: None, ask: Ask::Stop },
            Reason::Asked { sender: None, ask: Ask::StopNow },
            Reason::Asked { sender: None, ask: Ask::HandOver },
            Reason::FrontKilled,
            Reason::SpareKilled,
            Reason::GuardKilled,
            Reason::DieWithEnded(1),
            Reason::Idle(SECOND),
            Reason::ReadyTimeout { after: SECOND, missing: String::new() },
            Reason::ChildEnded,
        ]
    }

    #[test]
    fn closed_stdin_is_followed_by_term_and_then_by_kill_each_after_its_grace() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        assert_eq!(it.because(&Reason::StdinClosed, t), None);
        assert_eq!(it.tick(t + SECOND), None);
        assert_eq!(it.deadline(), Some(t + 2 * SECOND));
        assert_eq!(it.tick(t + 2 * SECOND), Some(Action::Terminate));
        assert_eq!(it.tick(t + 6 * SECOND), None);
        assert_eq!(it.tick(t + 7 * SECOND), Some(Action::Kill));
        assert_eq!(it.deadline(), None);
    }

    #[test]
    fn without_an_end_of_input_there_is_nothing_to_wait_for_before_term() {
        for reason in [Reason::HostGone, Reason::FrontKilled, signal(Signal::TERM), Reason::Idle(SECOND)] {
            let mut it = TearDown::new(Graces::default());
            assert_eq!(it.because(&reason, Instant::now()), Some(Action::Terminate), "{reason}");
        }
    }

    #[test]
    fn a_child_may_ask_for_more_time_but_not_against_a_second_signal() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        it.extend(t + 60 * SECOND);
        assert_eq!(it.deadline(), None, "nothing has begun");
        it.because(&Reason::StdinClosed, t);
        it.extend(t + SECOND);
        assert_eq!(it.deadline(), Some(t + 2 * SECOND), "not shorter");
        it.extend(t + 60 * SECOND);
        assert_eq!(it.tick(t + 59 * SECOND), None);
        assert_eq!(it.tick(t + 60 * SECOND), Some(Action::Terminate));
        it.extend(t + 90 * SECOND);
        assert_eq!(it.tick(t + 89 * SECOND), None);
        assert_eq!(
            it.because(&Reason::Asked { sender: None, ask: Ask::StopNow }, t + 89 * SECOND),
            Some(Action::Kill)
        );
        it.extend(t + 200 * SECOND);
        assert!(it.is_killing());
    }

    #[test]
    fn an_interrupt_reaches_the_child_as_an_interrupt() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        assert_eq!(it.because(&signal(Signal::INT), t), Some(Action::Deliver(Signal::INT)));
        assert_eq!(it.tick(t + 2 * SECOND), Some(Action::Terminate));
    }

    #[test]
    fn a_second_signal_ends_all_patience_but_the_first_does_not() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        it.because(&Reason::StdinClosed, t);
        assert_eq!(it.because(&signal(Signal::TERM), t), Some(Action::Terminate));
        assert_eq!(it.because(&signal(Signal::TERM), t + SECOND), Some(Action::Kill));
    }

    #[test]
    fn one_request_that_arrives_twice_is_one_request() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        assert_eq!(it.because(&signal(Signal::TERM), t), Some(Action::Terminate));
        assert_eq!(it.because(&signal(Signal::TERM), t + Duration::from_millis(5)), None);
        let for_guard = Reason::Signal { signal: Signal::TERM, sender: None, for_front: false };
        assert_eq!(it.because(&for_guard, t + SECOND), None);
        assert_eq!(it.because(&signal(Signal::INT), t + SECOND), Some(Action::Kill));
    }

    #[test]
    fn hang_ups_by_the_kernel_are_not_counted_as_impatience() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        assert_eq!(it.because(&Reason::TerminalClosed, t), Some(Action::Deliver(Signal::HUP)));
        assert_eq!(it.because(&Reason::TerminalClosed, t + SECOND), None);
    }

    #[test]
    fn graces_are_kept_when_front_and_host_die_meanwhile() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        it.because(&Reason::StdinClosed, t);
        for reason in [Reason::HostGone, Reason::FrontKilled, Reason::SpareKilled] {
            assert_eq!(it.because(&reason, t + SECOND), None, "{reason}");
        }
        assert_eq!(it.deadline(), Some(t + 2 * SECOND));
    }

    #[test]
    fn what_a_child_leaves_behind_is_given_one_short_grace() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        assert_eq!(it.because(&Reason::ChildEnded, t), Some(Action::Terminate));
        assert_eq!(it.deadline(), Some(t + SECOND));
    }

    #[test]
    fn a_hand_over_gives_what_a_child_leaves_behind_all_the_time_that_was_promised() {
        let t = Instant::now();
        for reason in [Reason::Ordered(Order::HandOver), Reason::Asked { sender: None, ask: Ask::HandOver }] {
            let mut it = TearDown::new(Graces::default());
            it.because(&reason, t);
            it.because(&Reason::ChildEnded, t);
            assert_eq!(it.deadline(), Some(t + 5 * SECOND), "{reason:?}");
        }
    }

    #[test]
    fn a_wrapper_that_ends_at_once_on_term_does_not_shorten_its_servers_grace() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::default());
        it.because(&signal(Signal::TERM), t);
        assert_eq!(it.because(&Reason::ChildEnded, t), None);
        assert_eq!(it.deadline(), Some(t + 5 * SECOND));
    }

    #[test]
    fn zero_graces_mean_at_once() {
        let t = Instant::now();
        let mut it = TearDown::new(Graces::new(Duration::ZERO, Duration::ZERO));
        it.because(&Reason::StdinClosed, t);
        assert_eq!(it.tick(t), Some(Action::Terminate));
        assert_eq!(it.tick(t), Some(Action::Kill));
    }

    #[test]
    fn graces_longer_than_time_itself_are_bounded() {
        let mut it = TearDown::new(Graces::new(Duration::MAX, Duration::MAX));
        it.because(&Reason::StdinClosed, Instant::now());
        let deadline = it.deadline().expect("asked");
        assert_eq!(it.tick(deadline), Some(Action::Terminate));
    }

    /// For all reasons in any order: once begun, the tear-down never stops and never goes back a stage.
    #[test]
    fn every_pair_of_reasons_in_every_stage_ends_in_kill() {
        let t = Instant::now();
        for first in every_reason() {
            for second in every_reason() {
                for ticks_between in 0..3 {
                    let mut it = TearDown::new(Graces::default());
                    let mut rank = 0;
                    let mut step = |action: Option<Action>| {
                        let next = match action {
                            None | Some(Action::Deliver(_)) => rank,
                            Some(Action::Terminate) => 1,
                            Some(Action::Kill) => 2,
                        };
                        assert!(next >= rank, "{first} then {second}");
                        rank = next;
                    };
                    step(it.because(&first, t));
                    assert!(it.has_begun());
                    for _ in 0..ticks_between {
                        let now = it.deadline().unwrap_or(t);
                        step(it.tick(now));
                    }
                    step(it.because(&second, t + SECOND));
                    while let Some(deadline) = it.deadline() {
                        step(it.tick(deadline));
                    }
                    assert!(it.is_killing(), "{first} then {second}");
                }
            }
        }
    }
}
