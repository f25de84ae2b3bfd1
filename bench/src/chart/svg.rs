//! The paper that charts are drawn on.

use std::fmt::Write;

pub(super) const WIDTH: f64 = 760.0;
/// From the edge of the paper to the drawing.
pub(super) const MARGIN: f64 = 16.0;
/// The title's, above everything else.
pub(super) const HEAD: f64 = 44.0;

/// A page's theme is not known inside of a picture, only the reader's wish; so the paper is coloured, too. Colours go by the name of
/// a class and not of a variable, which what is no browser does not know: there everything would be black.
const STYLE: &str = "\
    svg,.ink{color:#1f2328}.paper,.on{color:#fff}.soft{color:#59636e}.line{color:#d8dee4}.ours{color:#0969da}.other{color:#8c959f}\
    .good{color:#2da44e}.middling{color:#d4a72c}.bad{color:#cf222e}\
    @media(prefers-color-scheme:dark){svg,.ink{color:#e6edf3}.paper{color:#0d1117}.soft{color:#9198a1}.line{color:#30363d}\
    .ours{color:#58a6ff}.other{color:#6e7681}.good{color:#238636}.middling{color:#9e6a03}.bad{color:#da3633}}\
    .halo{stroke:#fff}@media(prefers-color-scheme:dark){.halo{stroke:#0d1117}}\
    text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:currentColor}\
    .title{font-size:15px;font-weight:600}.mine{font-weight:600}.halo{paint-order:stroke;stroke-width:4px}";

/// What something is drawn in.
#[derive(Clone, Copy)]
pub(super) enum Colour {
    /// A class of the style, which is another colour on dark paper.
    Of(&'static str),
    /// The same on any paper.
    Fixed(&'static str),
}

impl Colour {
    /// The attributes with which a shape has it.
    fn as_paint(self, property: &str) -> String {
        match self {
            Self::Of(class) => format!("class=\"{class}\" {property}=\"currentColor\""),
            Self::Fixed(colour) => format!("{property}=\"{colour}\""),
        }
    }
}

/// Where a text stands to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making.
pub(super) struct Paper {
    body: String,
    height: f64,
}

impl Paper {
    pub(super) fn new(title: &str, height: f64) -> Self {
        let mut paper = Self { body: String::new(), height };
        paper.put(format_args!("<title>{}</title>", escaped(title)));
        paper.put(format_args!("<style>{STYLE}</style>"));
        paper.rect((0.0, 0.0), (WIDTH, height), Colour::Of("paper"));
        paper.text((MARGIN, 28.0), Anchor::Start, "title", title);
        paper
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        ));
    }

    /// The same in a colour that is no class of its own.
    pub(super) fn coloured(&mut self, (x, y): (f64, f64), class: &str, colour: Colour, text: &str) {
        let text = escaped(text);
        let look = match colour {
            Colour::Of(colour) => format!("class=\"{class} {colour}\""),
            Colour::Fixed(colour) => format!("class=\"{class}\" style=\"fill:{colour}\""),
        };
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {look}>{text}</text>"));
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        let fill = colour.as_paint("fill");
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\" {fill}/>"
        ));
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let ((x1, y1), (x2, y2), stroke) = (from, to, colour.as_paint("stroke"));
        self.put(format_args!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {stroke}/>"));
    }

    /// A faint line from the end of a curve to its name.
    pub(super) fn thread(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let ((x1, y1), (x2, y2), stroke) = (from, to, colour.as_paint("stroke"));
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {stroke} stroke-width=\"1\" stroke-dasharray=\"1 3\"/>"
        ));
    }

    pub(super) fn path(&mut self, points: &[(f64, f64)], width: f64, colour: Colour) {
        let stroke = colour.as_paint("stroke");
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" {stroke} stroke-width=\"{width}\"/>",
            points.join(" ")
        ));
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: Colour) {
        let fill = colour.as_paint("fill");
        self.put(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" {fill}/>"));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, height } = self;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             role=\"img\">\n{body}</svg>\n"
        )
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to memory cannot fail.
        writeln!(self.body, "{what}").ok();
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// How wide a text is, about: no font is known here.
pub(super) fn width_of(text: &str) -> f64 {
    6.7 * text.chars().count() as f64
}

/// A number as a reader wants it: `12,300`, `0.42`.
pub(super) fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let groups: Vec<&str> = {
        let first = whole.len() % 3;
        let (head, tail) = whole.split_at(first);
        let tail = (0..tail.len()).step_by(3).map(|at| &tail[at..at + 3]);
        std::iter::once(head).filter(|head| !head.is_empty()).chain(tail).collect()
    };
    let rest = rest.map(|rest| format!(".{rest}")).unwrap_or_default();
    format!("{sign}{}{rest}", groups.join(","))
}

/// The powers of ten around these values, the ends included.
pub(super) fn decades(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for exponent in values.filter(|value| *value > 0.0).map(f64::log10) {
        low = low.min(exponent.floor());
        high = high.max(exponent.ceil());
    }
    if low > high {
        return vec![1.0, 10.0];
    }
    let high = high.max(low + 1.0);
    (low as i32..=high as i32).map(|exponent| 10f64.powi(exponent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let shown = [(1_234_567.0, 0), (999.0, 0), (1000.5, 1), (-4321.0, 0), (0.25, 2)];
        let shown: Vec<String> = shown.into_iter().map(|(value, digits)| number(value, digits)).collect();
        assert_eq!(shown, ["1,234,567", "999", "1,000.5", "-4,321", "0.25"]);
    }

    #[test]
    fn decades_hold_all_values() {
        assert_eq!(decades([3.0, 450.0].into_iter()), [1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(decades([10.0].into_iter()), [10.0, 100.0]);
        assert_eq!(decades(std::iter::empty()), [1.0, 10.0]);
    }

    #[test]
    fn what_is_written_is_no_markup() {
        let svg = Paper::new("a < b & \"c\"", 100.0).finish();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"), "{svg}");
    }
}
