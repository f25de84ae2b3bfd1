//! What happened, in words.

use std::time::Duration;

use nostray_registry::Story;
use nostray_terminal::Ink;

/// An entry in words: what happened, in its colour, and what belongs to it.
#[derive(Debug, Clone)]
pub struct Words {
    /// The colour of its head.
    pub ink: Ink,
    /// What happened.
    pub head: String,
    /// What belongs to it.
    pub tail: String,
}

/// An entry of the journal in words.
#[must_use]
pub fn of(story: &Story) -> Words {
    let text = in_words(story);
    let (ink, head) = head(story);
    // Without a head of its own, an entry is one piece.
    let length = head.map_or(text.len(), str::len);
    Words { ink, head: text[..length].to_owned(), tail: text[length..].to_owned() }
}

/// The colour of an entry, and the words that it begins with and that are in that colour; none for all of it.
fn head(story: &Story) -> (Ink, Option<&'static str>) {
    match story {
        Story::Started { .. } => (Ink::Cyan, Some("started")),
        Story::Ready { .. } => (Ink::Green, Some("ready")),
        Story::Answering { .. } => (Ink::Green, None),
        Story::NotExecuted { .. } => (Ink::Red, Some("could not be executed")),
        Story::Stopping(_) => (Ink::Yellow, Some("stopping")),
        Story::Exited { code: 0, .. } | Story::Respawning { .. } | Story::Swept { left: 0, .. } => {
            (Ink::Yellow, None)
        }
        Story::Exited { .. } | Story::Killed { .. } | Story::Unproved { .. } | Story::Swept { .. } => {
            (Ink::Red, None)
        }
        Story::Tripped { .. } => (Ink::Red, Some("given up for a while")),
        Story::Refused { .. } => (Ink::Red, Some("refused")),
        Story::Slot { .. } => (Ink::Cyan, Some("slot")),
        Story::Attached { .. } => (Ink::Cyan, Some("held")),
        Story::Detached { .. } => (Ink::Dim, Some("let go")),
        Story::Unheld { .. } => (Ink::Yellow, Some("ended")),
        _ => (Ink::Dim, None),
    }
}

fn in_words(story: &Story) -> String {
    match story {
        Story::Started { command, session, host } => {
            let session = session.as_ref().map_or_else(String::new, |session| format!(" for session {session}"));
            let host = host.as_ref().map_or_else(String::new, |host| format!(", by {host}"));
            format!("started{session}: {}{host}", command.join(" "))
        }
        Story::Ready { child: Some(child) } => format!("ready: child {child}"),
        Story::Ready { child: None } => "ready".to_owned(),
        Story::NotExecuted { why } => format!("could not be executed: {why}"),
        Story::Forked { child: Some(child) } => format!("forked into the background: the child is {child} now"),
        Story::Forked { child: None } => "forked into the background".to_owned(),
        Story::Stopping(cause) => format!("stopping: {cause}"),
        Story::Exited { how, .. } => format!("the child {how}"),
        Story::Killed { processes } => format!("{processes} did not end when asked, and are killed"),
        Story::Empty => "nothing is left of it".to_owned(),
        Story::Swept { survivors, left: 0 } => format!("swept: {survivors} were left of it"),
        Story::Swept { survivors, left } => format!("swept: {survivors} were left of it, and {left} still are"),
        Story::Unproved { candidates } => {
            format!("not proved that nothing is left: {candidates} may be of it; `nostray sweep` names them")
        }
        Story::Respawning { generation, pause, cause } => {
            let pause = humantime::format_duration(Duration::from_millis(*pause));
            format!("{cause}; number {generation} starts in {pause}")
        }
        Story::Tripped { cause } => format!("given up for a while, since it failed too often: {cause}"),
        Story::Asleep => "asleep until the next call".to_owned(),
        Story::Answering { generation, after } => format!("number {generation} answers, {after} ms after its start"),
        Story::Attached { front, leases, session } => {
            let session = session.as_ref().map_or_else(String::new, |session| format!(" ({session})"));
            format!("held by {front}{session}; {leases} in all")
        }
        Story::Detached { front, leases, why } => format!("let go by {front}: {why}; {leases} are left"),
        Story::Unheld { linger: 0 } => "ended, since no session holds it any more".to_owned(),
        Story::Unheld { linger } => {
            let linger = humantime::format_duration(Duration::from_millis(*linger));
            format!("ended, since no session has held it for {linger}")
        }
        Story::NeverRouted { by } => {
            format!("--route-by {by} never matched: no message of the child has named a session there")
        }
        Story::Apart { why } => format!("a child of its own for some sessions: {why}"),
        Story::Slot { slot, what } => format!("slot {slot}: {what}"),
        Story::Refused { why } => format!("refused: {why}"),
        _ => "something that a later version knows of".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostray_registry::Cause;

    /// The head is found by its length, so it must be what the text begins with.
    #[test]
    fn every_entry_begins_with_its_head() {
        let text = || "x".to_owned();
        let cause = Cause { reason: text(), detail: text(), sender: None };
        let stories = [
            Story::Started { command: vec![text()], session: Some(text()), host: None },
            Story::Ready { child: None },
            Story::NotExecuted { why: text() },
            Story::Stopping(cause),
            Story::Tripped { cause: text() },
            Story::Refused { why: text() },
            Story::Slot { slot: text(), what: text() },
            Story::Attached { front: 1, leases: 1, session: None },
            Story::Detached { front: 1, leases: 0, why: text() },
            Story::Unheld { linger: 0 },
            Story::Unheld { linger: 10_000 },
        ];
        for story in &stories {
            let expected = head(story).1.expect("a head");
            let words = of(story);
            assert_eq!(words.head, expected);
            assert_eq!(words.head + &words.tail, in_words(story));
        }
        assert_eq!(of(&Story::Unheld { linger: 10_000 }).tail, ", since no session has held it for 10s");
        assert_eq!(of(&Story::Empty).tail, "");
    }
}
