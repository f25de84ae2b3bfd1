//! nostray's own words at the beginning of a server's command: written by `wrap`, recognised by everything else.
//!
//! The words tell what the entry was before, so that `unwrap` needs no other memory. `--` in front of the command means that the entry
//! had arguments; no `--` means that it had none, and that `args` was added.

/// How a server is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each session has its own.
    Run,
    /// All sessions of a key use one.
    Share,
    /// A daemon without a protocol. `wrap` never chooses this.
    Hold,
}

impl Way {
    /// The name of the command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Share => "share",
            Self::Hold => "hold",
        }
    }

    fn named(word: &str) -> Option<Self> {
        [Self::Run, Self::Share, Self::Hold].into_iter().find(|way| way.name() == word)
    }
}

/// How many of the words behind `nostray` are nostray's own, up to and with `--`. `None` if nostray would refuse them.
pub type Grammar<'a> = &'a dyn Fn(&[String]) -> Option<usize>;

/// What a command has to do with nostray.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrapping {
    /// Nothing.
    None,
    /// nostray starts the server.
    Direct(Invocation),
    /// nostray starts it, called by another program: `env A=1 nostray run ...`, `sh -c "exec nostray run ..."`, `npx nostray run ...`.
    Indirect,
    /// It names nostray, with words that this version does not understand.
    Refused,
}

/// `nostray run --lazy -- ` in front of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// As it is written: a name or a path.
    pub program: String,
    /// `run` or `share`.
    pub way: Way,
    /// What stands between the way and the command, without `--`.
    pub options: Vec<String>,
    /// How many words stand before the command.
    pub own: usize,
    /// Whether `--` stands before the command.
    pub has_dashes: bool,
    /// It has options that `wrap` does not write.
    pub is_by_hand: bool,
}

/// The options that `wrap` writes, and whether a value follows.
const WRITTEN: [(&str, bool); 4] =
    [("--lazy", false), ("--hibernate", true), ("--share-env", true), ("--any-dir", false)];

/// The words that `wrap` writes, and no others.
#[must_use]
pub fn written_by_wrap(words: &[String]) -> Option<usize> {
    let mut at = 1;
    Way::named(words.first()?).filter(|way| *way != Way::Hold)?;
    loop {
        let word = words.get(at)?;
        if word == "--" {
            return words.get(at + 1).map(|_| at + 1);
        }
        if !word.starts_with('-') {
            return Some(at);
        }
        let (_, has_value) = WRITTEN.iter().find(|(name, _)| name == word)?;
        at += if *has_value { 2 } else { 1 };
    }
}

/// What a command has to do with nostray.
#[must_use]
pub fn recognise(words: &[String], grammar: Grammar<'_>) -> Wrapping {
    let is_nostray =
        |word: &str| word.rsplit(['/', '\\']).next().is_some_and(|name| name == "nostray" || name == "nostray.exe");
    let is_ours = |pair: &[&str]| is_nostray(pair[0]) && Way::named(pair[1]).is_some();
    match words {
        [program, rest @ ..] if is_nostray(program) => {
            let by_wrap = written_by_wrap(rest);
            let count = by_wrap.or_else(|| grammar(rest)).filter(|count| *count < rest.len());
            let way = rest.first().and_then(|word| Way::named(word));
            let (Some(count), Some(way)) = (count, way) else { return Wrapping::Refused };
            let has_dashes = rest.get(count - 1).is_some_and(|word| word == "--");
            let options = rest.get(1..count - usize::from(has_dashes)).unwrap_or_default().to_vec();
            let is_by_hand = by_wrap.is_none();
            Wrapping::Direct(Invocation {
                program: program.clone(),
                way,
                options,
                own: count + 1,
                has_dashes,
                is_by_hand,
            })
        }
        // A folder of this name, as in `--directory /src/nostray run`, is another program's word: only what calls others is looked into.
        [program, rest @ ..] if calls_others(program) => {
            let all: Vec<&str> = rest.iter().flat_map(|word| word.split_ascii_whitespace()).collect();
            if all.windows(2).any(is_ours) { Wrapping::Indirect } else { Wrapping::None }
        }
        // `npx -y nostray@0.1.0 run ...`. What else is called nostray there is a folder, or an argument of another package.
        [program, rest @ ..] if fetches_packages(program) => {
            let is_package =
                |word: &str| word == "nostray" || word.starts_with("nostray@") || word.starts_with("nostray==");
            let is_ours = |pair: &[String]| is_package(&pair[0]) && Way::named(&pair[1]).is_some();
            if rest.windows(2).any(is_ours) { Wrapping::Indirect } else { Wrapping::None }
        }
        _ => Wrapping::None,
    }
}

