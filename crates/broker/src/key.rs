//! What makes two sessions share a child. It lives in the broker's memory alone, and only as a digest that no other broker would
//! make: an environment is full of secrets.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};

use nostray_supervise::link::{Attach, Bytes};

/// Says which child is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u64, u64);

/// What keys are made with: another one for each broker.
#[derive(Debug, Default)]
pub(crate) struct Salt(RandomState, RandomState);

/// Variables that say where and when somebody was called, and not what a child is to do. Two terminals differ in nothing else.
const OF_NO_ACCOUNT: [&str; 17] = [
    "_",
    "COLUMNS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "SSH_TTY",
    "SYSTEMD_EXEC_PID",
    "TERM_SESSION_ID",
    "TMUX",
    "TMUX_PANE",
    "WINDOWID",
    nostray_pen::MARK,
];

impl Salt {
    pub(crate) fn key(&self, attach: &Attach) -> Key {
        self.digest(attach, attach.variant.as_ref())
    }

    /// The same for all variants.
    pub(crate) fn base(&self, attach: &Attach) -> Key {
        self.digest(attach, None)
    }

    fn digest(&self, attach: &Attach, variant: Option<&String>) -> Key {
        let digest = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            let wish = &attach.wish;
            variant.hash(&mut hasher);
            // Two who understand each other's messages differently cannot share.
            (wish.plain, wish.isolate, wish.reverse_newest, &wish.route_by).hash(&mut hasher);
            match &attach.key {
                Some(name) => (0, name).hash(&mut hasher),
                None => {
                    (1, &attach.command, &attach.cwd).hash(&mut hasher);
                    counted(attach).hash(&mut hasher);
                }
            }
            hasher.finish()
        };
        Key(digest(&self.0), digest(&self.1))
    }
}

/// The variables that count, in an order of their own.
fn counted(attach: &Attach) -> Vec<&(Bytes, Bytes)> {
    let counts = |name: &Bytes| match &attach.counted {
        Some(named) => named.iter().any(|named| **named == *name.0),
        None => !OF_NO_ACCOUNT.iter().any(|other| *other == name.0),
    };
    let mut counted: Vec<_> = attach.environment.iter().filter(|(name, _)| counts(name)).collect();
    counted.sort();
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostray_supervise::link::Wish;
    use std::collections::BTreeMap;
    use std::ffi::OsStr;

    fn bytes(text: &str) -> Bytes {
        Bytes::from(OsStr::new(text))
    }

    fn attach(environment: &[(&str, &str)]) -> Attach {
        Attach {
            command: vec![bytes("a"), bytes("b")],
            cwd: bytes("/"),
            environment: environment.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            key: None,
            counted: None,
            variant: None,
            because: None,
            host: None,
            session: None,
            labels: BTreeMap::new(),
            linger: 0,
            wish: Wish {
                eof_grace: 0,
                term_grace: 0,
                isolate: false,
                respawn: true,
                backoff: "1s..1s".to_owned(),
                max_failures: "1/1s".to_owned(),
                hibernate: None,
                max_age: None,
                start_timeout: None,
                on_demand: false,
                max_memory: None,
                max_line: 1,
                plain: false,
                reverse_newest: false,
                route_by: None,
                slot: None,
            },
        }
    }

    #[test]
    fn whatever_the_child_would_notice_makes_another_key_and_nothing_else_does() {
        let salt = Salt::default();
        let base = attach(&[("A", "1"), ("B", "2")]);
        let key = salt.key(&base);
        assert_eq!(salt.key(&attach(&[("B", "2"), ("A", "1"), ("SHLVL", "3"), ("_", "x")])), key);
        assert_ne!(salt.key(&attach(&[("A", "1"), ("B", "3")])), key);
        let mut other = base.clone();
        other.cwd = bytes("/tmp");
        assert_ne!(salt.key(&other), key, "another directory, another child");
        let mut other = base.clone();
        other.command = vec![bytes("ab")];
        assert_ne!(salt.key(&other), key);
        let mut other = base.clone();
        other.variant = Some("modern".to_owned());
        assert_ne!(salt.key(&other), key);
        assert_eq!((salt.base(&other), salt.base(&base)), (key, key));
        assert_ne!(Salt::default().key(&base), key, "another broker, another salt");

        let only_a = |environment| Attach { counted: Some(vec!["A".to_owned()]), ..attach(environment) };
        assert_eq!(salt.key(&only_a(&[("A", "1"), ("B", "2")])), salt.key(&only_a(&[("A", "1")])));
        let named = |cwd| Attach { key: Some("k".to_owned()), cwd: bytes(cwd), ..base.clone() };
        assert_eq!(salt.key(&named("/")), salt.key(&named("/tmp")), "a name stands for everything");
    }
}
