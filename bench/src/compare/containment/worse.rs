//! Where others were done sooner than nostray.

use super::case::{Ending, Tree};
use super::play::LOOKS;
use super::tally::{Counts, Tally};

/// The contenders with which less was left at one of the looks, and what was left with each.
type Rivals = Vec<(&'static str, Counts)>;

/// A sentence for each case in which it is so; endings in which it came to the same are said together.
pub(super) fn worse(tally: &Tally) -> Vec<String> {
    let mut said = Vec::new();
    for (who, contender) in tally.each().filter(|(_, contender)| contender.ours) {
        let mut found: Vec<(Vec<Ending>, Counts, Rivals)> = Vec::new();
        for ending in Ending::ALL {
            let own = tally.counts(who, ending);
            let less = |counts: &Counts| counts.iter().zip(own).any(|(&theirs, own)| theirs < own);
            let others = tally.each().filter(|(_, other)| !other.ours);
            let rivals: Rivals = others
                .map(|(other, name)| (name.name, tally.counts(other, ending)))
                .filter(|(_, c)| less(c))
                .collect();
            if rivals.is_empty() {
                continue;
            }
            match found.iter_mut().find(|(_, same, others)| (same, others) == (&own, &rivals)) {
                Some((endings, ..)) => endings.push(ending),
                None => found.push((vec![ending], own, rivals)),
            }
        }
        said.extend(found.iter().map(|(endings, own, rivals)| sentence(contender.name, endings, own, rivals)));
    }
    said
}

fn sentence(name: &str, endings: &[Ending], own: &Counts, rivals: &Rivals) -> String {
    let endings: Vec<&str> = endings.iter().map(|ending| ending.name()).collect();
    let rivals: Vec<String> = rivals.iter().map(|(name, counts)| format!("{} with {name}", show(counts))).collect();
    let last = own[own.len() - 1];
    let why = if last == 0 {
        "what does not end has 2 s from the end of its input, and 5 s from SIGTERM, before it is killed".to_owned()
    } else {
        format!("{last} of {} are there for good", Tree::COUNT)
    };
    format!(
        "Containment ({}): of {} trees, something was left after {} s of {} with `{name}`, {}; {why}.",
        endings.join("; "),
        Tree::COUNT,
        LOOKS.map(|second| second.to_string()).join("/"),
        show(own),
        rivals.join(", "),
    )
}

/// Like `4/4/0`.
pub(super) fn show(counts: &Counts) -> String {
    counts.map(|count| count.to_string()).join("/")
}

#[cfg(test)]
mod tests {
    use super::super::tally::made_up;
    use super::*;

    #[test]
    fn a_contender_that_is_done_sooner_is_named_with_numbers() {
        let rows = [("fast", false, [0, 0, 0]), ("slow", false, [8, 8, 8]), ("nostray run", true, [4, 4, 0])];
        let said = worse(&made_up(&rows));
        assert_eq!(said.len(), 1, "all endings came to the same: {said:?}");
        assert!(
            said[0].contains(
                "of 8 trees, something was left after 1/5/15 s of 4/4/0 with `nostray run`, 0/0/0 with fast;"
            ),
            "{said:?}"
        );
        assert!(!said[0].contains("slow") && said[0].contains("2 s from the end of its input"), "{said:?}");
    }

    #[test]
    fn what_stays_is_not_excused_by_patience() {
        let said = worse(&made_up(&[("fast", false, [0; 3]), ("nostray run", true, [1; 3])]));
        assert!(said[0].ends_with("1 of 8 are there for good."), "{said:?}");
    }

    #[test]
    fn nothing_is_said_where_no_contender_was_sooner() {
        assert!(worse(&made_up(&[("other", false, [1, 1, 0]), ("nostray run", true, [1, 0, 0])])).is_empty());
    }
}
