//! Commands and options that README.md and docs/ name in their text are there.

use std::collections::BTreeSet;
use std::process::Command;

use testkit::nostray;

use super::home::server_in;
use super::pages::Page;

/// Options of other programs.
const OF_OTHERS: [&str; 1] = ["--daemon"];

fn help(words: &[&str]) -> String {
    let output = Command::new(nostray()).arg("help").args(words).output().expect("run nostray");
    assert!(output.status.success(), "there is no command {words:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_command_and_option_in_the_text_is_there() {
    let (mut commands, mut options) = (BTreeSet::new(), BTreeSet::new());
    for page in Page::of_users() {
        for span in page.spans() {
            let words: Vec<String> = span.split_whitespace().map(str::to_owned).collect();
            let is_ours = words.first().is_some_and(|word| word == "nostray" || word.starts_with("--"));
            // What follows belongs to the command that nostray runs.
            let is_of_the_command = |word: &String| word == "--" || server_in(std::slice::from_ref(word)).is_some();
            let ours = words.iter().take_while(|word| is_ours && !is_of_the_command(word));
            options.extend(ours.filter(|word| word.starts_with("--")).map(|word| word.replace(',', "")));
            if let [program, command, ..] = words.as_slice()
                && program == "nostray"
                && !command.starts_with('-')
                && command != "help"
            {
                commands.insert(command.clone());
            }
        }
    }
    assert!(commands.contains("run") && options.contains("--slot"), "{commands:?} {options:?}");
    let mut texts: String = commands.iter().map(|command| help(&[command])).collect();
    texts += &(help(&["slot", "release"]) + &help(&["slot", "hold"]));
    let there: BTreeSet<&str> = texts.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').collect();
    let missing: Vec<_> = options.iter().filter(|option| !OF_OTHERS.contains(&option.as_str())).collect();
    let missing: Vec<_> = missing.into_iter().filter(|option| !there.contains(option.as_str())).collect();
    assert!(missing.is_empty(), "no help text has {missing:?}");
}
