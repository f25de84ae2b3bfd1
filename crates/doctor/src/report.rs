//! The report for people.

use std::fmt::Write;

use nostray_terminal as terminal;

use super::configs::{Config, Server, State};
use super::kill::Outcome;
use super::live::{self, Copies};
use super::machine::Machine;
use super::places::{Condition, Place, Places};
use super::program::{Program, Programs};
use super::strays::{Confidence, Stray};
use super::{Findings, command_line, evidence, folders};

/// How a piece of text is to look, as the number of an escape sequence.
#[derive(Debug, Clone, Copy)]
enum Ink {
    Bold = 1,
    Dim = 2,
    Red = 31,
    Green = 32,
    Yellow = 33,
}

/// A text that grows by whole lines.
struct Paper {
    text: String,
    colours: bool,
}

impl Paper {
    fn ink(&self, ink: Ink, text: &str) -> String {
        if self.colours { format!("\x1b[{}m{text}\x1b[0m", ink as u8) } else { text.to_owned() }
    }

    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    fn title(&mut self, title: &str) {
        let title = self.ink(Ink::Bold, title);
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.line(&format!("{gap}{title}"));
    }

    /// A line with a mark in front that tells its weight at a glance.
    fn item(&mut self, ink: Ink, text: &str) {
        let mark = match ink {
            Ink::Green => "ok  ",
            Ink::Yellow => "note",
            Ink::Red => "BAD ",
            Ink::Bold | Ink::Dim => "    ",
        };
        let mark = self.ink(ink, mark);
        self.line(&format!("  {mark}  {text}"));
    }

    /// What belongs to the item above.
    fn below(&mut self, text: &str) {
        for line in text.lines() {
            self.line(&format!("        {line}"));
        }
    }
}

pub(super) fn text(findings: &Findings) -> String {
    let mut paper = Paper { text: String::new(), colours: terminal::colours() };
    programs(&mut paper, &findings.programs);
    machine(&mut paper, &findings.machine);
    places(&mut paper, &findings.places);
    strays(&mut paper, &findings.strays);
    configs(&mut paper, &findings.configs, &findings.copies);
    copies(&mut paper, &findings.copies);
    let sum = if findings.is_fine() { (Ink::Green, "All is fine.") } else { (Ink::Red, "There is something to do.") };
    let sum = paper.ink(sum.0, sum.1);
    paper.line(&format!("\n{sum}"));
    paper.text
}

fn programs(paper: &mut Paper, programs: &Programs) {
    paper.title("This program");
    let shown = |program: &Program| {
        format!("{} ({})", command_line::escaped(&program.path.to_string_lossy()), program.in_words())
    };
    let without = |program: &Program| {
        let folder = program.name.parent().unwrap_or(&program.name).display().to_string();
        match program.origin.removal() {
            Some(removal) => format!("`{removal}`"),
            None => format!("take {folder} out of PATH"),
        }
    };
    let own = &programs.own;
    paper.item(Ink::Green, &shown(own));
    if programs.in_path.is_empty() {
        paper.item(Ink::Dim, "no folder of PATH has it; `nostray wrap` writes its whole path");
    }
    if let Some(first) = programs.first_in_path() {
        paper.item(Ink::Yellow, &format!("the first nostray in PATH is another one: {}", shown(first)));
        paper.below(&format!(
            "-> a host that looks for `nostray` starts that one; if this one is meant: {}",
            without(first)
        ));
    }
    for other in programs.hidden_in_path() {
        paper.item(Ink::Yellow, &format!("PATH has one more nostray: {}", shown(other)));
        paper.below(&format!("-> if it is not needed: {}", without(other)));
    }
}

fn machine(paper: &mut Paper, machine: &Machine) {
    paper.title("Containment");
    let ink = if machine.is_fine() { Ink::Green } else { Ink::Red };
    paper.item(ink, &format!("{}: {}", machine.tier.name(), machine.tier.meaning()));
    paper.item(Ink::Dim, &format!("{} {}", machine.system, machine.kernel));
    for check in &machine.checks {
        let ink = match (check.ok, check.essential) {
            (true, _) => Ink::Green,
            (false, true) => Ink::Red,
            (false, false) => Ink::Yellow,
        };
        paper.item(ink, &format!("{}: {}", check.name, check.detail));
        if let Some(advice) = &check.advice {
            paper.below(&format!("{}{advice}", "-> "));
        }
    }
}

fn places(paper: &mut Paper, places: &Places) {
    paper.title("Directories");
    if places.0.is_empty() {
        let (why, advice) = folders::NONE;
        paper.item(Ink::Red, why);
        paper.below(&format!("-> {advice}"));
    }
    let used = places.0.iter().position(Place::is_usable);
    for (position, place) in places.0.iter().enumerate() {
        let path = format!("{} ({})", place.path.display(), place.purpose);
        let used = if used == Some(position) { ", used" } else { "" };
        match &place.condition {
            Condition::Sound => paper.item(Ink::Green, &format!("{path}: {}{used}", folders::SOUND)),
            Condition::ToBeMade => paper.item(Ink::Green, &format!("{path}: made when it is needed{used}")),
            Condition::Impossible(why) => paper.item(Ink::Yellow, &format!("{path}: {why}")),
            Condition::Bad { why, advice } => {
                paper.item(Ink::Red, &format!("{path}: {why}"));
                paper.below(&format!("-> {advice}"));
            }
        }
    }
    if used.is_none() && !places.0.is_empty() {
        paper.item(Ink::Red, "there is no directory that nostray can keep its records in");
        paper.below(&format!("-> {}", folders::SET));
    }
}