/// The name of a program, without its folders and without the end that Windows gives it.
fn name_of(program: &str) -> &str {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    [".exe", ".cmd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name)
}

fn fetches_packages(program: &str) -> bool {
    ["npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "uv", "uvx", "pipx"].contains(&name_of(program))
}

fn calls_others(program: &str) -> bool {
    [
        "cmd",
        "env",
        "sh",
        "bash",
        "dash",
        "zsh",
        "fish",
        "exec",
        "nice",
        "ionice",
        "nohup",
        "setsid",
        "systemd-run",
        "direnv",
        "mise",
    ]
    .contains(&name_of(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn what_wrap_writes_is_told_from_what_a_person_wrote() {
        let of = |text: &str| match recognise(&words(text), &|words| {
            words.iter().position(|word| word == "--").map(|at| at + 1)
        }) {
            Wrapping::Direct(found) => Some((found.own, found.has_dashes, found.is_by_hand, found.options.join(" "))),
            _ => None,
        };
        assert_eq!(of("nostray run -- npx -y x"), Some((3, true, false, String::new())));
        assert_eq!(
            of("/opt/bin/nostray share --share-env A,B --any-dir npx"),
            Some((5, false, false, "--share-env A,B --any-dir".into()))
        );
        assert_eq!(of("nostray run --slot a -- npx"), Some((5, true, true, "--slot a".into())));
        assert_eq!(of("nostray run --slot a npx"), None, "the grammar refuses it");
        assert_eq!(of("nostray run --"), None);
        assert_eq!(of("nostray npx"), None);
    }

    #[test]
    fn a_server_is_recognised_behind_other_programs_and_folders_are_not_taken_for_it() {
        let of = |list: &[&str]| {
            let words: Vec<String> = list.iter().map(|word| (*word).to_owned()).collect();
            recognise(&words, &written_by_wrap)
        };
        assert_eq!(of(&["env", "A=1", "nostray", "run", "--", "npx"]), Wrapping::Indirect);
        assert_eq!(of(&["sh", "-c", "exec nostray run -- npx"]), Wrapping::Indirect);
        assert_eq!(of(&["uvx", "--directory", "/src/nostray", "run", "server"]), Wrapping::None);
        assert_eq!(of(&["npx", "-y", "nostray", "run", "--", "npx", "-y", "x"]), Wrapping::Indirect);
        assert_eq!(of(&["npx", "-y", "nostray@0.1.0", "share", "x"]), Wrapping::Indirect);
        assert_eq!(of(&["/usr/bin/uvx", "nostray", "run", "x"]), Wrapping::Indirect);
        assert_eq!(of(&["uv", "tool", "run", "--from", "nostray==0.1.0", "nostray", "run", "x"]), Wrapping::Indirect);
        assert_eq!(of(&["npx", "-y", "other-nostray", "run"]), Wrapping::None);
        assert_eq!(of(&["uvx", "some-server", "--name", "nostray"]), Wrapping::None);
        assert_eq!(of(&["nostray", "run"]), Wrapping::Refused);
        assert_eq!(of(&["npx"]), Wrapping::None);
        assert_eq!(of(&[]), Wrapping::None);
    }
}
