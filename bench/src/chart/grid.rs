//! What is either so or not, for many contenders in many cases.

use super::Chart;
use super::svg::{Anchor, Colour, HEAD, MARGIN, Paper, WIDTH, width_of};

const LEFT: f64 = 210.0;
const STEP: f64 = 26.0;
const GAP: f64 = 3.0;
/// Of the heads of the columns.
const LINE: f64 = 15.0;

/// A chart of it.
pub(crate) struct Grid {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// What each mark means, in the order of [`Mark`].
    pub(crate) legend: [&'static str; 3],
}

/// One contender.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) marks: Vec<Mark>,
    /// Whether it is nostray's.
    pub(crate) ours: bool,
}

/// What became of one case, with what to write into its field.
pub(crate) enum Mark {
    Good(String),
    Middling(String),
    Bad(String),
}

impl Mark {
    fn colour_and_text(&self) -> (Colour, &str) {
        match self {
            Self::Good(text) => (Colour::Of("good"), text),
            Self::Middling(text) => (Colour::Of("middling"), text),
            Self::Bad(text) => (Colour::Of("bad"), text),
        }
    }
}

impl Grid {
    pub(crate) fn chart(&self, file: &'static str) -> Chart {
        let width = (WIDTH - MARGIN - LEFT) / self.columns.len().max(1) as f64;
        let heads: Vec<Vec<String>> = self.columns.iter().map(|column| wrapped(column, width - 2.0 * GAP)).collect();
        let top = HEAD + 6.0 + LINE * heads.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let bottom = top + STEP * self.rows.len() as f64;
        let mut paper = Paper::new(&self.title, bottom + 40.0);
        let middle = |column: usize| LEFT + width * (column as f64 + 0.5);
        for (at, head) in heads.iter().enumerate() {
            for (line, text) in head.iter().enumerate() {
                let y = top - 8.0 - LINE * (head.len() - 1 - line) as f64;
                paper.text((middle(at), y), Anchor::Middle, "soft", text);
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            let y = top + STEP * at as f64;
            let class = if row.ours { "mine" } else { "" };
            paper.text((LEFT - 10.0, y + STEP / 2.0 + 4.0), Anchor::End, class, &row.label);
            for (column, mark) in row.marks.iter().enumerate() {
                let (colour, text) = mark.colour_and_text();
                paper.rect((LEFT + width * column as f64, y), (width - GAP, STEP - GAP), colour);
                paper.text((middle(column), y + STEP / 2.0 + 3.0), Anchor::Middle, "on", text);
            }
        }
        let mut x = MARGIN;
        for (colour, meaning) in
            [Colour::Of("good"), Colour::Of("middling"), Colour::Of("bad")].into_iter().zip(self.legend)
        {
            if meaning.is_empty() {
                continue;
            }
            paper.rect((x, bottom + 14.0), (12.0, 12.0), colour);
            paper.text((x + 18.0, bottom + 24.0), Anchor::Start, "soft", meaning);
            x += 36.0 + width_of(meaning);
        }
        Chart { file, alt: self.title.clone(), svg: paper.finish() }
    }
}

/// In lines that are no wider than this, unless a word is.
fn wrapped(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(line) + width_of(" ") + width_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_says_in_words_what_its_colour_says() {
        let marks = vec![Mark::Good("0/8".to_owned()), Mark::Bad("5/8".to_owned())];
        let grid = Grid {
            title: "t".to_owned(),
            columns: vec![
                "a".to_owned(),
                "a head that takes more than one line, and even more than two of them as it stands here".to_owned(),
            ],
            rows: vec![Row { label: "x".to_owned(), marks, ours: true }],
            legend: ["none left", "", "left"],
        };
        let svg = grid.chart("x.svg").svg;
        assert!(svg.matches("class=\"soft\"").count() > 4, "{svg}");
        assert!([">0/8<", ">5/8<"].iter().all(|text| svg.contains(text)), "{svg}");
    }
}
