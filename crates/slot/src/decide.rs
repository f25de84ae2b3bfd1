//! Decides what a claim does next, from what it has seen. There is no clock, file or process in here, so that a test can walk through all
//! of it.

use std::time::Duration;

use crate::IfTaken;

/// A holder that was asked to hand over begins to end its tree within this time, or its keepers do not act.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer than its graces the end of a tree may take, if its keepers are stopped.
pub(crate) const MAX_OVERDUE: Duration = Duration::from_secs(15);

/// What can be seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Observation {
    /// Another waiter comes first: it waits for longer, or is to replace the holder.
    pub(crate) is_behind: bool,
    /// A later claim is to replace the holder, too.
    pub(crate) is_superseded: bool,
    /// The slot changes hands too often.
    pub(crate) is_loop: bool,
    /// Our host was replaced, by the holder or by a host that the holder replaced since.
    pub(crate) was_replaced: bool,
    /// The holder has started this claim, and would never end before it.
    pub(crate) is_our_own: bool,
    pub(crate) holder: HolderState,
    /// How long ago the holder was asked to hand over.
    pub(crate) asked: Option<Duration>,
    /// For how long the keepers of a holder that is not ready have been stopped.
    pub(crate) frozen: Option<Duration>,
    /// The wait has lasted for as long as it may.
    pub(crate) is_late: bool,
    /// The wait has hardly begun: an unknown process that holds the lock may only be testing whether it is free.
    pub(crate) is_young: bool,
}

/// The holder of the slot, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HolderState {
    /// The lock could not be had, and no more is known: it has just got it, or is about to be gone.
    #[default]
    Unknown,
    Starting,
    Settled,
    /// For how long beyond its graces, if its keepers are stopped.
    Stopping {
        overdue: Option<Duration>,
    },
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Wait,
    /// Ask the holder to hand over.
    Ask,
    /// Continue it: it is stopped.
    Wake,
    /// End it from outside: its keepers do not act.
    EndFromOutside,
    /// Only wait, from now on.
    OnlyWait,
    GiveUp(RefusalReason),
}

/// Why a claim is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    Taken,
    TooLate,
    Superseded,
    OurOwn,
}

