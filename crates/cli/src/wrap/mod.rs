//! `nostray wrap` and `nostray unwrap`: every server of every host on this machine, with one command, and back.

mod args;
pub(crate) mod hosts;
mod shown;

use std::io::{self, BufRead, IsTerminal, Write};

use nostray_terminal::{self as terminal, ExitCode};
use nostray_wrap::file;
use nostray_wrap::plan::{self, Change, Left, Selection, Tools};
use nostray_wrap::survey::{self, Config};
use nostray_wrap::{Wishes, recognise};

pub(crate) use args::{UnwrapArgs, WrapArgs};

/// How many words behind `nostray` are its own, as this version reads them; `None` if it would refuse them.
pub(crate) fn grammar(words: &[String]) -> Option<usize> {
    let all: Vec<_> = std::iter::once("nostray").chain(words.iter().map(String::as_str)).collect();
    let matches = crate::args::command().try_get_matches_from(&all).ok()?;
    let (name, of_command) = matches.subcommand()?;
    let is_run = ["run", "share", "hold"].contains(&name);
    let command = is_run.then(|| of_command.get_raw("command")).flatten()?;
    words.len().checked_sub(command.count())
}

/// A file, with what is to be done to it.
struct Planned {
    config: Config,
    changes: Vec<Change>,
    left: Vec<Left>,
}

/// What is done with the plans.
struct Doing<'a> {
    verb: &'static str,
    dry_run: bool,
    yes: bool,
    tools: Tools<'a>,
}

pub(crate) fn wrap(args: &WrapArgs) -> ExitCode {
    let program = survey::own_name();
    if let Some((why, instead)) = crate::program_may_vanish() {
        terminal::complain(&format_args!(
            "this nostray is not to be kept: {why}; `{instead}` gives one that stays, and wraps as well"
        ));
    }
    let tools = Tools { grammar: &grammar, is_program: &survey::is_program, program: &program };
    let wishes = Wishes {
        share: args.share.clone(),
        run: args.run.clone(),
        lazy: args.lazy,
        hibernate: args.hibernate.clone(),
        named: args.chosen.server.clone(),
        run_alone: cfg!(windows),
    };
    let selection = Selection { servers: args.chosen.server.clone(), excluded: args.exclude.clone() };
    let plan = |config: &Config| plan::to_wrap(config, &selection, &wishes, tools);
    let doing = Doing { verb: "wrap", dry_run: args.chosen.dry_run, yes: args.chosen.yes, tools };
    let asked_for = [args.chosen.server.as_slice(), &args.share, &args.run].concat();
    carry_out(&args.chosen, &asked_for, &doing, &plan)
}

/// The first option that needs more than `nostray run` gives without supervision.
#[cfg(windows)]
pub(crate) fn asks_for_more_than_run(args: &WrapArgs) -> Option<&'static str> {
    let asked =
        [("--share", !args.share.is_empty()), ("--lazy", args.lazy), ("--hibernate", args.hibernate.is_some())];
    asked.into_iter().find(|(_, is_asked)| *is_asked).map(|(option, _)| option)
}

pub(crate) fn unwrap(args: &UnwrapArgs) -> ExitCode {
    let tools = Tools { grammar: &grammar, is_program: &survey::is_program, program: "nostray" };
    let selection = Selection { servers: args.chosen.server.clone(), excluded: Vec::new() };
    let plan = |config: &Config| plan::to_unwrap(config, &selection, tools);
    let doing = Doing { verb: "unwrap", dry_run: args.chosen.dry_run, yes: args.chosen.yes, tools };
    carry_out(&args.chosen, &args.chosen.server, &doing, &plan)
}

/// For `nostray doctor --fix`.
pub(crate) fn fix(yes: bool) -> ExitCode {
    let chosen = args::Chosen { yes, ..args::Chosen::default() };
    wrap(&WrapArgs { chosen, ..WrapArgs::default() })
}

