//! Every command line in README.md and docs/ runs, and does what a reader expects: a server answers, a command exits with 0.

use std::collections::BTreeSet;

use badchild::in_parallel;
use nostray_sys::Signal;
use testkit::person::Person;
use testkit::stage::Caller;

use super::home::{Home, server_in};
use super::pages::Page;

/// Command lines that no test runs, with the reason.
const NOT_RUN: [(&str, &str); 16] = [
    ("cargo run --release -- demo", ".ci/run runs it"),
    ("cargo test", "it is what runs this test"),
    ("cargo install nostray", "packaging/check.d/crates does it with the crates that were just made"),
    ("npm install -g nostray", "packaging/check.d/npm does it with the packages that were just made"),
    (
        "npm install -g ./dist/nostray-linux-x64-0.1.0.tgz ./dist/nostray-0.1.0.tgz",
        "packaging/check.d/npm does it in a prefix of its own",
    ),
    ("pip install nostray", "packaging/check.d/wheel does it with the wheel that was just made"),
    ("pip install --no-index --find-links dist nostray", "packaging/check.d/wheel does it in a new environment"),
    ("sudo dpkg -i nostray_0.1.0_amd64.deb", "packaging/check.d/deb does it in a new Debian"),
    (
        "tar -xzf nostray-0.1.0-linux-x86_64.tar.gz && nostray-0.1.0-linux-x86_64/install.sh",
        "packaging/check.d/tarball does it as an ordinary user",
    ),
    ("sha256sum --check --ignore-missing SHA256SUMS", "packaging/check does it"),
    ("ssh -L 7575:127.0.0.1:7575 some-machine nostray web --port 7575", "needs another machine"),
    (
        "nostray metrics --output /var/lib/prometheus/node-exporter/nostray.prom",
        "the folder belongs to another program; `views metrics::file::` writes such a file",
    ),
    ("nostray wait --timeout 30s 4711", "there is no such process; `run wait::` waits for one"),
    ("nostray wait --parent-of $$ --end-caller &", "it would end the shell; `run wait::` does it"),
    ("coproc nostray slot hold memory", "needs the next line; `slot hold::` does both"),
    ("read -r <&\"${COPROC[0]}\"", "needs the line before; `slot hold::` does both"),
];
/// An id, as the pages write it.
const ID: &str = "k7f3";

/// The command lines of all pages: of the blocks for a shell, and the code spans that name a server, too.
fn command_lines() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for page in Page::of_users() {
        lines.extend(page.shell_lines());
        let is_whole = |span: &String| starts_a_server(&words(span));
        lines.extend(page.spans().into_iter().filter(is_whole));
    }
    lines
}

/// Whether it is `nostray run`, `share` or `hold` with a server, also behind `claude mcp add`.
fn starts_a_server(words: &[String]) -> bool {
    let starts =
        words.windows(2).any(|pair| pair[0] == "nostray" && ["run", "share", "hold"].contains(&pair[1].as_str()));
    starts && server_in(words).is_some()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn in_a_shell(line: &str) -> Vec<String> {
    ["sh", "-c", line].map(str::to_owned).to_vec()
}

/// The children that a command of an operator finds.
fn cast_for(line: &str, home: &Home) -> Vec<Caller> {
    if line.starts_with("nostray slot ") {
        return vec![home.session("run --slot memory -- memory-server")];
    }
    vec![
        home.session("share --key memory --session chat-17 -- memory-server"),
        home.session("run --respawn --session chat-17 --label k=v -- some-server"),
    ]
}

/// The id of the child that is not shared.
fn id_of_the_last(home: &Home) -> String {
    let shown = home.stage.nostray(&["ps", "--json"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let pens = shown["pens"].as_array().expect("an array");
    let pen = pens.iter().find(|pen| pen["shared"].is_null()).expect("one is not shared");
    pen["id"].as_str().expect("an id").to_owned()
}

/// Runs a command that ends by itself.
fn expect_success(home: &Home, line: &str) {
    let mut caller = home.start(&in_a_shell(line));
    caller.close();
    let code = caller.code();
    // A report of what is not well on this machine.
    let allowed: &[i32] = if line.starts_with("nostray doctor") { &[0, 1] } else { &[0] };
    assert!(allowed.contains(&code), "'{line}' exited with {code}: {}", caller.errors());
}

/// Runs a command that goes on until it is ended.
fn expect_lines(home: &Home, line: &str) {
    let mut caller = home.start(&in_a_shell(line));
    assert!(!caller.next_line().is_empty());
    // A shell expands `~`, so only the first words are as they are in the line.
    let command = words(line)[..2].join(" ");
    home.stage.scene.those_with(&command).iter().for_each(|found| found.send(Signal::TERM));
    assert!(!caller.process.wait().expect("wait").success(), "'{line}' ended by itself");
}

/// Runs a command that has a whole terminal until a key ends it.
fn expect_screen(home: &Home, line: &str) {
    let nostray = testkit::nostray();
    let path = format!("{}:/usr/bin:/bin", nostray.parent().expect("a folder").display());
    let variables = [("TERM", "xterm"), ("PATH", path.as_str())];
    let mut person = Person::starts_in(&home.stage.scene, &["/usr/bin/env", "sh", "-c", line], &variables);
    person.sees("\x1b[?1049h");
    person.types("q");
    assert_eq!(person.exit_code(), Some(0), "'{line}'");
}

fn run(line: &str) {
    let home = Home::new();
    let words = words(line);
    let asks_a_server = words.iter().any(|word| word == "--warm");
    if starts_a_server(&words) && !asks_a_server {
        return home.expect_served(&in_a_shell(line));
    }
    let is_of_operators =
        ["ps", "top", "stop", "log", "restart", "sweep", "slot", "broker"].map(|name| format!("nostray {name}"));
    let has_cast = is_of_operators.iter().any(|command| line.starts_with(command));
    let cast = if has_cast { cast_for(line, &home) } else { Vec::new() };
    let line =
        if words.iter().any(|word| word == ID) { line.replace(ID, &id_of_the_last(&home)) } else { line.to_owned() };
    // Another program, or another test, may have the port.
    let line = line.replace("--port 7575", "--port 0");
    let goes_on = words.iter().any(|word| word == "--follow") || line.starts_with("nostray web");
    if line.starts_with("nostray top") {
        expect_screen(&home, &line);
    } else if goes_on {
        expect_lines(&home, &line);
    } else {
        expect_success(&home, &line);
    }
    drop(cast);
    home.end_all();
}

#[test]
fn every_command_line_runs() {
    let lines: Vec<String> = command_lines().into_iter().collect();
    let is_run = |line: &String| NOT_RUN.iter().all(|(not_run, _)| not_run != line);
    let lines: Vec<String> = lines.into_iter().filter(is_run).collect();
    assert!(lines.len() > 40, "where are they? {lines:#?}");
    in_parallel(lines, |line| {
        let done = std::panic::catch_unwind(|| run(&line));
        assert!(done.is_ok(), "'{line}' does not do what the page says; why is above");
    });
}

#[test]
fn what_is_not_run_is_there() {
    let lines = command_lines();
    for (line, reason) in NOT_RUN {
        assert!(lines.contains(line), "no page has '{line}' ({reason})");
    }
}
