//! What somebody who wants a slot does next, from what can be seen. No clock, no file and no process is in here, so that a test can
//! walk through all of it.

use std::time::Duration;

use crate::IfTaken;

/// A holder that was asked to hand over begins to end its tree within this time, or it does not hear.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// How much longer than it was promised the end of a tree may take, if those who see to it are stopped.
pub(crate) const OVERDUE: Duration = Duration::from_secs(15);

/// What can be seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sight {
    /// Somebody comes first: who waits for longer, or wants to replace.
    pub(crate) is_behind: bool,
    /// Somebody who came later wants to replace the holder, too.
    pub(crate) is_superseded: bool,
    /// The slot changes hands too often.
    pub(crate) is_loop: bool,
    /// Our host was replaced, by the holder or by a host that the holder replaced since.
    pub(crate) was_replaced: bool,
    /// It is held by somebody around us, who would never end before we do.
    pub(crate) is_our_own: bool,
    pub(crate) holder: Seen,
    /// How long ago the holder was asked to hand over.
    pub(crate) asked: Option<Duration>,
    /// For how long those have been stopped who would have to get it ready.
    pub(crate) frozen: Option<Duration>,
    /// The wait has lasted for as long as it may.
    pub(crate) is_late: bool,
    /// The wait has hardly begun: whoever has the lock and is not known may only have looked whether it is free.
    pub(crate) is_young: bool,
}

/// The holder of the slot, as seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Seen {
    /// The lock could not be had, and no more is known: it has just got it, or is about to be gone.
    #[default]
    Unknown,
    Starting,
    Settled,
    /// For how long, beyond what it was promised; if those who see to it are stopped.
    Stopping {
        overdue: Option<Duration>,
    },
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Move {
    Wait,
    /// Ask the holder to hand over.
    Ask,
    /// Let it go on: it is stopped.
    Wake,
    /// End it from outside: it does not hear.
    EndFromOutside,
    /// Only wait, from now on.
    SettleForWaiting,
    GiveUp(Because),
}

/// Why somebody gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    Taken,
    TooLate,
    Superseded,
    OurOwn,
}

