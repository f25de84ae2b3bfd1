//! What the command lines of all platforms have in common.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, ValueEnum};
use nostray_terminal::ExitCode;

/// The widest line of a help text; longer lines are hard to read.
pub(crate) const WIDTH: usize = 110;

// The headings of options, by what a user wants.
/// How the tree ends.
pub(crate) const ENDS: &str = "How it ends";
/// What `ps` and `stop` know it by.
pub(crate) const FOUND: &str = "How to find it";
/// Messages of nostray itself.
pub(crate) const SAYS: &str = "What nostray says";

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  nostray completions bash > ~/.local/share/bash-completion/completions/nostray
  nostray completions zsh > ~/.zfunc/_nostray
  nostray completions fish > ~/.config/fish/completions/nostray.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the man page, or write all of them
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  nostray man | man -l -
  nostray man > ~/.local/share/man/man1/nostray.1
  nostray man slot list | man -l -
  nostray man --dir ~/.local/share/man/man1        (all pages)")]
pub(crate) struct ManArgs {
    /// The page of this command, instead of the main one
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,

    /// Write the pages of all commands to this directory
    #[arg(long, value_name = "DIR", conflicts_with = "command", value_hint = clap::ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// Print the words that a shell completes
///
/// For the scripts of `nostray completions`. A line each: the word, a tab, what it is.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// Words of which kind
    pub(crate) kind: CompleteKind,
}

/// What a shell can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompleteKind {
    /// Ids, keys, slots, sessions and names: what `stop` takes
    Children,
    /// Sessions
    Sessions,
    /// Keys of shared children
    Keys,
    /// Slots
    Slots,
}

/// Says what is wrong with a command line, or what was asked for, and returns the code to exit with. With `is_run`, a host starts the command
/// in place of another one.
pub(crate) fn explained(error: &clap::Error, is_run: bool) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    // If standard output is closed, the exit code still tells.
    error.print().ok();
    if asked_for {
        ExitCode::SUCCESS
    } else if is_run {
        // clap's 2 for a wrong call could be the command's own exit code.
        ExitCode::from(nostray_pen::OWN_FAILURE)
    } else {
        ExitCode::from(2)
    }
}

/// The complaint about a command that is not there, with those that are similar.
pub(crate) fn misspelt(words: &[OsString], error: &clap::Error) -> clap::Error {
    let similar = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) => similar.as_slice(),
        _ => &[],
    };
    clap::Error::raw(ErrorKind::InvalidSubcommand, crate::misspelt::complaint(words, similar))
}

/// Shows the first example of each command in its short help, too.
pub(crate) fn with_short_examples(command: clap::Command) -> clap::Command {
    command.mut_subcommands(|below| {
        let below = with_short_examples(below);
        let examples =
            below.get_after_long_help().filter(|_| below.get_after_help().is_none()).map(ToString::to_string);
        match examples.as_deref().and_then(|text| text.lines().find(|line| line.starts_with("  nostray "))) {
            Some(example) => {
                let short = format!("Example:\n{example}");
                below.after_help(short)
            }
            None => below,
        }
    })
}

/// A time as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 2s, 500ms or 1m30s"))
}

/// NAME=VALUE
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it like task=42".to_owned()),
    }
}

/// A time that is not zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than zero; leave it out for never".to_owned()),
        time => Ok(time),
    }
}
