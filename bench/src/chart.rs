//! Charts as SVG, which show themselves in light and dark, with nothing to load. Three kinds: bars for one number of many contenders,
//! curves for growth, and a grid for what is either so or not.

mod bars;
mod curves;
mod grid;
mod svg;

pub(crate) use bars::{Bar, Bars, Scale};
pub(crate) use curves::{Curve, Curves};
pub(crate) use grid::{Grid, Mark, Row};

/// One picture, and what to say where it cannot be seen.
pub(crate) struct Chart {
    /// Like `messages.svg`.
    pub(crate) file: &'static str,
    pub(crate) alt: String,
    pub(crate) svg: String,
}

impl Chart {
    /// How a page in Markdown shows it.
    pub(crate) fn link(&self, folder: &str) -> String {
        format!("![{}]({folder}/{})", self.alt, self.file)
    }
}
