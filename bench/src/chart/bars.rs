//! One number of many contenders.

use super::Chart;
use super::svg::{Anchor, Colour, HEAD, MARGIN, Paper, WIDTH, decades, number, width_of};
use crate::stats::Spread;

/// Where bars may end; numbers are behind that.
const RIGHT: f64 = WIDTH - 130.0;
const STEP: f64 = 28.0;
const THICK: f64 = 18.0;

/// A chart of it.
pub(crate) struct Bars {
    /// What was measured, and in what, like `Memory of 32 sessions, MiB`.
    pub(crate) title: String,
    pub(crate) scale: Scale,
    pub(crate) digits: usize,
    pub(crate) bars: Vec<Bar>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// For values some of which are many times the others.
    Logarithmic,
}

/// One contender.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// Median, and its ends as whiskers; nothing if there is no number, for a reason that the label gives.
    pub(crate) value: Option<Spread>,
    /// Whether it is nostray's.
    pub(crate) ours: bool,
}

impl Bars {
    pub(crate) fn chart(&self, file: &'static str) -> Chart {
        let axis = Axis::new(self);
        let left = axis.left;
        let bottom = HEAD + STEP * self.bars.len() as f64;
        let mut paper = Paper::new(&self.title, bottom + 34.0);
        for &tick in &axis.ticks {
            let x = axis.place(tick);
            paper.line((x, HEAD - 4.0), (x, bottom), Colour::Of("line"));
            let digits = if tick.abs() < 1.0 && tick != 0.0 { 2 } else { 0 };
            paper.text((x, bottom + 18.0), Anchor::Middle, "soft", &number(tick, digits));
        }
        for (at, bar) in self.bars.iter().enumerate() {
            let top = HEAD + STEP * at as f64 + (STEP - THICK) / 2.0;
            let middle = top + THICK / 2.0;
            let class = if bar.ours { "mine" } else { "" };
            let number_class = if bar.ours { "mine halo" } else { "halo" };
            paper.text((left - 10.0, middle + 4.0), Anchor::End, class, &bar.label);
            let Some(value) = bar.value else {
                paper.text((left + 6.0, middle + 4.0), Anchor::Start, "soft", "-");
                continue;
            };
            let (end, low, high) = (axis.place(value.median), axis.place(value.low), axis.place(value.high));
            let colour = if bar.ours { Colour::Of("ours") } else { Colour::Of("other") };
            paper.rect((left, top), ((end - left).max(2.0), THICK), colour);
            if high - low > 3.0 {
                paper.line((low, middle), (high, middle), Colour::Of("ink"));
                paper.line((low, middle - 4.0), (low, middle + 4.0), Colour::Of("ink"));
                paper.line((high, middle - 4.0), (high, middle + 4.0), Colour::Of("ink"));
            }
            let text = number(value.median, self.digits);
            paper.text((end.max(high) + 8.0, middle + 4.0), Anchor::Start, number_class, &text);
        }
        paper.line((left, HEAD - 4.0), (left, bottom), Colour::Of("soft"));
        if self.scale == Scale::Logarithmic {
            paper.text((MARGIN, bottom + 18.0), Anchor::Start, "soft", "logarithmic scale");
        }
        Chart { file, alt: self.title.clone(), svg: paper.finish() }
    }
}

/// From values to places.
struct Axis {
    scale: Scale,
    /// Where bars begin: behind the longest label.
    left: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn new(chart: &Bars) -> Self {
        let values =
            || chart.bars.iter().filter_map(|bar| bar.value).flat_map(|value| [value.median, value.low, value.high]);
        let ticks = match chart.scale {
            // Room enough for the shortest bar to be one.
            Scale::Logarithmic => decades(values().chain(values().map(|value| value / 2.0))),
            Scale::Linear => {
                let highest = values().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
                let rough = highest / 4.0;
                let power = 10f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
                let step = step.unwrap_or(rough);
                (0..=(highest / step).ceil() as i32).map(|count| f64::from(count) * step).collect()
            }
        };
        let longest = chart.bars.iter().map(|bar| width_of(&bar.label)).fold(120.0, f64::max);
        Self { scale: chart.scale, left: MARGIN + longest + 16.0, ticks }
    }

    fn place(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks.first().copied().unwrap_or(0.0), self.ticks.last().copied().unwrap_or(1.0));
        let part = match self.scale {
            Scale::Linear => value / last,
            // What is nothing has no logarithm, and stands at the edge.
            Scale::Logarithmic => (value.max(first) / first).log10() / (last / first).log10(),
        };
        self.left + part.clamp(0.0, 1.0) * (RIGHT - self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(scale: Scale, values: &[f64]) -> Bars {
        let bar = |&value| Bar { label: "x".to_owned(), value: Some(Spread::of(&[value])), ours: false };
        Bars { title: "t".to_owned(), scale, digits: 0, bars: values.iter().map(bar).collect() }
    }

    #[test]
    fn the_longest_bar_ends_inside_and_a_half_is_half_as_long() {
        let axis = Axis::new(&bars(Scale::Linear, &[50.0, 100.0]));
        let (half, whole) = (axis.place(50.0) - axis.left, axis.place(100.0) - axis.left);
        assert!((whole - 2.0 * half).abs() < 1e-9 && axis.place(100.0) <= RIGHT, "{half} {whole}");
    }

    #[test]
    fn ten_times_as_much_is_one_step_more() {
        let axis = Axis::new(&bars(Scale::Logarithmic, &[2.0, 2000.0]));
        let step = axis.place(20.0) - axis.place(2.0);
        assert!((axis.place(2000.0) - axis.place(200.0) - step).abs() < 1e-9);
        assert!((axis.place(0.0) - axis.left).abs() < 1e-9);
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_fail() {
        let nothing =
            Bars { bars: vec![Bar { label: "x".to_owned(), value: None, ours: true }], ..bars(Scale::Linear, &[]) };
        assert!(nothing.chart("x.svg").svg.ends_with("</svg>\n"));
    }
}
