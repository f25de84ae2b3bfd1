//! Options that select pens by session and label.

use clap::Args;
use nostray_registry::{Labels, Lease, Pen, Record};

use crate::which::unknown_session;

/// Which pens a command applies to.
#[derive(Debug, Args, Default, Clone)]
pub(crate) struct Selection {
    /// Only children of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,

    /// Only children with this label; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = crate::args::label, hide_short_help = true)]
    pub(crate) labels: Vec<(String, String)>,
}

impl Selection {
    /// Children of this session.
    pub(crate) fn of_session(session: &str) -> Self {
        Self { session: Some(session.to_owned()), labels: Vec::new() }
    }

    /// What to say if it selects nothing.
    pub(crate) fn complaint(&self, all: &[Pen]) -> String {
        match &self.session {
            Some(session) if !all.iter().any(|pen| Self::of_session(session).includes(pen)) => {
                unknown_session(session, all)
            }
            Some(session) => {
                format!("no child of session '{session}' has these labels; `nostray ps` shows what there is")
            }
            None => "no child has these labels; `nostray ps` shows what there is".to_owned(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.session.is_none() && self.labels.is_empty()
    }

    /// Whether a pen is selected. A pen whose record cannot be read has no session and no labels. A shared pen is selected with one of
    /// its leases.
    pub(crate) fn includes(&self, pen: &Pen) -> bool {
        let Ok(record) = &pen.record else { return self.is_empty() };
        self.fits(record.session.as_ref(), &record.labels) || !self.leases(record).is_empty()
    }

    /// The selected leases of a shared child.
    pub(crate) fn leases<'a>(&self, record: &'a Record) -> Vec<&'a Lease> {
        let leases = record.shared.iter().flat_map(|shared| &shared.leases);
        leases.filter(|lease| self.fits(lease.session.as_ref(), &lease.labels)).collect()
    }

    fn fits(&self, session: Option<&String>, labels: &Labels) -> bool {
        (self.session.is_none() || session == self.session.as_ref())
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}
