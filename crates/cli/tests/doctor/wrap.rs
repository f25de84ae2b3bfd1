//! `nostray wrap`, `unwrap` and `hosts` on whole homes: what is written, what is asked, what is left alone, and the way back.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use badchild::{Folder, Scene, User};
use serde_json::Value;
use testkit::nostray;
use testkit::person::Person;

const CURSOR: &str = "{ \"mcpServers\": {\r\n    // mine\r\n    \"echo\": { \"command\": \"sh\", \"args\": [\"-c\", \"echo $TOKEN\"], \"env\": { \"TOKEN\": \"hunter2\" }, },\r\n    \"fetch\": { \"command\": \"uvx\", \"args\": [\"mcp-server-fetch\"], \"env\": { \"A\": \"1\" } },\r\n    \"far\": { \"url\": \"https://example.org\" }\r\n} }\r\n";
const CODEX: &str = "# c\n[mcp_servers.pw]\ncommand = \"npx\" # d\nargs = [\"@playwright/mcp\", \"--token\", \"hunter2\"]\n[mcp_servers.solo]\ncommand = 'solo'\n";
const HERMES: &str = "mcp_servers:\n  memory:\n    command: npx # e\n    args:\n      - -y\n      - '@modelcontextprotocol/server-memory'\n";

fn home(files: &[(&str, &str)]) -> Folder {
    let home = Folder::new("wrap");
    std::fs::create_dir_all(home.path().join("project")).expect("make");
    for (path, text) in files {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("make folders");
        std::fs::write(path, text).expect("write");
    }
    home
}

fn usual() -> Folder {
    home(&[(".cursor/mcp.json", CURSOR), (".codex/config.toml", CODEX), (".hermes/config.yaml", HERMES)])
}

fn call(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(nostray());
    for variable in
        ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "HERMES_HOME", "CLAUDE_CONFIG_DIR"]
    {
        command.env_remove(variable);
    }
    command.env("HOME", home).current_dir(home.join("project")).stdin(Stdio::null());
    command.args(words).output().expect("run nostray")
}

/// Calls it, and returns what it said and how it ended.
fn said(home: &Path, words: &[&str]) -> (String, i32) {
    let output = call(home, words);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("text");
    assert!(!said.contains("hunter2"), "a secret is shown: {said}");
    (said, output.status.code().expect("a code"))
}

/// Every file below a folder, with its text.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("list") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.insert(path.display().to_string(), std::fs::read(&path).expect("read"));
            }
        }
    }
    all
}

/// The servers by their names: state and way.
fn states(home: &Path) -> BTreeMap<String, (String, Option<String>)> {
    let output = call(home, &["hosts", "--json"]);
    assert!(!String::from_utf8_lossy(&output.stdout).contains("hunter2"));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let servers =
        said["files"].as_array().expect("a list").iter().flat_map(|file| file["servers"].as_array().expect("a list"));
    let text = |value: &Value| value.as_str().map(str::to_owned);
    servers
        .map(|server| {
            (text(&server["name"]).expect("text"), (text(&server["state"]).expect("text"), text(&server["way"])))
        })
        .collect()
}

fn state(state: &str, way: Option<&str>) -> (String, Option<String>) {
    (state.to_owned(), way.map(str::to_owned))
}