/// What to do about a slot that could not be had just now.
pub(crate) fn decide(if_taken: IfTaken, sight: &Sight) -> Move {
    if sight.is_our_own {
        return Move::GiveUp(Because::OurOwn);
    }
    if sight.is_late {
        return Move::GiveUp(Because::TooLate);
    }
    match if_taken {
        IfTaken::Fail if sight.is_young && sight.holder == Seen::Unknown => return Move::Wait,
        IfTaken::Fail => return Move::GiveUp(Because::Taken),
        IfTaken::Wait => return Move::Wait,
        IfTaken::Replace => {}
    }
    // Two hosts that replaced each other in turn would never stop. The holder is named, so it must be known.
    if sight.was_replaced && sight.asked.is_none() {
        return if sight.holder == Seen::Unknown { Move::Wait } else { Move::SettleForWaiting };
    }
    if sight.is_superseded {
        return Move::GiveUp(Because::Superseded);
    }
    if sight.is_loop && sight.asked.is_none() {
        return Move::SettleForWaiting;
    }
    match (sight.holder, sight.asked) {
        _ if sight.is_behind => Move::Wait,
        // A start is never cut short for a newcomer: that is how loops begin. But one that is stopped is no start.
        (Seen::Unknown | Seen::Starting, _) => match sight.frozen {
            Some(time) if time >= OVERDUE => Move::EndFromOutside,
            Some(time) if time >= ANSWER => Move::Wake,
            _ => Move::Wait,
        },
        (Seen::Settled, None) => Move::Ask,
        (Seen::Settled, Some(time)) if time >= ANSWER => Move::EndFromOutside,
        (Seen::Settled, Some(_)) => Move::Wait,
        (Seen::Stopping { overdue: Some(time) }, _) if time >= OVERDUE => Move::EndFromOutside,
        (Seen::Stopping { .. }, _) => Move::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDERS: [Seen; 5] = [
        Seen::Unknown,
        Seen::Starting,
        Seen::Settled,
        Seen::Stopping { overdue: None },
        Seen::Stopping { overdue: Some(OVERDUE) },
    ];

    const TIMES: [Option<Duration>; 4] = [None, Some(Duration::ZERO), Some(ANSWER), Some(OVERDUE)];

    /// Everything that can be seen.
    fn every_sight() -> Vec<Sight> {
        let mut all = Vec::new();
        for bits in 0..128u8 {
            let bit = |at: u8| bits >> at & 1 == 1;
            for holder in HOLDERS {
                for (asked, frozen) in TIMES.into_iter().flat_map(|asked| TIMES.map(|frozen| (asked, frozen))) {
                    all.push(Sight {
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
    fn nobody_who_starts_is_touched_whatever_else_is_seen() {
        let starts =
            |sight: &&Sight| matches!(sight.holder, Seen::Starting | Seen::Unknown) && sight.frozen.is_none();
        for sight in every_sight().iter().filter(starts) {
            for if_taken in [IfTaken::Wait, IfTaken::Fail, IfTaken::Replace] {
                assert!(!matches!(decide(if_taken, sight), Move::Ask | Move::EndFromOutside), "{sight:?}");
            }
        }
    }

    #[test]
    fn only_who_wants_to_replace_ever_touches_anybody() {
        for sight in &every_sight() {
            for if_taken in [IfTaken::Wait, IfTaken::Fail] {
                assert!(!matches!(decide(if_taken, sight), Move::Ask | Move::EndFromOutside), "{sight:?}");
            }
        }
    }

    #[test]
    fn nobody_is_asked_in_a_loop_or_by_one_who_is_behind_or_superseded() {
        for sight in every_sight().iter().filter(|s| s.is_loop || s.is_behind || s.is_superseded) {
            assert_ne!(decide(IfTaken::Replace, sight), Move::Ask, "{sight:?}");
        }
    }

    #[test]
    fn a_host_that_was_replaced_never_touches_the_holder_and_waits_as_soon_as_it_is_known() {
        let is_meant = |s: &&Sight| s.was_replaced && s.asked.is_none() && !s.is_our_own && !s.is_late;
        for sight in every_sight().iter().filter(is_meant) {
            let known = sight.holder != Seen::Unknown;
            let expected = if known { Move::SettleForWaiting } else { Move::Wait };
            assert_eq!(decide(IfTaken::Replace, sight), expected, "{sight:?}");
        }
    }

    #[test]
    fn who_fails_never_waits_and_who_waits_gives_up_only_when_it_is_late_or_would_wait_for_itself() {
        for sight in &every_sight() {
            let only_looked = sight.is_young && sight.holder == Seen::Unknown && !sight.is_late && !sight.is_our_own;
            assert_eq!(matches!(decide(IfTaken::Fail, sight), Move::GiveUp(_)), !only_looked);
            let gives_up = matches!(decide(IfTaken::Wait, sight), Move::GiveUp(_));
            assert_eq!(gives_up, sight.is_late || sight.is_our_own);
        }
    }

    #[test]
    fn one_that_is_stopped_as_it_starts_is_woken_and_then_ended() {
        for holder in [Seen::Unknown, Seen::Starting] {
            let frozen = |time| decide(IfTaken::Replace, &Sight { holder, frozen: Some(time), ..Sight::default() });
            assert_eq!(frozen(Duration::ZERO), Move::Wait);
            assert_eq!(frozen(ANSWER), Move::Wake);
            assert_eq!(frozen(OVERDUE), Move::EndFromOutside);
        }
    }

    #[test]
    fn a_hand_over_is_asked_for_once_and_then_enforced() {
        let settled = Sight { holder: Seen::Settled, ..Sight::default() };
        assert_eq!(decide(IfTaken::Replace, &settled), Move::Ask);
        let asked = |asked| Sight { asked: Some(asked), ..settled };
        assert_eq!(decide(IfTaken::Replace, &asked(Duration::ZERO)), Move::Wait);
        assert_eq!(decide(IfTaken::Replace, &asked(ANSWER)), Move::EndFromOutside);
        // It has heard, and has all the time that it was promised.
        let stopping = Sight { holder: Seen::Stopping { overdue: None }, ..asked(ANSWER * 100) };
        assert_eq!(decide(IfTaken::Replace, &stopping), Move::Wait);
        let stuck = Sight { holder: Seen::Stopping { overdue: Some(OVERDUE) }, ..stopping };
        assert_eq!(decide(IfTaken::Replace, &stuck), Move::EndFromOutside);
    }
}
