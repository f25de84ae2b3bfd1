//! Every configuration entry in README.md and docs/ starts its server; those for hosts that `nostray doctor` knows are read by it, from the
//! files that the pages name.

use badchild::in_parallel;
use serde_json::Value;

use super::home::Home;
use super::pages::{Block, Page};

/// An entry for a host, and the files that the page names for it.
struct Entry {
    host: String,
    files: Vec<String>,
    text: String,
}

fn spans_of(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The entries of docs/hosts.md for the hosts that the doctor knows.
fn entries() -> Vec<Entry> {
    let of_a_host = |block: &Block| block.language != "sh" && block.above.starts_with("File: ");
    let entry = |block: Block| {
        let files = spans_of(&block.above).into_iter().filter(|span| span.contains('.')).collect();
        Entry { host: block.heading, files, text: block.text }
    };
    Page::at("docs/hosts.md").blocks().into_iter().filter(of_a_host).map(entry).collect()
}

/// What the doctor says of a file with this entry: the command of its one server.
fn read_by_doctor(entry: &Entry, file: &str) -> Vec<String> {
    let home = Home::new();
    let path = file.strip_prefix("~/").map_or_else(|| home.project().join(file), |below| home.path().join(below));
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("make a folder");
    std::fs::write(&path, &entry.text).expect("write");
    // Strays are not the subject here, so only those with the number of this test are considered.
    let pid = std::process::id().to_string();
    let words = ["nostray", "doctor", "--json", "--pid", &pid].map(str::to_owned);
    let said = home.command(&words).stdin(std::process::Stdio::null()).output().expect("run doctor");
    let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let configs = said["configs"].as_array().expect("a list");
    let [config] = configs.as_slice() else { panic!("{file}: not one file, but {configs:#?}") };
    assert_eq!(config["host"], entry.host.as_str(), "{config:#}");
    let servers = config["servers"].as_array().unwrap_or_else(|| panic!("{config:#}"));
    let [server] = servers.as_slice() else { panic!("{file}: not one server, but {servers:#?}") };
    assert_eq!(server["state"], "wrapped", "{server:#}");
    texts(&server["command"])
}

fn texts(list: &Value) -> Vec<String> {
    let words = list.as_array().into_iter().flatten();
    words.map(|word| word.as_str().expect("text").to_owned()).collect()
}

/// The command of the entry that is somewhere in this JSON.
fn command_in(value: &Value) -> Option<Vec<String>> {
    match &value["command"] {
        Value::String(program) => Some([vec![program.clone()], texts(&value["args"])].concat()),
        Value::Array(_) => Some(texts(&value["command"])),
        _ => value.as_object()?.values().find_map(command_in),
    }
}

#[test]
fn the_doctor_reads_every_entry_for_a_host_and_the_server_starts() {
    let entries = entries();
    assert_eq!(entries.len(), 8, "the doctor knows eight hosts");
    in_parallel(entries, |entry| {
        let mut commands: Vec<_> = entry.files.iter().map(|file| read_by_doctor(&entry, file)).collect();
        commands.dedup();
        let [command] = commands.as_slice() else { panic!("{}: {commands:?}", entry.host) };
        Home::new().expect_served(command);
    });
}

#[test]
fn every_other_entry_starts_its_server() {
    let mut commands = Vec::new();
    for page in Page::of_users() {
        for block in page.blocks() {
            // `python/check` and `node/check` run those of their languages.
            let other = ["sh", "rust", "text", "python", "js", "ts", "diff"];
            if other.contains(&block.language.as_str()) || block.above.starts_with("File: ") {
                continue;
            }
            if block.text.starts_with("[dependencies]") {
                continue; // for cargo
            }
            if block.text.starts_with("scrape_configs:") {
                continue; // for Prometheus: `views metrics::accepted::` checks it
            }
            assert_eq!(block.language, "json", "{}: {}", page.name, block.text);
            let is_whole = block.text.starts_with('{');
            let text = if is_whole { block.text.clone() } else { format!("{{{}}}", block.text) };
            let entry: Value =
                serde_json::from_str(&text).unwrap_or_else(|why| panic!("{}: {why}: {text}", page.name));
            commands.push(command_in(&entry).unwrap_or_else(|| panic!("{}: no command: {text}", page.name)));
        }
    }
    commands.sort();
    commands.dedup();
    assert!(commands.len() >= 4, "where are they? {commands:#?}");
    in_parallel(commands, |command| Home::new().expect_served(&command));
}

#[test]
fn the_page_names_every_host() {
    let page = Page::at("docs/hosts.md").text;
    let missing: Vec<_> =
        nostray_wrap::hosts::HOSTS.iter().map(|host| host.name).filter(|name| !page.contains(name)).collect();
    assert!(missing.is_empty(), "docs/hosts.md does not have {missing:?}");
}

/// README.md has a short table of what docs/hosts.md says.
#[test]
fn the_table_of_hosts_is_that_of_the_page() {
    let rows = Page::at("README.md").rows();
    for entry in entries() {
        let row = rows.iter().find(|row| row[0] == entry.host).unwrap_or_else(|| panic!("{} is missing", entry.host));
        let file = spans_of(&row[1]).remove(0);
        assert!(entry.files.contains(&file), "{}: {file} is not among {:?}", entry.host, entry.files);
        let key = spans_of(&row[2]).remove(0);
        assert!(entry.text.contains(&key), "{}: no {key} in {}", entry.host, entry.text);
    }
}
