//! The keys and the columns, in words.

use nostray_terminal::Ink;

use crate::page::Line;

const HELP: [(&str, &str); 21] = [
    ("↑ ↓ j k", "select another child; PgUp, PgDn, Home, End go farther"),
    ("/", "filter by name, id, state, session, user or command"),
    ("s", "sort by the next column; its heading is marked"),
    ("t", "tree: processes and holders of the selected child, of all, of none"),
    ("r", "restart a supervised or shared child; its sessions go on"),
    ("x", "stop a child and its whole tree; asks first"),
    ("o", "output: what the child printed that is no message"),
    ("l", "log: what happened to the child, and why"),
    ("space", "pause, and go on"),
    ("Ctrl-L", "draw all of the screen again"),
    ("? h", "this page; q or Esc closes a page"),
    ("q Esc", "end; Esc takes the filter away first"),
    ("", ""),
    ("USED BY", "programs that use the child; a number for several"),
    ("MEM", "memory of its whole tree; TREND: the same over time, 5 s a step"),
    ("CPU", "of one processor, since the last refresh"),
    ("MSG/m", "messages a minute; of supervised and shared children only"),
    ("ERR/m", "calls a minute that failed; the same children"),
    ("RST", "how often the child was started again"),
    ("AGE", "since its start"),
    ("saved", "memory that a child for each session, and none asleep, would use"),
];
/// Room for a key or a heading.
const WIDTH: usize = 9;

/// The lines of the page.
pub(crate) fn lines() -> Vec<Line> {
    let line = |(head, tail): (&str, &str)| Line {
        time: None,
        head: format!("{head:WIDTH$}"),
        ink: Some(Ink::Bold),
        tail: format!(" {tail}"),
    };
    HELP.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_fits_a_terminal_of_80_columns_and_24_lines() {
        let lines = lines();
        assert!(lines.len() <= 22);
        assert!(lines.iter().all(|line| line.head.chars().count() + line.tail.chars().count() <= 80));
    }
}
