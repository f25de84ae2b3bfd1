//! Which way a server is run, and why: as the user says, as the list of known servers says, and otherwise as it was, each session its own.

use std::sync::LazyLock;

use crate::entries::Entry;
use crate::invocation::Way;

/// What the user wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Servers to share, by the names of their entries or packages.
    pub share: Vec<String>,
    /// Servers of which each session has its own.
    pub run: Vec<String>,
    /// Start with the first call, those for which it is safe.
    pub lazy: bool,
    /// Sleep after so long without a call, those for which it is safe.
    pub hibernate: Option<String>,
    /// Servers that the user has named, and so vouches for.
    pub named: Vec<String>,
    /// Nothing can be shared or put to sleep on this machine.
    pub run_alone: bool,
}

/// How a server is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The command.
    pub way: Way,
    /// Its options.
    pub options: Vec<String>,
    /// Why this way.
    pub reason: String,
    /// What was asked for and is not done, with the reason.
    pub note: Option<String>,
}

/// A line of the list.
#[derive(Debug)]
struct Known {
    way: Way,
    in_any_dir: bool,
    sleeps: bool,
    package: &'static str,
    reason: &'static str,
}

static KNOWN: LazyLock<Vec<Known>> =
    LazyLock::new(|| include_str!("servers.txt").lines().filter_map(known).collect());

fn known(line: &'static str) -> Option<Known> {
    let mut rest = line.split('#').next()?.trim();
    let mut next = || {
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind.trim_start();
        Some(word).filter(|word| !word.is_empty())
    };
    let way = match next()? {
        "share" => Way::Share,
        _ => Way::Run,
    };
    let flags = next()?;
    let package = next()?;
    let has = |flag: &str| flags.split(',').any(|word| word == flag);
    Some(Known { way, in_any_dir: has("any"), sleeps: has("sleep"), package, reason: rest })
}

impl Known {
    fn is(&self, word: &str) -> bool {
        let (inner, before) = self.package.strip_prefix('*').map_or((self.package, false), |rest| (rest, true));
        let (inner, behind) = inner.strip_suffix('*').map_or((inner, false), |rest| (rest, true));
        match (before, behind) {
            (false, false) => word == inner,
            (true, false) => word.ends_with(inner),
            (false, true) => word.starts_with(inner),
            (true, true) => word.contains(inner),
        }
    }
}

/// The words of a command that may name a package: without versions, and without the folders before them.
fn packages(words: &[String]) -> impl Iterator<Item = String> {
    words.iter().filter(|word| !word.starts_with('-')).flat_map(|word| {
        let word = word.to_ascii_lowercase();
        let scope = usize::from(word.starts_with('@'));
        let name = word.get(scope..).unwrap_or_default();
        let end = name.find(['@', '=', '[', '>', '<', '~']).unwrap_or(name.len());
        let whole = word.get(..scope + end).unwrap_or_default().to_owned();
        let is_path = whole.starts_with(['/', '.']) || whole.contains('\\');
        let last = whole
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .trim_end_matches(".js")
            .trim_end_matches(".py")
            .to_owned();
        // The last part of a scoped package is no package of its own.
        if is_path { vec![last] } else { vec![whole] }
    })
}

/// Programs that start others.
const RUNNERS: [&str; 18] = [
    "npx", "uvx", "node", "python", "python3", "bunx", "pnpm", "dlx", "uv", "run", "tool", "deno", "cmd", "c", "env",
    "bun", "x", "exec",
];

/// The package that a command starts, or its program. What comes later are its own arguments, as in `filesystem /home/u/playwright`.
#[must_use]
pub fn package_of(words: &[String]) -> Option<String> {
    packages(words).take(SEARCHED).find(|name| !name.is_empty() && !RUNNERS.contains(&name.as_str()))
}

fn find(words: &[String]) -> Option<&'static Known> {
    let package = package_of(words)?;
    KNOWN.iter().find(|known| known.is(&package))
}

/// How many words are looked at.
const SEARCHED: usize = 8;

/// Whether a wish names this server: by the name of its entry, or by its package with or without scope.
#[must_use]
pub fn is_named(wish: &str, name: &str, words: &[String]) -> bool {
    let wish = wish.to_ascii_lowercase();
    name.eq_ignore_ascii_case(&wish)
        || packages(words)
            .take(SEARCHED)
            .any(|package| package == wish || package.rsplit('/').next() == Some(wish.as_str()))
}