fn carry_out(
    chosen: &args::Chosen,
    servers: &[String],
    doing: &Doing<'_>,
    plan: &dyn Fn(&Config) -> plan::Plan,
) -> ExitCode {
    let configs = match chosen.scope() {
        Ok((folders, scope)) => survey::survey(&folders, &scope),
        Err(why) => {
            terminal::complain(&why);
            return ExitCode::from(2);
        }
    };
    if let Some(unknown) = servers.iter().find(|server| !configs.iter().any(|config| has(config, server))) {
        terminal::complain(&format_args!("no host has a server '{unknown}'; `nostray hosts` lists them"));
        return ExitCode::from(2);
    }
    let planned: Vec<Planned> = configs
        .into_iter()
        .map(|config| {
            let plan::Plan { changes, left } = plan(&config);
            Planned { config, changes, left }
        })
        .collect();
    let count: usize = planned.iter().map(|planned| planned.changes.len()).sum();
    let is_all_well = planned.iter().all(|planned| planned.left.is_empty() && planned.config.entries.is_ok());
    let text = shown::plans(&planned, doing);
    if let Err(error) = terminal::write(text.as_bytes())
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        terminal::complain(&format_args!("cannot write to standard output: {error}"));
        return ExitCode::from(2);
    }
    let well = if is_all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if count == 0 {
        return well;
    }
    if doing.dry_run {
        return ExitCode::FAILURE;
    }
    match doing.yes || is_agreed(doing.verb, count) {
        true => {}
        false if !io::stdin().is_terminal() => {
            terminal::complain(&"stdin is not a terminal; add --yes to write, or --dry-run to look");
            return ExitCode::from(2);
        }
        false => return ExitCode::FAILURE,
    }
    let mut is_written = true;
    for planned in planned.iter().filter(|planned| !planned.changes.is_empty()) {
        is_written &= write(planned, doing);
    }
    if is_written { well } else { ExitCode::FAILURE }
}

fn has(config: &Config, server: &str) -> bool {
    let is = |entry: &nostray_wrap::Entry| nostray_wrap::is_named(server, &entry.name, &plan::bare(entry, &grammar));
    config.entries.iter().flatten().any(is)
}

fn is_agreed(verb: &str, count: usize) -> bool {
    if !io::stdin().is_terminal() {
        return false;
    }
    let servers = if count == 1 { "this server".to_owned() } else { format!("these {count} servers") };
    write!(io::stderr(), "{} {servers}? [y/N] ", shown::capital(verb)).ok();
    io::stderr().flush().ok();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Whether the file was written.
fn write(planned: &Planned, doing: &Doing<'_>) -> bool {
    let source = &planned.config.source;
    let keep_backup = doing.verb == "wrap";
    let make = &mut |bytes: &[u8]| plan::make(bytes, source, &planned.changes, doing.tools.grammar);
    let written = file::edit(&source.path, source.lock, keep_backup, make);
    let said = match &written {
        Ok(written) => shown::written(planned, written, || forget_backup(source)),
        Err(error) => {
            terminal::complain(&format_args!("{} {error}; it is as it was", source.path.display()));
            return false;
        }
    };
    // The file is written, and a closed pipe does not change that.
    terminal::write(said.as_bytes()).ok();
    true
}

/// A backup is kept until nothing of its file is wrapped.
fn forget_backup(source: &nostray_wrap::hosts::Source) -> Option<std::path::PathBuf> {
    let bytes = file::read(&source.path)?.ok()?;
    let entries = nostray_wrap::read(&bytes, source.format, source.shape).ok()?;
    let is_wrapped =
        |entry: &nostray_wrap::Entry| matches!(recognise(&entry.words, &grammar), nostray_wrap::Wrapping::Direct(_));
    if entries.iter().any(is_wrapped) { None } else { file::forget_backup(&source.path).ok()? }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(line: &str) -> Option<usize> {
        grammar(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_itself_tells_which_words_are_nostrays() {
        assert_eq!(count("run -- npx -y x"), Some(2));
        assert_eq!(count("run npx -- x"), Some(1));
        assert_eq!(count("run --slot memory --if-taken replace -- npx"), Some(6));
        assert_eq!(count("share --share-env A,B npx"), Some(3));
        assert_eq!(count("hold --key a -- llama-server"), Some(4));
        assert_eq!(count("run --no-such-option -- npx"), None);
        assert_eq!(count("ps -- npx"), None);
        assert_eq!(count("run"), None);
    }
}
