//! What the audience sees: on a terminal a list that changes in place, elsewhere one line for each thing that happens.

use std::fmt::Write;
use std::time::Duration;

use nostray_sys::process::Pid;
use nostray_terminal as terminal;
pub(super) use nostray_terminal::Ink;

use super::act::{Act, OWN, Outcome, TREE};
use super::cast::Member;
use super::stop::Stop;

/// When a list is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    /// So long before the host is killed.
    Before(Duration),
    /// So long after.
    After(Duration),
}

/// Standard output.
#[derive(Debug)]
pub(super) struct Stage {
    is_live: bool,
    colours: bool,
    mark: char,
    /// The lines of the list that has been written, for this act.
    drawn: usize,
    /// Where output is only appended: the processes whose end has been reported.
    told: Vec<Pid>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let is_live = terminal::is_live();
        let mark = if is_live && terminal::shows_unicode() { '●' } else { '*' };
        Self { is_live, colours: terminal::colours(), mark, drawn: 0, told: Vec::new() }
    }

    pub(super) fn ink(&self, ink: Ink, text: &str) -> String {
        ink.paint(text, self.colours)
    }

    /// Writes a paragraph.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Stop> {
        write_out(&format!("{text}\n"))
    }

    /// Shows the state of every process.
    pub(super) fn show(&mut self, members: &[Member], moment: Moment) -> Result<(), Stop> {
        if self.is_live {
            let status = match moment {
                Moment::Before(left) => format!("SIGKILL for the host in {:.1} s", left.as_secs_f32()),
                Moment::After(elapsed) => format!("{:.1} s since the host was killed", elapsed.as_secs_f32()),
            };
            return self.draw(members, moment, &self.ink(Ink::Dim, &status));
        }
        let mut lines = String::new();
        if self.drawn == 0 {
            self.drawn = members.len();
            members.iter().for_each(|member| self.row(&mut lines, member, moment));
            lines.push('\n');
        }
        for member in members {
            if let Some(gone) = member.gone
                && !self.told.contains(&member.pid)
            {
                self.told.push(member.pid);
                self.row(&mut lines, member, Moment::After(gone));
            }
        }
        if lines.is_empty() { Ok(()) } else { write_out(&lines) }
    }

    /// Shows how an act has ended.
    pub(super) fn close(&mut self, members: &[Member], act: Act, outcome: &Outcome) -> Result<(), Stop> {
        let count = outcome.survivors.len();
        let (ink, verdict) = match act {
            Act::Alone if count > 0 => {
                (Ink::Red, format!("{count} of {} outlive their host. The demo ends them itself.", TREE.len()))
            }
            Act::Alone => (Ink::Yellow, "Nothing outlives the host here, even without nostray.".to_owned()),
            Act::Penned if outcome.nothing_left => {
                let took = outcome.took.as_secs_f32();
                (Ink::Green, format!("Nothing is left after {took:.2} s, not even nostray itself."))
            }
            Act::Penned => (Ink::Red, format!("{} left behind. This is a bug in nostray.", count.max(1))),
        };
        let verdict = self.ink(ink, &verdict);
        let elapsed = outcome.watched;
        if self.is_live {
            self.draw(members, Moment::After(elapsed), &verdict)?;
        } else {
            let mut lines = String::new();
            let alive = members.iter().filter(|member| member.gone.is_none());
            alive.for_each(|member| self.row(&mut lines, member, Moment::After(elapsed)));
            write_out(&format!("{lines}\n   {verdict}\n"))?;
        }
        self.drawn = 0;
        self.told.clear();
        for line in &outcome.said {
            write_out(&format!("   it said: {line}\n"))?;
        }
        Ok(())
    }

    /// Says that the show is over because of a signal.
    pub(super) fn break_off(&self, stop: &Stop) {
        if let Stop::Signal(signal) = stop {
            // Overwrites the ^C that the terminal has echoed. If the write fails, the exit code still tells.
            let start = if self.is_live { "\r\x1b[K" } else { "" };
            write_out(&format!("{start}   {signal}: the demo ends here, with all that it has started.\n")).ok();
        }
    }

    /// Which processes were left, in both acts.
    pub(super) fn summary(&mut self, alone: &Outcome, penned: &Outcome) -> Result<(), Stop> {
        let head = format!("   {:<19}{:<20}{}", "after the kill", "without nostray", "with nostray");
        let mut text = format!("{}\n", self.ink(Ink::Bold, &head));
        let mut line = |name: &str, alone: Option<bool>, penned: bool| {
            let cell = |survived: Option<bool>| match survived {
                Some(true) => (Ink::Red, "survived"),
                Some(false) => (Ink::Green, "gone"),
                None => (Ink::Dim, "-"),
            };
            text += &self.line_of_two(name, cell(alone), cell(Some(penned)));
        };
        for role in TREE {
            line(&role.to_string(), Some(alone.survivors.contains(&role)), penned.survivors.contains(&role));
        }
        line("nostray itself", None, OWN.iter().any(|role| penned.survivors.contains(role)));
        if alone.has_others() || penned.has_others() {
            line("others", Some(alone.has_others()), penned.has_others());
        }
        let count = |outcome: &Outcome| match outcome.survivors.len() + usize::from(outcome.has_unseen()) {
            0 => (Ink::Green, "0".to_owned()),
            count => (Ink::Red, count.to_string()),
        };
        let (alone, penned) = (count(alone), count(penned));
        text += &self.line_of_two("left behind", (alone.0, &alone.1), (penned.0, &penned.1));
        write_out(&text)
    }

    fn line_of_two(&self, name: &str, first: (Ink, &str), second: (Ink, &str)) -> String {
        let first = self.ink(first.0, &format!("{:<20}", first.1));
        format!("   {name:<19}{first}{}\n", self.ink(second.0, second.1))
    }

    fn draw(&mut self, members: &[Member], moment: Moment, status: &str) -> Result<(), Stop> {
        let mut lines = String::new();
        members.iter().for_each(|member| self.row(&mut lines, member, moment));
        write!(lines, "\n   {status}\n").ok();
        // Lines that are cut instead of wrapped, so that their number is known on a narrow terminal, too.
        let up = if self.drawn > 0 { format!("\x1b[{}A", self.drawn) } else { String::new() };
        self.drawn = lines.lines().count();
        let lines = lines.replace('\n', "\x1b[K\n");
        write_out(&format!("\x1b[?7l{up}\r{lines}\x1b[?7h"))
    }

    /// One process, in less than 80 columns.
    fn row(&self, lines: &mut String, member: &Member, moment: Moment) {
        let (ink, state) = match (moment, member.gone) {
            (_, Some(_)) if member.is_host() => (Ink::Yellow, "killed".to_owned()),
            (_, Some(gone)) => (Ink::Green, format!("gone  {:5.2} s", gone.as_secs_f32())),
            (Moment::Before(_), None) => (Ink::Cyan, "running".to_owned()),
            (Moment::After(elapsed), None) => (Ink::Red, format!("alive {:5.2} s", elapsed.as_secs_f32())),
        };
        let mark = self.ink(ink, &self.mark.to_string());
        let name = self.ink(Ink::Bold, &format!("{:<9}", member.role));
        let pid = self.ink(Ink::Dim, &format!("{:>7}", member.pid));
        let state = self.ink(ink, &state);
        // Writing to a string does not fail.
        writeln!(lines, "   {mark} {name} {pid}  {:<41} {state}", member.role.description()).ok();
    }
}

fn write_out(text: &str) -> Result<(), Stop> {
    terminal::write(text.as_bytes()).map_err(|error| Stop::from_output(&error))
}
