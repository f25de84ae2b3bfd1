//! What to say to a word that is no command of nostray: a program that was meant to run, a word that other tools use, or a slip.

use std::ffi::OsString;
use std::path::Path;

/// What people type because other tools call it so, and what it is called here.
const OTHER_WORDS: [(&str, &str); 16] = [
    ("watch", "ps --watch"),
    ("list", "ps"),
    ("ls", "ps"),
    ("status", "ps"),
    ("show", "ps --tree"),
    ("tree", "ps --tree"),
    ("kill", "stop"),
    ("rm", "stop"),
    ("end", "stop"),
    ("logs", "log"),
    ("journal", "log"),
    ("exec", "run"),
    ("start", "run"),
    ("clean", "sweep"),
    ("cleanup", "sweep"),
    ("check", "doctor"),
];

/// The error for a line that begins with a word that is no command. `similar` are commands that are spelled nearly so.
pub(crate) fn complaint(words: &[OsString], similar: &[String]) -> String {
    let word = words.get(1).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let rest = words.get(2..).unwrap_or_default();
    let line = |command: &str, words: &[OsString]| {
        let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
        [&["nostray".to_owned(), command.to_owned()], &words[..]].concat().join(" ")
    };
    let other = OTHER_WORDS.iter().find(|(other, _)| *other == word).map(|(_, here)| line(here, rest));
    let next = match (other, similar.first()) {
        (Some(line), _) => format!("try: {line}"),
        (None, _) if is_program(Path::new(&words[1])) => {
            format!("to run that program under nostray: {}", line("run", &words[1..]))
        }
        (None, Some(similar)) => format!("a similar command: {}", line(similar, rest)),
        (None, None) => format!("if it is a program to run under nostray: {}", line("run", &words[1..])),
    };
    format!("there is no command '{word}'\n  {next}\n\n`nostray --help` lists the commands.\n")
}

/// Whether this is a program: a path, or a name in the PATH.
fn is_program(word: &Path) -> bool {
    let is_executable = |path: &Path| nostray_sys::exec::may_execute(path).is_ok();
    if word.components().count() > 1 {
        return is_executable(word);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| is_executable(&directory.join(word)))
}

/// As a shell would need it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str, similar: &[&str]) -> String {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        complaint(&words, &similar.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_right_line_is_shown() {
        assert!(said("nostray sh -c x;y", &[]).contains("under nostray: nostray run sh -c 'x;y'\n"));
        assert!(said("nostray /bin/sh -c x", &[]).contains("nostray run /bin/sh -c x\n"));
        assert!(
            said("nostray nosuch-server --flag", &[])
                .contains("if it is a program to run under nostray: nostray run nosuch-server --flag")
        );
        assert!(said("nostray watch", &[]).contains("try: nostray ps --watch\n"));
        assert!(said("nostray kill k7f3", &["log"]).contains("try: nostray stop k7f3\n"));
        assert!(said("nostray stpo k7f3", &["stop"]).contains("a similar command: nostray stop k7f3\n"));
    }
}