fn strays(paper: &mut Paper, strays: &[(Stray, Option<Outcome>)]) {
    paper.title("Strays of other programs");
    if strays.is_empty() {
        paper.item(Ink::Green, "none");
    }
    if let Some(limits) = evidence::LIMITS {
        let limits = paper.ink(Ink::Dim, limits);
        paper.below(&limits);
    }
    for (stray, outcome) in strays {
        let ink = match stray.confidence {
            Confidence::Certain => Ink::Red,
            Confidence::Maybe => Ink::Yellow,
        };
        let mut facts = String::new();
        if let Some(age) = stray.age {
            write!(facts, ", {} old", in_largest_unit(age)).ok();
        }
        if let Some(memory) = stray.memory {
            write!(facts, ", {:.1} MB", memory as f64 / 1e6).ok();
        }
        let maybe = if stray.confidence == Confidence::Maybe { "maybe: " } else { "" };
        paper.item(ink, &format!("{maybe}{} {}{facts}", stray.identity.pid, command_line::shortened(&stray.command)));
        paper.below(&command_line::escaped(&stray.evidence));
        paper.below(&format!("-> in its host's configuration: {}", stray.remedy()));
        if let Some(outcome) = outcome {
            let said = paper.ink(Ink::Bold, &in_words(outcome));
            paper.below(&format!("== {said}"));
        }
    }
    let is_left = |(stray, outcome): &(Stray, Option<Outcome>)| {
        stray.confidence == Confidence::Certain && outcome.as_ref().is_none_or(|outcome| !outcome.is_over())
    };
    if strays.iter().any(is_left) {
        let hint = paper.ink(Ink::Dim, "`nostray doctor --kill` asks for each certain stray whether to end it.");
        paper.below(&hint);
    }
}

/// The outcomes of the certain strays, for a user who has already seen the report.
pub(super) fn outcomes(findings: &Findings) -> String {
    let asked_for = findings.strays.iter().filter(|(stray, _)| stray.confidence == Confidence::Certain);
    let line = |(stray, outcome): &(Stray, Option<Outcome>)| {
        outcome.as_ref().map(|outcome| format!("{}: {}\n", stray.identity.pid, in_words(outcome)))
    };
    asked_for.filter_map(line).collect()
}

/// A time in its largest sensible unit.
fn in_largest_unit(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn in_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Ended => "ended by SIGTERM".to_owned(),
        Outcome::Killed => "ended by SIGKILL, after it had ignored SIGTERM".to_owned(),
        Outcome::Declined => "left alone, as you said".to_owned(),
        Outcome::Gone => "ended by itself".to_owned(),
        Outcome::Spared => "left alone, since another process may still need it".to_owned(),
        Outcome::Failed(why) => format!("still there: {why}"),
    }
}

fn configs(paper: &mut Paper, configs: &[Config], copies: &[Copies]) {
    paper.title("Servers in the configurations of hosts");
    if configs.is_empty() {
        paper.item(Ink::Green, "no configuration of a known host is here");
    }
    for config in configs {
        paper.line(&format!("  {} ({})", config.path.display(), config.host.name));
        match &config.servers {
            Err(why) => {
                paper.item(Ink::Red, &format!("cannot be used: {why}"));
                paper.below("-> the host cannot read it either; correct it, and run this again");
            }
            Ok(servers) if servers.is_empty() => paper.item(Ink::Green, "no stdio servers"),
            Ok(servers) => servers.iter().for_each(|server| show(paper, server, copies)),
        }
    }
    if !configs.iter().all(Config::is_fine) {
        let hint =
            paper.ink(Ink::Dim, "`nostray wrap` writes these lines for you, and `nostray unwrap` takes them back.");
        paper.below(&hint);
    }
}

fn copies(paper: &mut Paper, all: &[Copies]) {
    if all.is_empty() {
        return;
    }
    paper.title("What living hosts run without nostray");
    for copies in all {
        paper.item(Ink::Yellow, &command_line::escaped(&copies.in_words()));
        paper.below(&format!("-> {}", command_line::escaped(&copies.advice())));
    }
}

fn show(paper: &mut Paper, server: &Server, copies: &[Copies]) {
    let project =
        server.project.as_ref().map_or(String::new(), |path| format!(" (for {})", command_line::escaped(path)));
    let name = format!("{}{project}", command_line::escaped(&server.name));
    match &server.state {
        State::Wrapped => match &server.doubt {
            None => paper.item(Ink::Green, &format!("{name}: wrapped")),
            Some(doubt) => {
                paper.item(Ink::Yellow, &format!("{name}: wrapped, but {}", command_line::escaped(&doubt.why)));
                paper.below(&format!("-> {}", doubt.advice));
            }
        },
        State::Broken(why) => {
            paper.item(Ink::Red, &format!("{name}: wrapped, but it would not run: {why}"));
            paper.below("-> `nostray unwrap` and `nostray wrap` write a line that runs");
        }
        State::Stuck(why) => {
            paper.item(Ink::Yellow, &format!("{name}: not wrapped, and `nostray wrap` leaves it: {why}"))
        }
        State::Disabled => paper.item(Ink::Dim, &format!("{name}: switched off")),
        State::Unwrapped(replacement) => {
            paper.item(Ink::Red, &format!("{name}: not wrapped: {}", command_line::shortened(&server.command)));
            if let Some(now) = live::in_use(server, copies) {
                paper.below(&now);
            }
            paper.below("-> write instead, and leave the rest as it is:");
            replacement.text.lines().for_each(|line| paper.below(&format!("   {line}")));
            if replacement.text.contains("***") {
                paper.below("   (*** stands for what is there now)");
            }
        }
    }
}
