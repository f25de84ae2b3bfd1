//! What a look costs when many processes that have nothing to do with nostray are on the machine.

use std::process::Stdio;

use crate::Failure;
use crate::compare::Ground;
use crate::looks::{Look, Looks};
use crate::pens::{Crowd, Pens};
use crate::report::Table;
use crate::traffic::watch;

/// With so many.
pub(super) struct Crowded {
    pub(super) processes: usize,
    pub(super) looks: Looks,
    /// Lines that `ps -e` has printed.
    pub(super) listed: usize,
}

pub(super) fn measure(ground: &Ground, counts: &[usize], rounds: usize) -> Result<Vec<Crowded>, Failure> {
    let one = |&processes: &usize| {
        watch::doing(format!("looking around with {processes} other processes"));
        let _crowd = Crowd::start(&ground.programs, processes)?;
        let pen = Pens::start(&ground.programs, 1)?;
        let looks = Looks::take(&ground.programs, &pen.scene, rounds)?;
        let output = pen.scene.command("ps".as_ref()).arg("-e").stdin(Stdio::null()).output()?;
        Ok(Crowded { processes, looks, listed: String::from_utf8_lossy(&output.stdout).lines().count() })
    };
    counts.iter().map(one).collect()
}

pub(super) fn table(all: &[Crowded], rounds: usize) -> Table {
    let title = "One look with many other processes on the machine: ms, and against `ps -e`";
    let mut table = Table::new(title, &["processes", "what", "ms", "ratio to `ps -e`"]);
    for crowded in all {
        for look in Look::ALL {
            let ratio = if look == Look::System { "-".to_owned() } else { crowded.looks.ratio(look).show(2) };
            table.row([
                crowded.processes.to_string(),
                format!("`{}`", look.name()),
                crowded.looks.spread(look).show(1),
                ratio,
            ]);
        }
    }
    table.note(format!(
        "One pen is on record. Each command from its start to its end, {rounds} times in turns; the ratio is within a turn. A sweep looks \
         through the machine only if a pen's own processes have all been killed; the last row of each has one such pen (`--dry-run`, \
         so that it is there the next time, too)."
    ));
    table
}
