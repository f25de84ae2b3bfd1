//! What `wrap` and `unwrap` print: the words of each command before and after. Secrets in them are masked; nothing else of a file is shown.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use nostray_sys::secrets::masked;
use nostray_sys::text::escaped;
use nostray_terminal::{self as terminal, Ink};
use nostray_wrap::Target;
use nostray_wrap::file::Written;

use super::{Doing, Planned};

/// A path as people write it.
pub(super) fn path(path: &Path) -> String {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.components().count() > 1);
    let below = home.and_then(|home| path.strip_prefix(home).ok().map(|rest| format!("~/{}", rest.display())));
    escaped(&below.unwrap_or_else(|| path.display().to_string())).into_owned()
}

/// The words of a command, quoted for a shell, without secrets.
pub(super) fn command(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:@%+,*".contains(c);
    let quote = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", escaped(&word).replace('\'', r"'\''")) }
    };
    masked(words).into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

pub(super) fn capital(word: &str) -> String {
    let mut rest = word.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

fn name(target: &Target) -> String {
    let project = target.project.as_ref().map_or(String::new(), |project| format!(" (for {})", escaped(project)));
    format!("{}{project}", escaped(&target.name))
}

/// What is going to happen, as a diff of command lines.
pub(super) fn plans(planned: &[Planned], doing: &Doing<'_>) -> String {
    let colours = terminal::colours();
    let ink = |ink: Ink, text: &str| ink.paint(text, colours);
    let mut text = String::new();
    let mut changes = 0;
    for Planned { config, changes: all, left } in planned {
        if all.is_empty() && left.is_empty() && config.entries.is_ok() {
            continue;
        }
        writeln!(text, "{} ({})", ink(Ink::Bold, &path(&config.source.path)), config.source.host_name()).ok();
        if let Err(why) = &config.entries {
            writeln!(text, "  {} {}", ink(Ink::Red, "left alone, since it cannot be read:"), escaped(why)).ok();
        }
        for change in all {
            changes += 1;
            let way = change
                .prefix
                .as_ref()
                .map_or(String::new(), |prefix| format!(": {}, {}", prefix.way.name(), change.reason));
            writeln!(text, "  {}{way}", name(&change.target)).ok();
            writeln!(text, "    {}", ink(Ink::Red, &format!("- {}", command(&change.before)))).ok();
            writeln!(text, "    {}", ink(Ink::Green, &format!("+ {}", command(&change.after)))).ok();
            if let Some(note) = &change.note {
                writeln!(text, "    {}", ink(Ink::Dim, &escaped(note))).ok();
            }
        }
        for left in left {
            writeln!(text, "  {}: {} {}", name(&left.target), ink(Ink::Yellow, "left as it is:"), escaped(&left.why))
                .ok();
            if let Some(paste) = &left.paste {
                writeln!(text, "    -> write at line {}, and leave the rest as it is:", left.line).ok();
                text.extend(paste.lines().map(|line| format!("       {}\n", escaped(line))));
                if paste.contains("***") {
                    writeln!(text, "       (*** stands for what is there now)").ok();
                }
            }
        }
        if config.source.is_of_project && !all.is_empty() && doing.verb == "wrap" {
            writeln!(
                text,
                "    {}",
                ink(Ink::Dim, "this file belongs to a project: each of its users needs nostray then")
            )
            .ok();
        }
    }
    for (host, file) in by_hand(planned) {
        writeln!(text, "{} ({host})", path(&file)).ok();
        writeln!(text, "  a shell script: write `nostray run --` before the command of each server by hand").ok();
    }
    if changes == 0 {
        let servers = planned.iter().map(|planned| planned.config.entries.iter().flatten().count()).sum::<usize>();
        let files = planned.len();
        writeln!(text, "Nothing to {}: {servers} servers in {files} files.", doing.verb).ok();
    }
    text
}

/// Files that are programs. Only with those of all hosts.
fn by_hand(planned: &[Planned]) -> Vec<(&'static str, PathBuf)> {
    let is_of_unknown = planned.iter().any(|planned| planned.config.source.host.is_none());
    if is_of_unknown { Vec::new() } else { nostray_wrap::hosts::Folders::of_this_process().by_hand() }
}

/// What was done to a file.
pub(super) fn written(
    planned: &Planned,
    written: &Written,
    forget_backup: impl FnOnce() -> Option<PathBuf>,
) -> String {
    let source = &planned.config.source;
    let mut text = String::new();
    let count = planned.changes.len();
    let servers = if count == 1 { "1 server".to_owned() } else { format!("{count} servers") };
    let what = if written.has_changed { format!("wrote {servers}") } else { "is as it should be".to_owned() };
    write!(text, "{}: {what}", path(&source.path)).ok();
    match &written.backup {
        Some(backup) => write!(text, "; as it was: {}", path(backup)).ok(),
        None => forget_backup().and_then(|backup| write!(text, "; removed {}", path(&backup)).ok()),
    };
    text.push('\n');
    if let Some(host) = source.host {
        writeln!(text, "  {}: {}", host.name, host.reload).ok();
    }
    text
}