/// What to do about a slot that could not be had just now.
pub(crate) fn decide(if_taken: IfTaken, seen: &Observation) -> Action {
    if seen.is_our_own {
        return Action::GiveUp(RefusalReason::OurOwn);
    }
    if seen.is_late {
        return Action::GiveUp(RefusalReason::TooLate);
    }
    match if_taken {
        IfTaken::Fail if seen.is_young && seen.holder == HolderState::Unknown => return Action::Wait,
        IfTaken::Fail => return Action::GiveUp(RefusalReason::Taken),
        // What is stopped and not on record is no holder that its user has stopped: it cannot end.
        IfTaken::Wait
            if seen.holder == HolderState::Unknown && seen.frozen.is_some_and(|time| time >= ANSWER_TIMEOUT) =>
        {
            return Action::Wake;
        }
        IfTaken::Wait => return Action::Wait,
        IfTaken::Replace => {}
    }
    // Two hosts that replaced each other in turn would never stop. The holder is named, so it must be known.
    if seen.was_replaced && seen.asked.is_none() {
        return if seen.holder == HolderState::Unknown { Action::Wait } else { Action::OnlyWait };
    }
    if seen.is_superseded {
        return Action::GiveUp(RefusalReason::Superseded);
    }
    if seen.is_loop && seen.asked.is_none() {
        return Action::OnlyWait;
    }
    match (seen.holder, seen.asked) {
        _ if seen.is_behind => Action::Wait,
        // A start is never cut short for a newcomer: that is how loops begin. But a stopped holder is not starting.
        (HolderState::Unknown | HolderState::Starting, _) => match seen.frozen {
            Some(time) if time >= MAX_OVERDUE => Action::EndFromOutside,
            Some(time) if time >= ANSWER_TIMEOUT => Action::Wake,
            _ => Action::Wait,
        },
        (HolderState::Settled, None) => Action::Ask,
        (HolderState::Settled, Some(time)) if time >= ANSWER_TIMEOUT => Action::EndFromOutside,
        (HolderState::Settled, Some(_)) => Action::Wait,
        (HolderState::Stopping { overdue: Some(time) }, _) if time >= MAX_OVERDUE => Action::EndFromOutside,
        (HolderState::Stopping { .. }, _) => Action::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDERS: [HolderState; 5] = [
        HolderState::Unknown,
        HolderState::Starting,
        HolderState::Settled,
        HolderState::Stopping { overdue: None },
        HolderState::Stopping { overdue: Some(MAX_OVERDUE) },
    ];

    const TIMES: [Option<Duration>; 4] = [None, Some(Duration::ZERO), Some(ANSWER_TIMEOUT), Some(MAX_OVERDUE)];

    /// Everything that can be seen.
    fn every_observation() -> Vec<Observation> {
        let mut all = Vec::new();
        for bits in 0..128u8 {
            let bit = |at: u8| bits >> at & 1 == 1;
            for holder in HOLDERS {
                for (asked, frozen) in TIMES.into_iter().flat_map(|asked| TIMES.map(|frozen| (asked, frozen))) {
                    all.push(Observation {
                        is_behind: bit(0),
                        is_superseded: bit(1),
                        is_loop: bit(2),
                        is_our_own: bit(3),
                        is_late: bit(4),
                        is_young: bit(5),
                        was_replaced: bit(6),
                        holder,
                        asked,
                        frozen,
                    });
                }
            }
        }
        all
    }

    #[test]
    fn a_starting_holder_that_is_not_stopped_is_never_touched() {
        let starts = |seen: &&Observation| {
            matches!(seen.holder, HolderState::Starting | HolderState::Unknown) && seen.frozen.is_none()
        };
        for seen in every_observation().iter().filter(starts) {
            for if_taken in [IfTaken::Wait, IfTaken::Fail, IfTaken::Replace] {
                assert!(!matches!(decide(if_taken, seen), Action::Ask | Action::EndFromOutside), "{seen:?}");
            }
        }
    }

    #[test]
    fn only_a_caller_that_wants_to_replace_touches_the_holder() {
        for seen in &every_observation() {
            for if_taken in [IfTaken::Wait, IfTaken::Fail] {
                assert!(!matches!(decide(if_taken, seen), Action::Ask | Action::EndFromOutside), "{seen:?}");
            }
        }
    }

    #[test]
    fn no_holder_is_asked_in_a_loop_or_by_a_caller_that_is_behind_or_superseded() {
        for seen in every_observation().iter().filter(|s| s.is_loop || s.is_behind || s.is_superseded) {
            assert_ne!(decide(IfTaken::Replace, seen), Action::Ask, "{seen:?}");
        }
    }

    #[test]
    fn a_host_that_was_replaced_never_touches_the_holder_and_waits_as_soon_as_it_is_known() {
        let is_meant = |s: &&Observation| s.was_replaced && s.asked.is_none() && !s.is_our_own && !s.is_late;
        for seen in every_observation().iter().filter(is_meant) {
            let known = seen.holder != HolderState::Unknown;
            let expected = if known { Action::OnlyWait } else { Action::Wait };
            assert_eq!(decide(IfTaken::Replace, seen), expected, "{seen:?}");
        }
    }

    #[test]
    fn fail_never_waits_and_wait_gives_up_only_when_it_is_late_or_would_wait_for_itself() {
        for seen in &every_observation() {
            let only_looked =
                seen.is_young && seen.holder == HolderState::Unknown && !seen.is_late && !seen.is_our_own;
            assert_eq!(matches!(decide(IfTaken::Fail, seen), Action::GiveUp(_)), !only_looked);
            let gives_up = matches!(decide(IfTaken::Wait, seen), Action::GiveUp(_));
            assert_eq!(gives_up, seen.is_late || seen.is_our_own);
        }
    }

    #[test]
    fn a_holder_that_is_stopped_as_it_starts_is_woken_and_then_ended() {
        for holder in [HolderState::Unknown, HolderState::Starting] {
            let frozen = |time| {
                decide(IfTaken::Replace, &Observation { holder, frozen: Some(time), ..Observation::default() })
            };
            assert_eq!(frozen(Duration::ZERO), Action::Wait);
            assert_eq!(frozen(ANSWER_TIMEOUT), Action::Wake);
            assert_eq!(frozen(MAX_OVERDUE), Action::EndFromOutside);
        }
    }

    #[test]
    fn a_caller_that_waits_wakes_what_is_stopped_and_not_on_record_and_nothing_else() {
        for seen in every_observation().iter().filter(|seen| !seen.is_our_own && !seen.is_late) {
            let is_long = seen.frozen.is_some_and(|time| time >= ANSWER_TIMEOUT);
            let wakes = seen.holder == HolderState::Unknown && is_long;
            assert_eq!(decide(IfTaken::Wait, seen) == Action::Wake, wakes, "{seen:?}");
        }
    }

    #[test]
    fn a_hand_over_is_asked_for_once_and_then_enforced() {
        let settled = Observation { holder: HolderState::Settled, ..Observation::default() };
        assert_eq!(decide(IfTaken::Replace, &settled), Action::Ask);
        let asked = |asked| Observation { asked: Some(asked), ..settled };
        assert_eq!(decide(IfTaken::Replace, &asked(Duration::ZERO)), Action::Wait);
        assert_eq!(decide(IfTaken::Replace, &asked(ANSWER_TIMEOUT)), Action::EndFromOutside);
        // It has heard, and has all the time that it was promised.
        let stopping = Observation { holder: HolderState::Stopping { overdue: None }, ..asked(ANSWER_TIMEOUT * 100) };
        assert_eq!(decide(IfTaken::Replace, &stopping), Action::Wait);
        let stuck = Observation { holder: HolderState::Stopping { overdue: Some(MAX_OVERDUE) }, ..stopping };
        assert_eq!(decide(IfTaken::Replace, &stuck), Action::EndFromOutside);
    }
}
