//! What makes two sessions share a child. It lives in the broker's memory alone, and only as a digest that no other broker would
//! make: an environment is full of secrets.

use std::collections::BTreeMap;
use std::collections::hash_map::{DefaultHasher, RandomState};
use std::ffi::OsString;
use std::hash::{BuildHasher, Hash, Hasher};

use nostray_pen::Isolation;
use nostray_supervise::Protocol;
use nostray_supervise::wire::{Attach, OsText, ReverseTo};

use crate::environment;

/// Says which child is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64, u64);

/// What keys are made with: another one for each broker.
#[derive(Debug, Default)]
pub(crate) struct Salt(RandomState, RandomState);

/// What a session is found by.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) key: Key,
    /// The same for all variants.
    pub(crate) base: Key,
    pub(crate) parts: Parts,
}

/// What a key is made of, part by part, each as a digest: enough to say in which parts two keys differ, and no more.
#[derive(Debug)]
pub(crate) struct Parts {
    command: u64,
    /// How the child is spoken to.
    manner: u64,
    /// None with `--any-dir`.
    directory: Option<u64>,
    name: Option<String>,
    /// What `--share-env` says.
    chosen: Option<Vec<String>>,
    /// The environment variables that count.
    variables: BTreeMap<OsString, u64>,
}

impl Salt {
    pub(crate) fn keys(&self, attach: &Attach) -> Keys {
        let counted = counted(attach);
        let digest = |variant: Option<&String>| {
            let digest = |state: &RandomState| digest(state, attach, &counted, variant);
            Key(digest(&self.0), digest(&self.1))
        };
        let part = |part: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = self.0.build_hasher();
            part(&mut hasher);
            hasher.finish()
        };
        let parts = Parts {
            command: part(&|hasher| (&attach.command, attach.settings.daemon.is_some()).hash(hasher)),
            manner: part(&|hasher| manner(attach).hash(hasher)),
            directory: directory(attach).map(|directory| part(&|hasher| directory.hash(hasher))),
            name: attach.key.clone(),
            chosen: attach.counted.clone(),
            variables: counted
                .iter()
                .map(|(name, value)| (name.0.clone(), part(&|hasher| (name, value).hash(hasher))))
                .collect(),
        };
        Keys { key: digest(attach.variant.as_ref()), base: digest(None), parts }
    }
}

fn digest(state: &RandomState, attach: &Attach, counted: &[&(OsText, OsText)], variant: Option<&String>) -> u64 {
    let mut hasher = state.build_hasher();
    (variant, manner(attach)).hash(&mut hasher);
    match &attach.key {
        Some(name) => (0, name).hash(&mut hasher),
        None => (1, &attach.command, directory(attach), counted).hash(&mut hasher),
    }
    hasher.finish()
}

/// Sessions that speak to their child in different ways cannot share it; and a daemon takes no messages.
fn manner(attach: &Attach) -> impl Hash + '_ {
    let settings = &attach.settings;
    let (is_plain, is_isolated) = (settings.protocol == Protocol::JsonRpc, settings.isolation == Isolation::Pid);
    (is_plain, is_isolated, settings.reverse == ReverseTo::Newest, &settings.route_by, settings.daemon.is_some())
}

fn directory(attach: &Attach) -> Option<&OsText> {
    Some(&attach.cwd).filter(|_| !attach.any_dir)
}

/// The variables that count, in an order of their own.
fn counted(attach: &Attach) -> Vec<&(OsText, OsText)> {
    let counts = |name: &OsText| match &attach.counted {
        Some(named) => named.iter().any(|named| **named == *name.0),
        None => !environment::is_left_out(&name.0),
    };
    let mut counted: Vec<_> = attach.environment.iter().filter(|(name, _)| counts(name)).collect();
    counted.sort();
    counted
}

/// How many names of variables a person wants to read, and how much of each.
const MAX_NAMES: usize = 8;
const LONGEST_NAME: usize = 64;

impl Parts {
    /// Why a child of the same command is not shared, with how many differences: in what the keys differ, by name and never by value,
    /// and how to share it. None if the commands differ, or the user has asked for it by a name.
    pub(crate) fn apart_from(&self, other: &Self) -> Option<(usize, String)> {
        if self.command != other.command || self.name.is_some() {
            return None;
        }
        if let Some(name) = &other.name {
            return Some((usize::MAX, format!("it is shared by --key {name}")));
        }
        let (mut differences, mut ways) = (Vec::new(), Vec::new());
        let names = self.variables.keys().chain(other.variables.keys());
        let mut names: Vec<_> =
            names.filter(|name| self.variables.get(*name) != other.variables.get(*name)).collect();
        names.sort();
        names.dedup();
        if self.chosen != other.chosen {
            differences.push("--share-env differs".to_owned());
        } else if let Some(named) = in_words(&names) {
            differences.push(named);
            ways.push("--share-env A,B names the variables that count");
        }
        match (self.directory, other.directory) {
            (Some(ours), Some(theirs)) if ours != theirs => {
                differences.push("the directory differs".to_owned());
                ways.push("--any-dir leaves the directory out");
            }
            (Some(_), None) | (None, Some(_)) => {
                differences.push("--any-dir is given for one of them only".to_owned())
            }
            _ => {}
        }
        if self.manner != other.manner {
            differences.push("--protocol, --route-by, --reverse or --isolate differs".to_owned());
        } else {
            ways.push("--key NAME shares by that name alone");
        }
        if differences.is_empty() {
            return None;
        }
        let ways = if ways.is_empty() { String::new() } else { format!(" ({})", ways.join("; ")) };
        Some((names.len() + differences.len(), format!("{}{ways}", differences.join(", and "))))
    }
}

