//! Sentences about what nostray is behind in.

use crate::stats::Spread;

/// What was measured of one contender.
#[derive(Clone)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) value: Spread,
}

impl Measured {
    pub(super) fn new(name: impl Into<String>, value: Spread) -> Self {
        Self { name: name.into(), value }
    }
}

/// How a number is said.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) digits: usize,
}

impl Unit {
    fn say(self, value: f64) -> String {
        format!("{value:.*} {}", self.digits, self.name)
    }
}

/// A sentence, if less is better and one of the others has less by more than chance.
pub(super) fn behind(what: &str, unit: Unit, ours: &Measured, others: &[Measured]) -> Option<String> {
    let ahead: Vec<String> = others
        .iter()
        .filter(|other| is_less(other.value, ours.value))
        .map(|other| format!("{} {}", other.name, unit.say(other.value.median)))
        .collect();
    let own = format!("{} {}", ours.name, unit.say(ours.value.median));
    (!ahead.is_empty()).then(|| format!("{what}: {own}; {}.", ahead.join(", ")))
}

/// Less by a twentieth, and so in every pass.
fn is_less(one: Spread, other: Spread) -> bool {
    one.median < 0.95 * other.median && one.median < other.low
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Unit = Unit { name: "ms", digits: 1 };

    fn measured(name: &str, values: &[f64]) -> Measured {
        Measured::new(name, Spread::of(values))
    }

    #[test]
    fn a_faster_contender_is_named_with_numbers() {
        let ours = measured("`nostray ps`", &[8.0, 9.0, 10.0]);
        let others = [measured("`ps -e`", &[4.0, 5.0, 6.0]), measured("`pm2 jlist`", &[400.0])];
        let said = behind("Looking at one pen", MS, &ours, &others);
        assert_eq!(said.as_deref(), Some("Looking at one pen: `nostray ps` 9.0 ms; `ps -e` 5.0 ms."));
    }

    #[test]
    fn chance_is_not_a_difference() {
        let ours = measured("a", &[5.0, 9.0, 10.0]);
        assert_eq!(behind("x", MS, &ours, &[measured("b", &[8.0]), measured("c", &[9.0])]), None);
    }
}
