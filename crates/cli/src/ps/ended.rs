//! Children that have ended, as the journal tells it.

use nostray_registry::{Entry, Journal, Place, Story};
use nostray_terminal::table::{Table, moment, span};
use serde_json::{Value, json};

/// A pen that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    id: String,
    command: Vec<String>,
    session: Option<String>,
    started: u64,
    ended: u64,
    why: Option<String>,
    how: Option<String>,
}

impl Ended {
    pub(super) fn as_json(&self) -> Value {
        json!({ "id": self.id, "command": self.command, "session": self.session, "started": self.started,
                "ended": self.ended, "why": self.why, "how": self.how })
    }
}

pub(super) fn ended() -> Vec<Ended> {
    let mut pens: Vec<(Ended, bool)> = Vec::new();
    for Entry { time, id, story } in Place::all().iter().flat_map(|place| Journal::at(place).read()) {
        if let Story::Started { command, session, .. } = story {
            let ended = Ended { id, command, session, started: time, ended: time, why: None, how: None };
            pens.push((ended, false));
            continue;
        }
        let Some((pen, over)) = pens.iter_mut().rev().find(|(pen, _)| pen.id == id) else { continue };
        match story {
            Story::Stopping(cause) => pen.why = Some(cause.detail),
            Story::Exited { how, .. } => pen.how = Some(how),
            Story::NotExecuted { why } => {
                (pen.how, pen.why) = (Some("could not be executed".to_owned()), Some(why));
            }
            Story::Empty | Story::Swept { left: 0, .. } => {
                pen.ended = time;
                *over = true;
            }
            _ => {}
        }
    }
    pens.into_iter().filter(|(_, over)| *over).map(|(pen, _)| pen).collect()
}

pub(super) fn table(ended: &[Ended], width: Option<usize>) -> String {
    let mut table = Table::new(&["ENDED", "ID", "SESSION", "LASTED", "HOW", "WHY", "COMMAND"]);
    for pen in ended {
        table.row(vec![
            moment(pen.ended),
            pen.id.clone(),
            pen.session.clone().unwrap_or_default(),
            span(std::time::Duration::from_millis(pen.ended.saturating_sub(pen.started))),
            pen.how.clone().unwrap_or_default(),
            pen.why.clone().unwrap_or_default(),
            pen.command.join(" "),
        ]);
    }
    format!("\n{}", table.render(width))
}
