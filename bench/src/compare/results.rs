//! The page that a run writes: `RESULTS.md`, and the charts beside it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Answer, Check, Ground};
use crate::chart::Chart;
use crate::programs::described;
use crate::{Failure, machine, peers, screen};

/// Gathers what the parts found.
pub(super) struct Results {
    head: String,
    body: String,
    worse: Vec<String>,
    checks: Vec<Check>,
    charts: Vec<Chart>,
}

impl Results {
    pub(super) fn new(ground: &Ground) -> Result<Self, Failure> {
        let (machine, nostray) = (machine::describe(), described(&ground.programs.nostray)?);
        let mut head = format!("{machine}\n\n{nostray}.\n\nCompared: {}.\n", ground.peers.versions().join(", "));
        let mut missing = ground.peers.missing();
        missing.extend(ground.everything.as_ref().err().map(|why| format!("server-everything: {why}")));
        if missing.is_empty() {
            head.push_str("\nNo peer had to be left out.\n");
        } else {
            head.push_str("\nLeft out, because it could not be had here:\n\n");
            missing.iter().for_each(|line| head.push_str(&format!("- {line}\n")));
        }
        if ground.is_quick() {
            head.push_str("\nA quick run: few passes, so that spreads say little.\n");
        }
        screen::clear();
        screen::print(head.trim_end());
        Ok(Self { head, body: String::new(), worse: Vec::new(), checks: Vec::new(), charts: Vec::new() })
    }

    pub(super) fn add(&mut self, answer: Answer, took: Duration) {
        screen::clear();
        screen::print(format_args!("\n=== {} ({:.0} s)\n{}", answer.title, took.as_secs_f64(), answer.lead));
        self.body.push_str(&format!("\n## {}\n\n{}\n", answer.title, answer.lead));
        for chart in answer.charts {
            self.body.push_str(&format!("\n{}\n", chart.link("charts")));
            self.charts.push(chart);
        }
        for table in &answer.tables {
            screen::print(table.text().trim_end_matches('\n'));
            // A level below the part's own.
            self.body.push_str(&table.markdown().replacen("\n## ", "\n### ", 1));
        }
        let said = answer.worse.iter().map(|line| format!("  worse: {line}"));
        let doubts =
            answer.checks.iter().filter(|check| !check.held).map(|check| format!("  NOT SO: {}", check.what));
        said.chain(doubts).for_each(screen::print);
        self.worse.extend(answer.worse);
        self.checks.extend(answer.checks);
    }

    /// Writes all of it: into `bench/` if the run was whole and can be believed, otherwise below the build folder. Says whether it can.
    pub(super) fn write(self, whole: bool) -> Result<bool, Failure> {
        let believable = self.checks.iter().all(|check| check.held);
        let folder = if whole && believable {
            PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        } else {
            peers::folder()?.with_file_name("compare")
        };
        write(&folder, "RESULTS.md", &self.page(believable))?;
        for chart in &self.charts {
            write(&folder.join("charts"), chart.file, &chart.svg)?;
        }
        screen::print(format_args!("\nwritten: {}", folder.join("RESULTS.md").display()));
        Ok(believable)
    }

    fn page(&self, believable: bool) -> String {
        let mut page = format!(
            "# Side by side\n\nWritten by `bench/compare`, which measures everything below in one run, the contenders taking turns. Medians; in \
             brackets the lowest and the highest pass.\n\n{}",
            self.head
        );
        page.push_str("\n## Where nostray is slower or heavier\n\n");
        if self.worse.is_empty() {
            page.push_str("Nothing was found in this run.\n");
        }
        self.worse.iter().for_each(|line| page.push_str(&format!("- {line}\n")));
        page.push_str(&self.body);
        page.push_str("\n## Whether this can be believed\n\nThe run looks for signs that it measured nothing. A page with a sign of it is not kept.\n\n");
        for check in &self.checks {
            page.push_str(&format!("- [{}] {}\n", if check.held { "x" } else { " " }, check.what));
        }
        if !believable {
            page.push_str("\n**This run cannot be believed.**\n");
        }
        page
    }
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let file = folder.join(name);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&file, text));
    Ok(written.map_err(|error| format!("{}: {error}", file.display()))?)
}
