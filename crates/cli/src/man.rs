//! `nostray man`: the manual, from the same source as the help texts.

use std::io;
use std::path::Path;

use clap_mangen::Man;
use nostray_terminal::{self as terminal, ExitCode};

use crate::args::{self, ManArgs};

pub(crate) fn print(args: &ManArgs) -> ExitCode {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    let done = match &args.dir {
        Some(directory) => write_all(&command, directory)
            .map(|count| terminal::print(format!("{count} pages written to {}\n", directory.display()).as_bytes())),
        None => find(&command, &args.command).and_then(page).map(|page| terminal::print(&page)),
    };
    done.unwrap_or_else(|why| {
        terminal::complain(&why);
        ExitCode::from(2)
    })
}

fn find<'a>(command: &'a clap::Command, words: &[String]) -> Result<&'a clap::Command, String> {
    words.iter().try_fold(command, |command, word| {
        let found = command.find_subcommand(word).filter(|found| !found.is_hide_set());
        found.ok_or_else(|| format!("there is no command '{}'; `nostray help` lists them", words.join(" ")))
    })
}

/// Writes the page of a command and of all commands below it. Returns how many.
fn write_all(command: &clap::Command, directory: &Path) -> Result<usize, String> {
    let because = |error: io::Error| format!("cannot write to {}: {error}", directory.display());
    std::fs::create_dir_all(directory).map_err(because)?;
    let file = directory.join(format!("{}.1", name_of(command)));
    std::fs::write(file, page(command)?).map_err(because)?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.map(|below| write_all(below, directory)).try_fold(1, |count, more| Ok(count + more?))
}

fn name_of(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    render(command, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn render(command: &clap::Command, text: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone()).title(name_of(command).to_uppercase()).manual("nostray manual");
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(text)?;
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(text)?;
    }
    if let Some(after) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        text.extend(sections(&after.to_string()).into_bytes());
    }
    if command.get_version().is_some() {
        man.render_version_section(text)?;
    }
    Ok(())
}

/// What stands behind the options in a help text: parts with a heading ("Examples:", "Exit codes:"), in lines that are not filled.
fn sections(after: &str) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for line in after.lines() {
        let heading = line.strip_suffix(':').filter(|heading| !heading.starts_with(' ') && !heading.is_empty());
        match heading {
            Some(heading) => {
                let heading = if heading == "Exit codes" { "EXIT STATUS".to_owned() } else { heading.to_uppercase() };
                text += if is_open { ".fi\n" } else { "" };
                text += &format!(".SH \"{}\"\n.nf\n", escaped(&heading));
                is_open = true;
            }
            None if !is_open && line.is_empty() => {}
            None => {
                text += if is_open { "" } else { ".SH NOTES\n.nf\n" };
                is_open = true;
                text += &(escaped(line) + "\n");
            }
        }
    }
    if is_open { text + ".fi\n" } else { text }
}

/// A line as roff takes it: no escape, no request.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', r"\e").replace('-', r"\-").replace('"', r"\(dq");
    if line.starts_with(['.', '\'']) { format!(r"\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_help_text_becomes_sections() {
        let text = sections("Examples:\n  nostray ps -q\n\nExit codes:\n  0\n.request");
        assert_eq!(
            text,
            ".SH \"EXAMPLES\"\n.nf\n  nostray ps \\-q\n\n.fi\n.SH \"EXIT STATUS\"\n.nf\n  0\n\\&.request\n.fi\n"
        );
        assert_eq!(sections("\nTry it."), ".SH NOTES\n.nf\nTry it.\n.fi\n");
    }
}