/// How an entry is to be run.
#[must_use]
pub fn choose(entry: &Entry, words: &[String], wishes: &Wishes) -> Choice {
    let has = |list: &[String]| list.iter().any(|wish| is_named(wish, &entry.name, words));
    let known = find(words);
    if wishes.run_alone {
        let reason = "each session keeps its own".to_owned();
        return Choice { way: Way::Run, options: Vec::new(), reason, note: None };
    }
    let (way, reason) = if has(&wishes.run) {
        (Way::Run, "as you said".to_owned())
    } else if has(&wishes.share) {
        (Way::Share, "as you said".to_owned())
    } else if let Some(known) = known {
        (known.way, known.reason.to_owned())
    } else {
        (Way::Run, "nothing is known about it, so each session keeps its own".to_owned())
    };
    let mut options = Vec::new();
    if way == Way::Share {
        if known.is_some_and(|known| known.in_any_dir) {
            options.push("--any-dir".to_owned());
        }
        // Sessions of this configuration share; a session whose host has other values for these variables does not.
        let names: Vec<&str> = entry.env.iter().map(String::as_str).filter(|name| is_variable(name)).collect();
        if !names.is_empty() {
            options.extend(["--share-env".to_owned(), names.join(",")]);
        }
    }
    let wants_sleep = wishes.lazy || wishes.hibernate.is_some();
    let may_sleep = known.is_some_and(|known| known.sleeps) || has(&wishes.named);
    if wants_sleep && may_sleep {
        options.extend(wishes.lazy.then(|| "--lazy".to_owned()));
        options.extend(wishes.hibernate.iter().flat_map(|time| ["--hibernate".to_owned(), time.clone()]));
    }
    let note = (wants_sleep && !may_sleep).then(|| {
        let why = known.filter(|known| !known.sleeps).map_or("nothing is known about it", |known| known.reason);
        format!("without --lazy and --hibernate: {why}; --server {} asks for them all the same", entry.name)
    });
    Choice { way, options, reason, note }
}

/// A name with anything else in it would not be one word of the option.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn entry(env: &[&str]) -> Entry {
        let text = format!(
            r#"{{"mcpServers":{{"x":{{"command":"a","env":{{{}}}}}}}}}"#,
            env.iter().map(|name| format!("\"{name}\":\"1\"")).collect::<Vec<_>>().join(",")
        );
        crate::read(text.as_bytes(), crate::Format::Json, crate::hosts::ANY).expect("is right").remove(0)
    }

    #[test]
    fn known_servers_are_found_in_every_spelling_of_their_package() {
        for (command, way) in [
            ("npx -y @playwright/mcp@latest --headless", Way::Run),
            ("npx chrome-devtools-mcp@0.6", Way::Run),
            ("uvx mcp-server-fetch", Way::Share),
            ("uvx mcp-server-fetch==2025.4.7", Way::Share),
            ("uvx mcp-server-time --local-timezone Europe/Berlin", Way::Share),
            ("python -m mcp_server_fetch", Way::Run),
            ("npx -y @upstash/context7-mcp@1.0.0", Way::Share),
            ("/usr/local/bin/mcp-server-time", Way::Share),
            ("cmd /c npx -y tavily-mcp", Way::Share),
            ("npx -y some-server /home/u/mcp-server-fetch", Way::Run),
            ("npx -y @other/mcp-server-fetch", Way::Run),
            ("npx -y @modelcontextprotocol/server-memory", Way::Run),
        ] {
            assert_eq!(choose(&entry(&[]), &words(command), &Wishes::default()).way, way, "{command}");
        }
        assert!(KNOWN.iter().all(|known| !known.reason.is_empty()), "{KNOWN:?}");
        assert!(KNOWN.len() > 40);
    }

    #[test]
    fn a_wish_comes_first_and_the_entrys_variables_decide_who_shares() {
        let wishes = Wishes { share: vec!["server-memory".into()], run: vec!["X".into()], ..Wishes::default() };
        let mut memory = entry(&["MEMORY_FILE_PATH", "b c"]);
        assert_eq!(
            choose(&memory, &words("npx -y @modelcontextprotocol/server-memory"), &wishes).way,
            Way::Run,
            "x is its name"
        );
        memory.name = "notes".into();
        let choice = choose(&memory, &words("npx -y @modelcontextprotocol/server-memory"), &wishes);
        assert_eq!((choice.way, choice.options), (Way::Share, words("--share-env MEMORY_FILE_PATH")));
    }

    #[test]
    fn only_a_server_that_keeps_nothing_sleeps() {
        let wishes = Wishes { lazy: true, hibernate: Some("10m".into()), ..Wishes::default() };
        let options = |command, wishes: &Wishes| choose(&entry(&[]), &words(command), wishes).options.join(" ");
        assert_eq!(options("uvx mcp-server-fetch", &wishes), "--any-dir --lazy --hibernate 10m");
        assert_eq!(options("npx @playwright/mcp", &wishes), "");
        assert_eq!(options("npx some-server", &wishes), "");
        let named = Wishes { named: vec!["some-server".into()], ..wishes };
        assert_eq!(options("npx some-server", &named), "--lazy --hibernate 10m");
    }
}
