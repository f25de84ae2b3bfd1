//! Whether something grows in a straight line: from the last number of sessions but one to the last.

use super::grown::{Grown, Kind};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    Memory,
    Start,
    Middle,
    Slow,
    Ps,
    Metrics,
    Top,
}

/// How something may grow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Growth {
    /// Each session adds as much as the one before.
    InProportion,
    /// It has nothing to do with how many sessions there are.
    None,
}

impl Quantity {
    pub(super) const ALL: [Self; 7] =
        [Self::Memory, Self::Start, Self::Middle, Self::Slow, Self::Ps, Self::Metrics, Self::Top];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Start => "next session",
            Self::Middle => "quiet call, p50",
            Self::Slow => "quiet call, p99",
            Self::Ps => "nostray ps",
            Self::Metrics => "nostray metrics",
            Self::Top => "nostray top",
        }
    }

    pub(super) fn of(self, grown: &Grown) -> Option<f64> {
        let value = match self {
            Self::Memory => grown.mib,
            Self::Start => grown.start.median,
            Self::Middle => grown.middle,
            Self::Slow => grown.slow,
            Self::Ps => grown.ps.median,
            Self::Metrics => grown.metrics.median,
            Self::Top => grown.top.median,
        };
        (value > 0.0).then_some(value)
    }

    fn growth(self) -> Growth {
        match self {
            Self::Memory | Self::Ps | Self::Metrics | Self::Top => Growth::InProportion,
            Self::Start | Self::Middle | Self::Slow => Growth::None,
        }
    }

    /// What may be left of a straight line on a machine that others use, too. Of a hundred calls, the slowest one says more about the
    /// machine than about nostray.
    fn most(self) -> f64 {
        match self {
            Self::Memory => 1.1,
            Self::Slow => 3.0,
            Self::Start | Self::Middle | Self::Ps | Self::Metrics | Self::Top => 1.5,
        }
    }
}

/// One of them, between two numbers of sessions.
pub(super) struct Straight {
    kind: Kind,
    pub(super) quantity: Quantity,
    from: usize,
    to: usize,
    /// How many times as much it is: for each session, or in all if sessions should not matter.
    pub(super) factor: f64,
}

pub(super) fn of(kind: Kind, all: &[Grown]) -> Vec<Straight> {
    let [.., before, last] = all else { return Vec::new() };
    let one = |quantity: Quantity| {
        let grown = quantity.of(last)? / quantity.of(before)?;
        let more = last.sessions as f64 / before.sessions as f64;
        let factor = if quantity.growth() == Growth::InProportion { grown / more } else { grown };
        Some(Straight { kind, quantity, from: before.sessions, to: last.sessions, factor })
    };
    Quantity::ALL.into_iter().filter_map(one).collect()
}

impl Straight {
    pub(super) fn most(&self) -> f64 {
        self.quantity.most()
    }

    pub(super) fn holds(&self) -> bool {
        self.factor <= self.most()
    }

    pub(super) fn words(&self) -> String {
        let Self { kind, quantity, from, to, .. } = self;
        let each = if quantity.growth() == Growth::InProportion { ", for each session" } else { "" };
        format!("{}{each}: {to} sessions / {from}, {}", quantity.words(), kind.words())
    }

    /// A sentence, if it is no straight line.
    pub(super) fn complaint(&self) -> Option<String> {
        let (words, factor, most) = (self.words(), self.factor, self.most());
        (!self.holds())
            .then(|| format!("Growth that is no straight line: {words}: {factor:.2}, and not {most:.1} at most."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Spread;

    /// With this memory, and this time for everything else.
    fn grown(sessions: usize, mib: f64, ms: f64) -> Grown {
        let spread = Spread::of(&[ms]);
        let (start, ps, metrics, top) = (spread, spread, spread, spread);
        Grown { sessions, servers: 1, listed: 1, mib, start, middle: ms, slow: ms, ps, metrics, top }
    }

    fn factor(all: &[Grown], quantity: Quantity) -> f64 {
        let found = of(Kind::OneKey, all).into_iter().find(|straight| straight.quantity == quantity);
        found.expect("it was measured").factor
    }

    #[test]
    fn what_each_session_adds_may_stay_the_same_and_no_more() {
        let straight = [grown(10, 4.0, 1.0), grown(100, 31.0, 1.0)];
        assert!(factor(&straight, Quantity::Memory) < 1.0, "the first session takes more than each further one");
        let bent = [grown(10, 4.0, 1.0), grown(100, 60.0, 1.0)];
        let complaints: Vec<String> = of(Kind::OneKey, &bent).iter().filter_map(Straight::complaint).collect();
        assert_eq!(
            complaints,
            [
                "Growth that is no straight line: memory, for each session: 100 sessions / 10, one child for all: 1.50, and not 1.1 at most."
            ]
        );
    }

    #[test]
    fn a_call_does_not_take_longer_because_others_are_there() {
        let all = [grown(1, 2.0, 9.0), grown(10, 3.0, 1.0), grown(100, 4.0, 2.0)];
        assert!((factor(&all, Quantity::Middle) - 2.0).abs() < 1e-9);
        assert!(of(Kind::OneKey, &all[..1]).is_empty());
    }
}
