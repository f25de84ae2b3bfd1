//! `nostray metrics` and `/metrics` of `nostray web`: Prometheus' own tools accept both, and they say what `nostray ps` says.

mod accepted;
mod file;
mod scraped;
mod values;

use std::collections::BTreeMap;
use std::io::Write;

use testkit::stage::Stage;

/// Whether this machine has a program of Prometheus.
///
/// # Panics
/// If it is missing, and `CI=true`.
fn has(program: &str) -> bool {
    let found = std::process::Command::new(program).arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no {program}, and CI=true");
        // To the real stderr, also where the test runner captures output.
        writeln!(std::io::stderr(), "[views] SKIPPED a test with Prometheus: there is no {program}").ok();
    }
    found
}

/// What `nostray metrics` prints.
fn printed(stage: &Stage) -> String {
    let output = stage.nostray(&["metrics"]);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Its lines: name and labels, and the value.
fn series(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}")));
    let series: Vec<(String, f64)> =
        pairs.map(|(name, value)| (name.to_owned(), value.parse().expect("a number"))).collect();
    let count = series.len();
    let series: BTreeMap<String, f64> = series.into_iter().collect();
    assert_eq!(series.len(), count, "a series is there twice");
    series
}
