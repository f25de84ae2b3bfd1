//! `nostray completions`: a script for the shell. clap writes the part about commands and options; `completions/*` add what changes
//! while nostray runs (ids, keys, sessions, slots), which `nostray complete` prints, and the command behind `run`.

use std::collections::BTreeMap;

use clap_complete::Shell;
use nostray_registry::{Pen, census};
use nostray_terminal::{self as terminal, ExitCode};

use crate::args::{self, CompleteArgs, CompleteKind, CompletionsArgs};

pub(crate) fn print(args: &CompletionsArgs) -> ExitCode {
    terminal::print(script(args.shell).as_bytes())
}

fn script(shell: Shell) -> String {
    let mut command = args::command();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "nostray", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let ours = |text: &str| text.replace("OPTIONS_WITH_VALUE", &with_value(&command));
    match shell {
        Shell::Bash => script + &ours(include_str!("completions/bash.sh")),
        Shell::Zsh => for_zsh(&script),
        Shell::Fish => script + &ours(include_str!("completions/fish.fish")),
        _ => script,
    }
}

/// The options of `run`, `share` and `hold` whose value is the next word, as a pattern of the shell.
fn with_value(command: &clap::Command) -> String {
    let commands = ["run", "share", "hold"].into_iter().filter_map(|name| command.find_subcommand(name));
    let options = commands.flat_map(clap::Command::get_arguments).filter(|option| option.get_action().takes_values());
    let mut names: Vec<String> =
        options.filter_map(|option| option.get_long()).map(|name| format!("--{name}")).collect();
    names.sort_unstable();
    names.dedup();
    names.join("|")
}

/// Puts our functions where clap has zsh's default, which is file names.
fn for_zsh(script: &str) -> String {
    const PLACES: [(&str, &str); 4] = [
        ("::which -- ", "_nostray_children"),
        ("'--session=[", "_nostray_sessions"),
        ("'--key=[", "_nostray_keys"),
        ("'--slot=[", "_nostray_slots"),
    ];
    let with_ours = |line: &str| match PLACES.iter().find(|(place, _)| line.contains(place)) {
        Some((_, function)) => line.replace(":_default'", &format!(":{function}'")),
        None => line.replace(":name -- Which slot:_default'", ":name -- Which slot:_nostray_slots'"),
    };
    let (head, rest) = script.split_once("\n\n").unwrap_or((script, ""));
    let rest: Vec<String> = rest.lines().map(with_ours).collect();
    format!("{head}\n\n{}\n{}\n", include_str!("completions/zsh.zsh"), rest.join("\n"))
}

/// Prints the words of a kind, each with what it is.
pub(crate) fn words(args: &CompleteArgs) -> ExitCode {
    let text: String =
        candidates(args.kind, &census()).into_iter().map(|(word, what)| format!("{word}\t{what}\n")).collect();
    terminal::print(text.as_bytes())
}

fn candidates(kind: CompleteKind, all: &[Pen]) -> BTreeMap<String, String> {
    let mut words = BTreeMap::new();
    let mut add = |word: Option<String>, what: String| {
        // A shell would have to quote the others.
        if let Some(word) = word.filter(|word| word.chars().all(|c| c.is_alphanumeric() || "-_.@/+=,%".contains(c))) {
            words.entry(word).or_insert(what);
        }
    };
    let is = |other| kind == CompleteKind::Children || kind == other;
    for (pen, record) in all.iter().filter_map(|pen| Some((pen, pen.record.as_ref().ok()?))) {
        let name = record.name();
        let plain: String = name.chars().filter(|c| !c.is_control()).collect();
        if is(CompleteKind::Slots) {
            add(record.slot.clone(), format!("slot of {}", pen.id));
        }
        if let Some(shared) = record.shared.as_ref().filter(|_| is(CompleteKind::Keys)) {
            add(shared.key.clone(), format!("key of {}", pen.id));
        }
        if is(CompleteKind::Sessions) {
            let leases = record.shared.iter().flat_map(|shared| &shared.leases);
            for session in record.session.iter().chain(leases.filter_map(|lease| lease.session.as_ref())) {
                add(Some(session.clone()), "session".to_owned());
            }
        }
        if kind == CompleteKind::Children {
            add(Some(pen.id.clone()), plain);
            add(Some(name), format!("name of {}", pen.id));
        }
    }
    if kind == CompleteKind::Slots {
        for slot in nostray_slot::slots().unwrap_or_default() {
            add(Some(slot.name.to_string()), "slot".to_owned());
        }
    }
    words
}
