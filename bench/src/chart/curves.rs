//! How something grows. Both axes are logarithmic: what grows in proportion is a straight line.

use super::Chart;
use super::svg::{Anchor, Colour, HEAD, MARGIN, Paper, WIDTH, decades, number, width_of};

const LEFT: f64 = 70.0;
/// From the end of the curves to their names, which stand in a column of their own: no curve runs through it.
const GAP: f64 = 24.0;
const TOP: f64 = HEAD + 6.0;
const BOTTOM: f64 = 340.0;
/// Between two names.
const APART: f64 = 15.0;
/// Of the others, which have to be told apart; dark and light enough for either paper.
const COLOURS: [&str; 7] = ["#bc4c00", "#8250df", "#1a7f37", "#bf3989", "#9a6700", "#57606a", "#0a8a8a"];

/// A chart of it.
pub(crate) struct Curves {
    pub(crate) title: String,
    /// What grows, like `sessions`.
    pub(crate) across: &'static str,
    pub(crate) curves: Vec<Curve>,
}

/// One contender.
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Whether it is nostray's.
    pub(crate) ours: bool,
}

impl Curves {
    pub(crate) fn chart(&self, file: &'static str) -> Chart {
        let mut paper = Paper::new(&self.title, BOTTOM + 52.0);
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        let ups = decades(points().map(|(_, y)| y));
        let mut acrosses: Vec<f64> = points().map(|(x, _)| x).collect();
        acrosses.sort_by(f64::total_cmp);
        acrosses.dedup();
        let farthest = acrosses.last().copied().unwrap_or(1.0);
        let longest = self.curves.iter().map(|curve| width_of(&curve.name(farthest))).fold(0.0, f64::max);
        let right = WIDTH - MARGIN - longest - GAP;
        let place = |value: f64, ends: &[f64], from: f64, to: f64| {
            let (first, last) = (ends.first().copied().unwrap_or(1.0), ends.last().copied().unwrap_or(10.0));
            let part = if last > first { (value.max(first) / first).log10() / (last / first).log10() } else { 0.5 };
            from + part * (to - from)
        };
        let at = |(x, y): (f64, f64)| (place(x, &acrosses, LEFT, right), place(y, &ups, BOTTOM, TOP));
        for &tick in &ups {
            let y = place(tick, &ups, BOTTOM, TOP);
            paper.line((LEFT, y), (right, y), Colour::Of("line"));
            let digits = if tick < 0.1 { 2 } else { usize::from(tick < 1.0) };
            paper.text((LEFT - 8.0, y + 4.0), Anchor::End, "soft", &number(tick, digits));
        }
        for &tick in &acrosses {
            let x = place(tick, &acrosses, LEFT, right);
            paper.line((x, BOTTOM), (x, BOTTOM + 5.0), Colour::Of("soft"));
            paper.text((x, BOTTOM + 20.0), Anchor::Middle, "soft", &number(tick, 0));
        }
        paper.text((f64::midpoint(LEFT, right), BOTTOM + 40.0), Anchor::Middle, "soft", self.across);

        let mut others = COLOURS.iter().cycle();
        let mut names = Vec::new();
        for curve in &self.curves {
            let colour = if curve.ours {
                Colour::Of("ours")
            } else {
                others.next().map_or(Colour::Of("other"), |&colour| Colour::Fixed(colour))
            };
            let places: Vec<(f64, f64)> = curve.points.iter().copied().map(at).collect();
            paper.path(&places, if curve.ours { 2.5 } else { 1.5 }, colour);
            places.iter().for_each(|&place| paper.dot(place, colour));
            if let Some(&end) = places.last() {
                names.push(Name { end, colour, curve });
            }
        }
        names.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
        let heights = apart(&names.iter().map(|name| name.end.1).collect::<Vec<_>>());
        for (Name { end: (x, y), colour, curve }, height) in names.into_iter().zip(heights) {
            let class = if curve.ours { "mine" } else { "" };
            paper.thread((x + 5.0, y), (right + GAP - 4.0, height), colour);
            paper.coloured((right + GAP, height + 4.0), class, colour, &curve.name(farthest));
        }
        Chart { file, alt: self.title.clone(), svg: paper.finish() }
    }
}

impl Curve {
    /// What is written behind it: its last value, and of how many that is, unless it is of as many as those of the longest curve.
    fn name(&self, farthest: f64) -> String {
        let Some(&(x, last)) = self.points.last() else { return self.label.clone() };
        let digits = if last < 10.0 { 2 } else { 0 };
        let of = if x < farthest { format!(" at {}", number(x, 0)) } else { String::new() };
        format!("{} {}{of}", self.label, number(last, digits))
    }
}

/// A curve whose name is still to be written, and where the curve ends.
struct Name<'a> {
    end: (f64, f64),
    colour: Colour,
    curve: &'a Curve,
}

/// Moves names, from the top to the bottom, as little as it takes for none to cover another.
fn apart(heights: &[f64]) -> Vec<f64> {
    let mut placed: Vec<f64> = Vec::new();
    for &height in heights {
        let least = placed.last().map_or(f64::NEG_INFINITY, |last| last + APART);
        placed.push(height.max(least));
    }
    // A name that was pushed below the paper's edge pushes the names above it up.
    let mut most = BOTTOM + 8.0;
    for height in placed.iter_mut().rev() {
        *height = height.min(most);
        most = *height - APART;
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_cover_each_other() {
        let placed = apart(&[100.0, 101.0, 102.0, 300.0, BOTTOM, BOTTOM]);
        assert!(placed.windows(2).all(|two| two[1] - two[0] >= APART - 1e-9), "{placed:?}");
        assert!(placed.iter().all(|height| *height <= BOTTOM + 8.0), "{placed:?}");
    }

    #[test]
    fn names_stand_beside_the_curves_also_of_a_curve_that_ends_early() {
        let curve = |label: &str, points: &[(f64, f64)]| Curve {
            label: label.to_owned(),
            points: points.to_vec(),
            ours: false,
        };
        let curves = vec![
            curve("long", &[(1.0, 1.0), (10.0, 5.0), (1000.0, 900.0)]),
            curve("a name that takes much room", &[(1.0, 400.0), (100.0, 410.0)]),
        ];
        let svg = Curves { title: "t".to_owned(), across: "pens", curves }.chart("x.svg").svg;
        assert!(svg.contains(">a name that takes much room 410 at 100<") && svg.contains(">long 900<"), "{svg}");
        let numbers = |line: &str, name: &str| -> Vec<f64> {
            let attribute = format!("{name}=\"");
            let parts = line.split(&attribute).skip(1);
            parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
        };
        let dots = svg.lines().filter(|line| line.starts_with("<circle")).flat_map(|line| numbers(line, "cx"));
        let last = dots.fold(0.0, f64::max);
        let names = svg.lines().filter(|line| line.contains(">long") || line.contains(">a name"));
        assert!(names.flat_map(|line| numbers(line, " x")).all(|x| x > last), "{svg}");
    }

    #[test]
    fn a_single_point_is_drawn() {
        let curve = Curve { label: "x".to_owned(), points: vec![(1.0, 5.0)], ours: true };
        let chart = Curves { title: "t".to_owned(), across: "pens", curves: vec![curve] }.chart("x.svg");
        assert!(chart.svg.contains("<circle") && !chart.svg.contains("NaN"), "{}", chart.svg);
    }
}
