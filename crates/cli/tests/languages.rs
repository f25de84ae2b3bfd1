//! The packages for Python and Node, with the program under test: their own tests and type checks, by `python/check` and `node/check`.
//! A program of its own: most of its time is their test runners', which take the machine as they find it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use badchild::beside_test;

/// Runs such a script, and shows what it says: it tells of what it skips, and how many tests it ran.
fn check(script: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let output = Command::new(root.join(script))
        .env("NOSTRAY", beside_test("nostray"))
        .stdin(Stdio::null())
        .output()
        .expect("run it");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let told = if output.status.success() {
        said.lines().filter(|line| is_worth_telling(line)).collect()
    } else {
        vec![said.as_str()]
    };
    // To the real stderr, also where the test runner captures output.
    writeln!(std::io::stderr(), "[{script}] {}", told.join("\n")).ok();
    assert!(output.status.success(), "{script} failed: {}", output.status);
}

fn is_worth_telling(line: &str) -> bool {
    ["SKIPPED", " passed", "# pass", "# fail"].iter().any(|word| line.contains(word))
}

#[test]
fn the_python_package_does_what_it_says() {
    check("python/check");
}

#[test]
fn the_node_package_does_what_it_says() {
    check("node/check");
}
