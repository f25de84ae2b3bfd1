//! Which pens a command is about.

use clap::Args;
use nostray_registry::Pen;

/// Options that choose pens.
#[derive(Debug, Args, Default)]
pub(crate) struct Selection {
    /// Only those of this session
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,

    /// Only those with this label; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = crate::args::label)]
    pub(crate) labels: Vec<(String, String)>,
}

impl Selection {
    pub(crate) fn is_empty(&self) -> bool {
        self.session.is_none() && self.labels.is_empty()
    }

    /// Whether a pen is meant. One whose record cannot be read has no session and no labels.
    pub(crate) fn includes(&self, pen: &Pen) -> bool {
        let Ok(record) = &pen.record else { return self.is_empty() };
        (self.session.is_none() || record.session == self.session)
            && self.labels.iter().all(|(name, value)| record.labels.get(name) == Some(value))
    }
}
