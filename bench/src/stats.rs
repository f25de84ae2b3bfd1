//! Medians and their spread. On a shared machine a mean tells more about the neighbours than about the program.

/// The value below which this share (0 to 1) of the values lies. Zero for no values.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len().saturating_sub(1) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// What several passes came to: the middle one, and how far the others were from it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        Self { median: median(values), low: percentile(values, 0.0), high: percentile(values, 1.0) }
    }

    /// Whether it is more than another by more than either of them varies.
    pub(crate) fn is_above(self, other: Self) -> bool {
        self.median > other.high && self.low > other.median
    }

    /// Like `1.02 (0.98-1.07)`.
    pub(crate) fn show(self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.low, self.high)
    }
}

/// Each value divided by the one of the same pass.
pub(crate) fn ratios(values: &[f64], base: &[f64]) -> Vec<f64> {
    values.iter().zip(base).map(|(value, base)| value / base).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        assert_eq!((median(&values), percentile(&values, 0.99)), (51.0, 100.0));
        assert_eq!((percentile(&values, 0.0), percentile(&values, 1.0)), (1.0, 101.0));
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn what_varies_as_much_as_it_differs_is_not_above() {
        let low = Spread::of(&[1.0, 2.0, 3.0]);
        assert!(Spread::of(&[2.5, 4.0, 5.0]).is_above(low));
        assert!(!Spread::of(&[1.5, 4.0, 5.0]).is_above(low) && !Spread::of(&[2.5, 2.9, 5.0]).is_above(low));
        assert!(!low.is_above(low));
    }

    #[test]
    fn a_spread_names_the_ends() {
        assert_eq!(Spread::of(&[1.0, 3.0, 2.0]).show(1), "2.0 (1.0-3.0)");
    }
}
