//! Which pens a command is about.

use clap::Args;
use nostray_registry::{Labels, Lease, Pen, Record};

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

    /// Whether a pen is meant. One whose record cannot be read has no session and no labels; one that is shared is meant if one of
    /// those who hold it is.
    pub(crate) fn includes(&self, pen: &Pen) -> bool {
        let Ok(record) = &pen.record else { return self.is_empty() };
        self.fits(record.session.as_ref(), &record.labels) || !self.leases(record).is_empty()
    }

    /// Those who hold a shared child and are meant.
    pub(crate) fn leases<'a>(&self, record: &'a Record) -> Vec<&'a Lease> {
        let leases = record.shared.iter().flat_map(|shared| &shared.leases);
        leases.filter(|lease| self.fits(lease.session.as_ref(), &lease.labels)).collect()
    }

    fn fits(&self, session: Option<&String>, labels: &Labels) -> bool {
        (self.session.is_none() || session == self.session.as_ref())
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}