#[test]
fn every_server_is_wrapped_and_unwrapped_to_the_same_bytes() {
    let home = usual();
    let before = files(home.path());
    let (text, code) = said(home.path(), &["wrap", "--dry-run"]);
    assert_eq!((code, files(home.path()) == before), (1, true), "{text}");
    for part in
        ["echo: run, nothing is known", "fetch: share, each call stands alone", "pw: run, drives a browser", "+ "]
    {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
    assert!(text.contains("share --any-dir --share-env A -- uvx mcp-server-fetch"), "{text}");
    let (text, code) = said(home.path(), &["wrap", "--yes"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("~/.cursor/mcp.json.before-nostray") && text.contains("Codex: restart it"), "{text}");
    let now = states(home.path());
    assert_eq!(now["echo"], state("wrapped", Some("run")));
    assert_eq!(now["fetch"], state("wrapped", Some("share")));
    assert_eq!((&now["far"], &now["memory"]), (&state("remote", None), &state("wrapped", Some("run"))));
    let wrapped = files(home.path());
    let (text, code) = said(home.path(), &["wrap", "--yes"]);
    assert_eq!((code, files(home.path()) == wrapped), (0, true), "twice is once: {text}");
    assert!(text.contains("Nothing to wrap"), "{text}");
    let (text, code) = said(home.path(), &["unwrap", "--yes"]);
    assert_eq!((code, files(home.path()) == before), (0, true), "{text}");
}

#[test]
fn a_wrapped_line_really_runs_with_the_entrys_own_words() {
    let home = usual();
    said(home.path(), &["wrap", "--yes", "cursor"]);
    let text = std::fs::read_to_string(home.path().join(".cursor/mcp.json")).expect("read");
    let line = text.lines().find(|line| line.contains("\"echo\"")).expect("there");
    let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    let command = words.iter().position(|word| *word == "command").expect("there") + 1;
    let args: Vec<&str> = words[command + 2..].iter().copied().take_while(|word| *word != "env").collect();
    assert_eq!(Path::new(words[command]), nostray());
    let output =
        Command::new(words[command]).args(args).env("TOKEN", "told").stdin(Stdio::null()).output().expect("run");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"told\n"[..], Some(0)));
}

#[test]
fn hosts_and_servers_can_be_chosen_and_another_way_too() {
    let home = usual();
    let count = |state: &str| states(home.path()).values().filter(|(found, _)| found == state).count();
    assert_eq!(said(home.path(), &["wrap", "--yes", "codex"]).1, 0);
    assert_eq!(count("wrapped"), 2);
    assert_eq!(said(home.path(), &["unwrap", "--yes"]).1, 0);
    assert_eq!(said(home.path(), &["wrap", "--yes", "--server", "memory"]).1, 0);
    assert_eq!((count("wrapped"), states(home.path())["memory"].clone()), (1, state("wrapped", Some("run"))));
    assert_eq!(said(home.path(), &["wrap", "--yes", "--server", "memory", "--share", "server-memory"]).1, 0);
    assert_eq!(states(home.path())["memory"], state("wrapped", Some("share")));
    assert_eq!(
        said(home.path(), &["wrap", "--yes", "--exclude", "solo", "--run", "fetch", "--lazy", "--hibernate", "10m"])
            .1,
        0
    );
    let now = states(home.path());
    assert_eq!((&now["solo"], &now["fetch"]), (&state("unwrapped", None), &state("wrapped", Some("run"))));
    assert_eq!(now["memory"], state("wrapped", Some("share")), "what was asked for earlier stays");
    let cursor = std::fs::read_to_string(home.path().join(".cursor/mcp.json")).expect("read");
    assert!(cursor.contains("\"run\", \"--lazy\", \"--hibernate\", \"10m\", \"--\", \"uvx\""), "{cursor}");
    assert_eq!(said(home.path(), &["unwrap", "--yes"]).1, 0);
    assert_eq!(std::fs::read_to_string(home.path().join(".cursor/mcp.json")).expect("read"), CURSOR);
    for (words, part) in [
        (&["wrap", "nothing"][..], "there is no host 'nothing'; there are claude-desktop"),
        (&["wrap", "--yes", "--server", "nothing"], "no host has a server 'nothing'"),
        (&["wrap", "--yes", "--project", "/nowhere"], "no directory"),
        (&["wrap", "--file", "/nowhere/x"], "--format"),
        (&["wrap"], "--yes"),
    ] {
        let (text, code) = said(home.path(), words);
        assert!(code == 2 && text.contains(part), "{words:?}: {code}: {text}");
    }
}