/// Which variables differ.
fn in_words(names: &[&OsString]) -> Option<String> {
    let shown = |name: &&OsString| {
        let printable = |c: char| if c.is_ascii_graphic() { c } else { '?' };
        name.to_string_lossy().chars().take(LONGEST_NAME).map(printable).collect::<String>()
    };
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(shown).collect();
    match (shown.as_slice(), names.len().saturating_sub(MAX_NAMES)) {
        ([], _) => None,
        ([name], _) => Some(format!("the variable {name} differs")),
        (names, 0) => Some(format!("the variables {} differ", names.join(", "))),
        (names, more) => Some(format!("the variables {} and {more} more differ", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostray_pen::Graces;
    use nostray_supervise::Policy;
    use nostray_supervise::wire::ChildSettings;
    use std::ffi::OsStr;
    use std::time::Duration;

    fn bytes(text: &str) -> OsText {
        OsText::from(OsStr::new(text))
    }

    fn attach(environment: &[(&str, &str)]) -> Attach {
        Attach {
            command: vec![bytes("a"), bytes("b")],
            cwd: bytes("/"),
            any_dir: false,
            environment: environment.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            key: None,
            counted: None,
            variant: None,
            because: None,
            host: None,
            session: None,
            labels: BTreeMap::new(),
            linger: Duration::ZERO,
            settings: ChildSettings {
                graces: Graces::default(),
                isolation: Isolation::None,
                policy: Policy::default(),
                max_memory: None,
                max_line: 1,
                protocol: Protocol::Mcp,
                reverse: ReverseTo::Certain,
                route_by: Vec::new(),
                slot: None,
                daemon: None,
            },
        }
    }

    #[test]
    fn what_the_child_would_notice_makes_another_key_and_nothing_else_does() {
        let salt = Salt::default();
        let key_of = |attach: &Attach| salt.keys(attach).key;
        let base = attach(&[("A", "1"), ("B", "2")]);
        let key = key_of(&base);
        assert_eq!(key_of(&attach(&[("B", "2"), ("A", "1"), ("SHLVL", "3"), ("_", "x")])), key);
        assert_ne!(key_of(&attach(&[("A", "1"), ("B", "3")])), key);
        let mut other = base.clone();
        other.cwd = bytes("/tmp");
        assert_ne!(key_of(&other), key, "another directory, another child");
        let mut other = base.clone();
        other.command = vec![bytes("ab")];
        assert_ne!(key_of(&other), key);
        let mut other = base.clone();
        other.variant = Some("modern".to_owned());
        assert_ne!(key_of(&other), key);
        assert_eq!((salt.keys(&other).base, salt.keys(&base).base), (key, key));
        assert_ne!(Salt::default().keys(&base).key, key, "another broker, another salt");

        let only_a = |environment| Attach { counted: Some(vec!["A".to_owned()]), ..attach(environment) };
        assert_eq!(key_of(&only_a(&[("A", "1"), ("B", "2")])), key_of(&only_a(&[("A", "1")])));
        let named = |cwd| Attach { key: Some("k".to_owned()), cwd: bytes(cwd), ..base.clone() };
        assert_eq!(key_of(&named("/")), key_of(&named("/tmp")), "a name stands for everything");
        let anywhere = |cwd| Attach { any_dir: true, cwd: bytes(cwd), ..base.clone() };
        assert_eq!(key_of(&anywhere("/")), key_of(&anywhere("/tmp")));
        assert_ne!(key_of(&anywhere("/")), key, "a child with a directory is not shared with --any-dir");
    }

    #[test]
    fn two_keys_differ_by_names_and_never_by_values() {
        let salt = Salt::default();
        let parts = |attach: &Attach| salt.keys(attach).parts;
        let base = attach(&[("A", "1"), ("B", "2"), ("TMUX", "1")]);
        let why = |other: &Attach| parts(other).apart_from(&parts(&base)).map(|(_, why)| why).unwrap_or_default();
        assert_eq!(why(&attach(&[("A", "1"), ("B", "2"), ("TMUX", "2")])), "", "nothing differs");
        let other = why(&attach(&[("A", "1"), ("B", "secret"), ("C", "3")]));
        assert!(other.starts_with("the variables B, C differ (--share-env"), "{other}");
        let many: Vec<(String, String)> = (0..20).map(|n| (format!("V{n:02}\n"), "secret".to_owned())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let many = why(&attach(&many));
        assert!(many.contains("V05? and 14 more differ") && !many.contains('\n'), "{many}");
        let moved = why(&Attach { cwd: bytes("/tmp"), ..base.clone() });
        assert!(moved.starts_with("the directory differs (--any-dir"), "{moved}");
        let chosen = why(&Attach { counted: Some(vec!["A".to_owned()]), ..base.clone() });
        assert!(chosen.starts_with("--share-env differs"), "{chosen}");
        for text in [other, many, moved, chosen] {
            assert!(!text.contains("secret") && text.contains("--key NAME"), "{text}");
        }
        assert_eq!(why(&Attach { key: Some("k".to_owned()), ..base.clone() }), "", "its user has chosen so");
        let named = parts(&Attach { key: Some("k".to_owned()), ..base.clone() });
        assert!(parts(&base).apart_from(&named).is_some_and(|(_, why)| why.contains("--key k")));
        assert!(parts(&Attach { command: vec![bytes("x")], ..base.clone() }).apart_from(&named).is_none());
    }
}
