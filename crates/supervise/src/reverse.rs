//! What the child has asked of the host. A new child counts its requests from the beginning again, so an answer that was meant
//! for the old one must not reach it, and an id that the host still works on is not used twice.

use std::collections::HashMap;

use nostray_rpc::Id;

use crate::machine::Generation;

/// How many questions of dead children are remembered. A host may never answer what was cancelled.
const MAX_OPEN_QUESTIONS: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Reverse {
    /// By the id that the host knows.
    /// The generation is `None` when that child is gone.
    open: HashMap<Id, (Option<Generation>, Id)>,
    renamed: u64,
}

impl Reverse {
    /// The child asks. The id that the host is to see, if it must be another one.
    pub(crate) fn asked(&mut self, generation: Generation, id: Id) -> Option<Id> {
        match self.open.get(&id) {
            Some((before, _)) if *before != Some(generation) => {
                self.renamed += 1;
                let name = Id::Text(format!("nostray-{generation}-{}", self.renamed).into());
                self.open.insert(name.clone(), (Some(generation), id));
                Some(name)
            }
            _ => {
                if self.open.len() >= MAX_OPEN_QUESTIONS {
                    self.open.retain(|_, (of, _)| *of == Some(generation));
                }
                self.open.insert(id.clone(), (Some(generation), id));
                None
            }
        }
    }

    /// Whether the host still works on something for this child.
    pub(crate) fn is_waiting(&self, generation: Generation) -> bool {
        self.open.values().any(|(of, _)| *of == Some(generation))
    }

    /// The host answers: whose question that was, and how it was called there.
    pub(crate) fn answered(&mut self, id: &Id) -> Option<(Option<Generation>, Id)> {
        self.open.remove(id)
    }

    /// The child takes its question back: how the host knows it.
    pub(crate) fn withdrawn(&mut self, generation: Generation, id: &Id) -> Option<Id> {
        let known = self
            .open
            .iter()
            .find(|(_, (of, asked))| *of == Some(generation) && asked == id)
            .map(|(id, _)| id.clone())?;
        self.open.remove(&known);
        Some(known)
    }

    /// The child is gone: what the host still works on for it, by the ids that it knows.
    /// They are named once.
    pub(crate) fn orphaned(&mut self, generation: Generation) -> Vec<Id> {
        let mut orphaned = Vec::new();
        for (id, (of, _)) in &mut self.open {
            if *of == Some(generation) {
                *of = None;
                orphaned.push(id.clone());
            }
        }
        orphaned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_the_host_still_works_on_is_not_used_twice() {
        let (mut reverse, first, second) = (Reverse::default(), Generation(1), Generation(2));
        assert_eq!(reverse.asked(first, Id::Int(0)), None);
        assert_eq!(reverse.orphaned(first), [Id::Int(0)]);
        assert_eq!(reverse.orphaned(first), []);
        let renamed = reverse.asked(second, Id::Int(0)).expect("another name");
        assert_eq!(reverse.answered(&Id::Int(0)), Some((None, Id::Int(0))));
        assert_eq!(reverse.answered(&renamed), Some((Some(second), Id::Int(0))));
        assert_eq!(reverse.asked(second, Id::Int(0)), None, "free again");
        assert_eq!(reverse.withdrawn(second, &Id::Int(0)), Some(Id::Int(0)));
        assert_eq!(reverse.answered(&Id::Int(0)), None);
    }
}