#[test]
fn files_of_projects_and_of_unknown_hosts_are_wrapped() {
    let home = home(&[
        ("project/.mcp.json", "{\"mcpServers\": {\"here\": {\"command\": \"a\"}}}"),
        ("named/.cursor/mcp.json", "{\"mcpServers\": {\"named\": {\"command\": \"a\"}}}"),
        ("given/.vscode/mcp.json", "{\"servers\": {\"given\": {\"command\": \"a\"}}}"),
        ("odd.conf", "servers: {odd: {command: a}}\n"),
    ]);
    let state_file = format!(
        "{{\"projects\": {{\"{}/named\": {{\"mcpServers\": {{\"inner\": {{\"command\": \"a\", \"args\": [\"x\"]}}}}}}}}}}",
        home.path().display()
    );
    std::fs::write(home.path().join(".claude.json"), &state_file).expect("write");
    let before = files(home.path());
    let given = home.path().join("given").display().to_string();
    let (text, code) = said(home.path(), &["wrap", "--yes", "--project", &given]);
    assert_eq!(code, 0, "{text}");
    for name in ["here", "named", "given", "inner"] {
        assert!(text.contains(&format!("  {name}")), "{name}: {text}");
    }
    let odd = home.path().join("odd.conf").display().to_string();
    assert_eq!(said(home.path(), &["wrap", "--yes", "--file", &odd, "--format", "yaml"]).1, 0);
    let (_, code) = said(home.path(), &["unwrap", "--yes", "--file", &odd, "--format", "yaml"]);
    assert_eq!(code, 0);
    assert_eq!(said(home.path(), &["unwrap", "--yes", "--project", &given]).1, 0);
    assert!(files(home.path()) == before);
}

#[test]
fn what_cannot_be_edited_is_named_and_the_rest_is_done() {
    let home = usual();
    let broken = "{ \"mcpServers\": { \"x\": hunter2 } }";
    std::fs::create_dir_all(home.path().join(".gemini")).expect("make");
    std::fs::write(home.path().join(".gemini/settings.json"), broken).expect("write");
    let read_only = home.path().join(".codex/config.toml");
    std::fs::set_permissions(&read_only, std::fs::Permissions::from_mode(0o444)).expect("chmod");
    let (text, code) = said(home.path(), &["wrap", "--yes"]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("left alone, since it cannot be read: ") && text.contains("line 1"), "{text}");
    assert!(text.contains("config.toml is read-only; make it writable first"), "{text}");
    assert_eq!(std::fs::read_to_string(home.path().join(".gemini/settings.json")).expect("read"), broken);
    assert_eq!(std::fs::read_to_string(&read_only).expect("read"), CODEX);
    assert_eq!(states(home.path())["echo"], state("wrapped", Some("run")));
}

#[test]
fn dotfiles_behind_links_stay_links() {
    let home = usual();
    let dotfiles = home.path().join("dotfiles");
    std::fs::create_dir_all(&dotfiles).expect("make");
    std::fs::rename(home.path().join(".cursor/mcp.json"), dotfiles.join("mcp.json")).expect("move");
    symlink("../dotfiles/mcp.json", home.path().join(".cursor/mcp.json")).expect("link");
    assert_eq!(said(home.path(), &["wrap", "--yes"]).1, 0);
    assert!(std::fs::read_link(home.path().join(".cursor/mcp.json")).is_ok());
    assert_ne!(std::fs::read_to_string(dotfiles.join("mcp.json")).expect("read"), CURSOR);
    assert!(dotfiles.join("mcp.json.before-nostray").exists());
    assert_eq!(said(home.path(), &["unwrap", "--yes"]).1, 0);
    assert_eq!(std::fs::read_to_string(dotfiles.join("mcp.json")).expect("read"), CURSOR);
    assert!(!dotfiles.join("mcp.json.before-nostray").exists());
}

