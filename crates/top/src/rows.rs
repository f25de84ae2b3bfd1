//! The part of the list that is on the screen, where children may have lines below them.

use nostray_terminal::fit::cut_middle;
use nostray_view::{Listed, Looker, explain, tree};

/// What stands below a child's line: its id and command, why it is in its state, what it saves, who holds it, and its processes.
pub(crate) fn below(child: &Listed, looker: &Looker, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    match &child.pen.record {
        Ok(record) => {
            let command = record.command.join(" ");
            let head = format!("  {}  ", child.pen.id);
            let room = width.saturating_sub(head.len());
            lines.push(format!("{head}{}", cut_middle(&command, room)));
            if let Some(shared) = record.shared.as_ref().filter(|_| child.saved().total() > 0) {
                lines.push(format!("  {} sessions, 1 child: {}", shared.leases.len(), child.saved().in_words()));
            }
            if let Some(exit) = &record.last_exit {
                lines.push(format!("  before: {}", exit.how));
            }
        }
        Err(why) => lines.push(format!("  {}", explain(why))),
    }
    lines.extend(tree::lines(child, Some(width), &|process| looker.memory_of(process)));
    lines
}

/// The first child that is on the screen, so that the selected one is, too. `rows` says how many lines a child takes. The list moves as
/// little as it can, and leaves no line empty that a child could have.
pub(crate) fn first_on_screen(
    first: usize,
    selected: usize,
    count: usize,
    height: usize,
    rows: &mut dyn FnMut(usize) -> usize,
) -> usize {
    // The fewest children that may be above the screen: from here to the end, all fit.
    let fill = |end: usize, least: usize, rows: &mut dyn FnMut(usize) -> usize| {
        let (mut at, mut used) = (end, 0);
        while at > least {
            used += rows(at - 1);
            if used > height {
                break;
            }
            at -= 1;
        }
        at
    };
    let end = (selected + 1).min(count);
    let first = first.min(selected);
    // If the selected child alone is too long, its beginning is shown.
    let first = fill(end, first, rows).min(selected);
    first.min(fill(count, 0, rows))
}

#[cfg(test)]
mod tests {
    use super::first_on_screen;

    #[test]
    fn the_selected_child_is_on_the_screen_and_no_line_is_wasted() {
        let one = &mut |_| 1;
        assert_eq!(first_on_screen(0, 0, 0, 10, one), 0);
        assert_eq!(first_on_screen(0, 9, 20, 10, one), 0);
        assert_eq!(first_on_screen(0, 10, 20, 10, one), 1);
        assert_eq!(first_on_screen(5, 7, 20, 10, one), 5);
        assert_eq!(first_on_screen(5, 3, 20, 10, one), 3);
        // Half of the children have ended.
        assert_eq!(first_on_screen(15, 11, 12, 10, one), 2);
        assert_eq!(first_on_screen(3, 2, 5, 10, one), 0);
        // The third child has more lines than the screen.
        let long = &mut |at| if at == 3 { 50 } else { 2 };
        assert_eq!(first_on_screen(0, 3, 10, 10, long), 3);
        assert_eq!(first_on_screen(3, 4, 10, 10, long), 4);
        assert_eq!(first_on_screen(4, 9, 10, 10, long), 5);
    }
}
