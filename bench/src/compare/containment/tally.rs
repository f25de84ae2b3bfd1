//! All cases of all passes, asked for what they came to. What was left once is left: chance is no excuse for a survivor.

use std::time::Duration;

use super::case::{Case, Ending, Tree};
use super::play::{LOOKS, Left, Outcome};

/// One contender, as the page names it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Name {
    pub(super) name: &'static str,
    /// Whether it is nostray's.
    pub(super) ours: bool,
}

/// What was seen.
pub(super) struct Tally {
    pub(super) contenders: Vec<Name>,
    pub(super) seen: Vec<(Case, Outcome)>,
}

/// In how many trees something was left, at the times of [`LOOKS`].
pub(super) type Counts = [usize; LOOKS.len()];

impl Tally {
    /// Each contender with its place.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, Name)> {
        self.contenders.iter().copied().enumerate()
    }

    pub(super) fn who(&self, name: &str) -> Option<usize> {
        self.contenders.iter().position(|contender| contender.name == name)
    }

    /// Whether so much was left in any pass, at the look with this number.
    pub(super) fn any(&self, case: Case, at: usize, is_left: impl Fn(Left) -> bool) -> bool {
        self.seen.iter().any(|(of, outcome)| *of == case && is_left(outcome.left[at]))
    }

    /// In how many trees.
    pub(super) fn trees(&self, who: usize, ending: Ending, at: usize, is_left: fn(Left) -> bool) -> usize {
        Tree::all().filter(|&tree| self.any(Case { who, tree, ending }, at, is_left)).count()
    }

    /// In how many trees something of the tree was left, at each look.
    pub(super) fn counts(&self, who: usize, ending: Ending) -> Counts {
        std::array::from_fn(|at| self.trees(who, ending, at, Left::of_tree))
    }

    /// In how many endings something of this tree was left after the last look.
    pub(super) fn endings(&self, who: usize, tree: Tree) -> usize {
        let last = LOOKS.len() - 1;
        Ending::ALL.into_iter().filter(|&ending| self.any(Case { who, tree, ending }, last, Left::of_tree)).count()
    }

    pub(super) fn latest_look(&self) -> Duration {
        self.seen.iter().map(|(_, outcome)| outcome.late).max().unwrap_or_default()
    }

    /// The contenders that have ended the host's other child.
    pub(super) fn hitters(&self) -> Vec<&'static str> {
        let hit = |who: usize| self.seen.iter().any(|(case, outcome)| case.who == who && !outcome.friend_lives);
        self.each().filter(|(who, _)| hit(*who)).map(|(_, contender)| contender.name).collect()
    }
}

/// A tally for tests: each contender leaves so many trees, the first ones, at each look.
#[cfg(test)]
pub(super) fn made_up(rows: &[(&'static str, bool, Counts)]) -> Tally {
    let contenders = rows.iter().map(|&(name, ours, _)| Name { name, ours }).collect();
    let mut seen = Vec::new();
    for (who, (_, _, counts)) in rows.iter().enumerate() {
        for ending in Ending::ALL {
            for (number, tree) in Tree::all().enumerate() {
                let left = counts.map(|count| Left { descendant: number < count, ..Left::default() });
                seen.push((Case { who, tree, ending }, Outcome { left, friend_lives: true, ..Outcome::default() }));
            }
        }
    }
    Tally { contenders, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_in_one_pass_is_left() {
        let mut tally = made_up(&[("a", false, [3, 2, 0])]);
        let again = made_up(&[("a", false, [1, 4, 1])]);
        tally.seen.extend(again.seen);
        assert_eq!(tally.counts(0, Ending::Term), [3, 4, 1]);
        let mut trees = Tree::all();
        assert_eq!(trees.next().map(|tree| tally.endings(0, tree)), Some(Ending::ALL.len()));
        assert_eq!(trees.next().map(|tree| tally.endings(0, tree)), Some(0));
    }

    #[test]
    fn a_contender_that_hits_other_processes_is_named() {
        let mut tally = made_up(&[("a", false, [0; 3]), ("b", false, [0; 3])]);
        assert!(tally.hitters().is_empty());
        tally.seen.last_mut().expect("one").1.friend_lives = false;
        assert_eq!(tally.hitters(), ["b"]);
    }
}