#[test]
fn options_that_a_person_wrote_are_taken_away_only_by_name() {
    let mine = "{\"mcpServers\": {\"mine\": {\"command\": \"nostray\", \"args\": [\"run\", \"--slot\", \"a\", \"--\", \"x\"]}}}";
    let home = home(&[(".cursor/mcp.json", mine)]);
    let read = || std::fs::read_to_string(home.path().join(".cursor/mcp.json")).expect("read");
    let (text, code) = said(home.path(), &["unwrap", "--yes"]);
    assert!(code == 1 && text.contains("options that a person wrote") && read() == mine, "{text}");
    assert_eq!(said(home.path(), &["unwrap", "--yes", "--server", "mine"]).1, 0);
    assert_eq!(read(), "{\"mcpServers\": {\"mine\": {\"command\": \"x\", \"args\": []}}}");
}

#[test]
fn a_person_is_asked() {
    for (answer, is_written) in [("n\r", false), ("y\r", true)] {
        let (scene, home) = (Scene::new(User::Current), home(&[(".cursor/mcp.json", CURSOR)]));
        let program = nostray().display().to_string();
        let path = home.path().display().to_string();
        let mut person =
            Person::starts_in(&scene, &[&program, "wrap", "cursor"], &[("TERM", "dumb"), ("HOME", &path)]);
        person.sees("Wrap these 2 servers? [y/N] ");
        person.types(answer);
        let status = person.process.wait().expect("wait");
        assert_eq!(status.code(), Some(i32::from(!is_written)));
        let text = std::fs::read_to_string(home.path().join(".cursor/mcp.json")).expect("read");
        assert_eq!(text != CURSOR, is_written);
    }
}

/// Of all processes, only this test is considered, which is no stray: others on this machine are not to be ended.
#[test]
fn doctor_fixes_what_wrap_wraps() {
    let (home, pid) = (usual(), std::process::id().to_string());
    let (text, _) = said(home.path(), &["doctor", "--fix", "--pid", &pid]);
    assert!(text.contains("--yes"), "{text}");
    let (text, _) = said(home.path(), &["doctor", "--fix", "--yes", "--pid", &pid]);
    assert!(text.contains("+ ") && states(home.path())["echo"].0 == "wrapped", "{text}");
}

/// A host that lives, by the name of its process, with two copies of a server of its configuration.
#[test]
fn copies_of_a_server_under_a_living_host_are_counted() {
    let (scene, home) = (
        Scene::new(User::Current),
        home(&[(".cursor/mcp.json", "{\"mcpServers\": {\"twice\": {\"command\": \"cat-server\"}}}")]),
    );
    let write = |name: &str, text: &str| {
        // By another process: a program that any process has open for writing cannot be executed.
        let path = home.path().join(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"printf '#!/bin/bash\n%s\n' "$2" >"$1" && chmod 755 "$1""#, "sh"]).arg(path).arg(text);
        assert!(shell.status().expect("run sh").success());
    };
    write("cat-server", "while read -r line; do echo \"$line\"; done");
    // Two children, each with a pipe of its own on both sides, and both ends of it held by the host.
    write(
        "cursor",
        "coproc \"${0%/*}/cat-server\"; exec 5>&\"${COPROC[1]}\" 6<&\"${COPROC[0]}\"; \"${0%/*}/cat-server\" <&6 | \"${0%/*}/cat-server\" >&5 & echo ready; read -r line",
    );
    let mut host = scene.command(&home.path().join("cursor"));
    let mut host =
        host.env_remove("NOSTRAY_PEN").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(host.stdout.take().expect("piped")), &mut line)
        .expect("read");
    let mut is_counted = || {
        let found: Value = serde_json::from_slice(&call(home.path(), &["doctor", "--json"]).stdout).expect("JSON");
        let host_pid = i64::from(host.id());
        found["copies"].as_array().expect("a list").iter().any(|copies| {
            copies["host_pid"] == host_pid && copies["package"] == "cat-server" && copies["configured"] == true
        })
    };
    let counted = badchild::comes_true(badchild::PATIENCE, &mut is_counted);
    drop(host.stdin.take());
    host.wait().expect("wait");
    assert!(counted, "no copies of cat-server were seen");
}
