//! `nostray doctor` tells which servers in the configurations of agent hosts are not wrapped, and what to write
//! instead; and whether nostray's own directories are sound.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use badchild::Folder;
use serde_json::{Value, json};
use testkit::nostray;

/// Runs doctor in a home of its own. Strays are not the subject here, so doctor looks only at the pid of this test,
/// which is no stray.
fn doctor(home: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(nostray());
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "HERMES_HOME"] {
        command.env_remove(variable);
    }
    // Puts nostray on the PATH, as an installation does.
    let path = format!("{}:/usr/bin:/bin", nostray().parent().expect("a folder").display());
    command.env("HOME", home).env("PATH", path).current_dir(home.join("project")).stdin(Stdio::null());
    command.args(["doctor", "--pid", &std::process::id().to_string()]).args(words).output().expect("run doctor")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

fn findings(home: &Path) -> Value {
    let output = doctor(home, &["--json"]);
    assert_eq!(text(&output.stderr), "");
    let findings: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(output.status.code(), Some(if findings["fine"] == true { 0 } else { 1 }), "{findings:#}");
    findings
}

/// A home with these files, and a project in it as working directory.
fn home(files: &[(&str, &str)]) -> Folder {
    let home = Folder::new("home");
    for (path, content) in [("project/README", "")].iter().chain(files) {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("make folders");
        std::fs::write(path, content).expect("write");
    }
    home
}

fn config<'a>(findings: &'a Value, end_of_path: &str) -> &'a Value {
    let mut all = findings["configs"].as_array().expect("a list").iter();
    let found = all.find(|config| config["path"].as_str().expect("text").ends_with(end_of_path));
    found.unwrap_or_else(|| panic!("{end_of_path} is not in {findings:#}"))
}

const JSON: &str = r#"{ "mcpServers": {
    "bare": { "command": "npx", "args": ["-y", "server"], "env": { "TOKEN": "hunter2" } },
    "safe": { "command": "nostray", "args": ["run", "--", "npx", "-y", "server"] },
    "also": { "command": "env", "args": ["A=hunter2", "/opt/nostray", "run", "--", "npx"] },
    "far": { "type": "http", "url": "https://example.org/mcp", "headers": { "Authorization": "hunter2" } }
} }"#;
const VS_CODE: &str = r#"{
    // What VS Code writes, with comments and a trailing comma.
    "servers": {
        "bare": { "type": "stdio", "command": "npx", "args": ["-y", "server"], },
        "safe": { "command": "nostray", "args": ["run", "--", "npx"] }, /* wrapped */
        "far": { "type": "http", "url": "https://example.org/mcp" },
    },
}"#;
const ZED: &str = r#"// Zed settings
{
    "theme": "One // Dark", // not a comment, and one
    "context_servers": {
        "bare": { "source": "custom", "command": "npx", "args": ["-y", "server"] },
        "safe": { "command": { "path": "nostray", "args": ["run", "--", "npx"] } },
        "extension": { "settings": { "key": "hunter2" } },
        "far": { "url": "https://example.org/mcp" },
    },
}"#;
const CODEX: &str = r#"
model = "o4"
when = 2026-01-01T00:00:00Z
[mcp_servers.bare]
command = "npx"
args = ["-y", "server"]
env = { TOKEN = "hunter2" }
[mcp_servers.safe]
command = "nostray"
args = ["run", "--", "npx"]
[mcp_servers.far]
url = "https://example.org/mcp"
"#;
const HERMES: &str = r#"
# Hermes
mcp_servers:
  bare: &bare
    command: npx
    args: ["-y", "server"]
    env: { TOKEN: hunter2 }
  safe:
    command: nostray
    args: [run, --, npx]
  far:
    url: https://example.org/mcp
"#;
const GOOSE: &str = r#"
GOOSE_MODEL: x
extensions:
  bare:
    type: stdio
    enabled: true
    cmd: npx
    args:
      - -y
      - server
    envs: { TOKEN: hunter2 }
  safe: { type: stdio, cmd: nostray, args: [run, --, npx] }
  off: { type: stdio, enabled: false, cmd: npx, args: [] }
  developer: { type: builtin, name: developer }
  far: { type: streamable_http, uri: https://example.org/mcp }
"#;

/// Each host, the path of its configuration, a configuration with one unwrapped server, and how doctor's replacement
/// for that server begins.
const FILES: [(&str, &str, &str, &str); 11] = [
    ("Claude Desktop", ".config/Claude/claude_desktop_config.json", JSON, "\"command\": \"nostray\",\n\"args\": ["),
    ("Claude Code", ".claude.json", JSON, "\"command\": \"nostray\",\n\"args\": ["),
    ("Claude Code", "project/.mcp.json", JSON, "\"command\": \"nostray\",\n\"args\": ["),
    ("Cursor", "home/.cursor/mcp.json", JSON, "\"command\": \"nostray\",\n\"args\": ["),
    ("Cursor", "project/.cursor/mcp.json", JSON, "\"command\": \"nostray\",\n\"args\": ["),
    ("VS Code", ".config/Code/User/mcp.json", VS_CODE, "\"command\": \"nostray\",\n\"args\": ["),
    ("VS Code", "project/.vscode/mcp.json", VS_CODE, "\"command\": \"nostray\",\n\"args\": ["),
    ("Codex", ".codex/config.toml", CODEX, "command = \"nostray\"\nargs = ["),
    ("Hermes", ".hermes/config.yaml", HERMES, "command: \"nostray\"\nargs: ["),
    ("Zed", ".config/zed/settings.json", ZED, "\"command\": \"nostray\",\n\"args\": ["),
    ("Goose", ".config/goose/config.yaml", GOOSE, "cmd: \"nostray\"\nargs: ["),
];

/// The path inside the home. The prefix `home/` only tells two files of Cursor apart.
fn inside(path: &str) -> &str {
    path.strip_prefix("home/").unwrap_or(path)
}

fn all_hosts() -> Folder {
    home(&FILES.map(|(_, path, content, _)| (inside(path), content)))
}

#[test]
fn servers_of_every_host_are_found_with_the_words_to_write() {
    let home = all_hosts();
    let findings = findings(home.path());
    assert_eq!(findings["configs"].as_array().expect("a list").len(), FILES.len(), "{findings:#}");
    for (host, path, _, begins) in FILES {
        let full = home.path().join(inside(path)).display().to_string();
        let config = config(&findings, &full);
        assert_eq!((&config["host"], &config["error"]), (&json!(host), &Value::Null), "{path}");
        let servers = config["servers"].as_array().expect("a list");
        let state = |name: &str| servers.iter().find(|server| server["name"] == name).map(|server| &server["state"]);
        assert_eq!(state("safe"), Some(&json!("wrapped")), "{path}");
        assert_eq!((state("far"), state("developer"), state("extension")), (None, None, None), "{path}");
        let bare: Vec<_> = servers.iter().filter(|server| server["state"] == "unwrapped").collect();
        assert_eq!(bare.len(), 1, "{path}: {config:#}");
        assert_eq!(bare[0]["name"], "bare");
        assert_eq!(bare[0]["command"], json!(["npx", "-y", "server"]));
        assert_eq!(bare[0]["replacement"]["args"], json!(["run", "--", "npx", "-y", "server"]));
        // Its folder is none that every host looks into, so the path is written out.
        let text = bare[0]["replacement"]["text"].as_str().expect("text");
        let text = text.replace(&nostray().display().to_string(), "nostray");
        assert!(
            text.starts_with(begins) && text.ends_with("\"run\", \"--\", \"npx\", \"-y\", \"server\"]"),
            "{text}"
        );
    }
    assert!(!findings.to_string().contains("hunter2"), "doctor shows a secret: {findings:#}");
}

#[test]
fn the_report_says_what_to_write_and_no_secrets() {
    let home = all_hosts();
    let output = doctor(home.path(), &[]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    for part in
        ["bare: not wrapped: npx -y server", "safe: wrapped", "off: switched off", "args = [\"run\", \"--\", \"npx\""]
    {
        assert!(report.contains(part), "'{part}' is not in:\n{report}");
    }
    assert!(!report.contains("hunter2"), "{report}");
}

/// "wrapped" means that the line would really run.
#[test]
fn a_wrapped_server_that_would_not_run_is_not_called_wrapped() {
    let home = home(&[(
        ".cursor/mcp.json",
        r#"{ "mcpServers": {
            "gone": { "command": "/nowhere/nostray", "args": ["run", "--", "npx"] },
            "strange": { "command": "nostray", "args": ["run", "--no-such-option", "--", "npx"] },
            "none": { "command": "nostray", "args": ["run", "--"] },
            "good": { "command": "nostray", "args": ["run", "--slot", "a", "--if-taken", "replace", "npx"] },
            "tilde": { "command": "~/bin/server" }
        } }"#,
    )]);
    let findings = findings(home.path());
    let servers = config(&findings, ".cursor/mcp.json")["servers"].as_array().expect("a list").clone();
    let state = |name: &str| servers.iter().find(|server| server["name"] == name).expect("there")["state"].clone();
    assert_eq!([state("gone"), state("strange"), state("none")], ["broken", "broken", "broken"]);
    assert_eq!([state("good"), state("tilde")], ["wrapped", "stuck"]);
    let report = text(&doctor(home.path(), &[]).stdout);
    assert!(report.contains("gone: wrapped, but it would not run: there is no program /nowhere/nostray"), "{report}");
}

#[test]
fn projects_have_servers_of_their_own() {
    let content = r#"{ "numStartups": 7, "projects": { "/src/x": { "mcpServers": { "p": { "command": "npx" } } },
        "/src/y": { "mcpServers": {} }, "/src/z": null } }"#;
    let home = home(&[(".claude.json", content)]);
    let findings = findings(home.path());
    let servers = &config(&findings, ".claude.json")["servers"];
    assert_eq!((&servers[0]["name"], &servers[0]["project"]), (&json!("p"), &json!("/src/x")), "{servers:#}");
    assert_eq!(servers.as_array().map(Vec::len), Some(1));
}

#[test]
fn a_broken_file_is_reported_and_the_others_are_read() {
    let home = home(&[
        (".claude.json", "{ \"mcpServers\": { \"x\": hunter2 } }"),
        (".cursor/mcp.json", "[]"),
        (".config/Code/User/mcp.json", "{ \"servers\": [] }"),
        (".codex/config.toml", "[mcp_servers.x]\ncommand = hunter2\n"),
        (".hermes/config.yaml", "mcp_servers:\n  x: [hunter2\n y\n"),
        (".config/zed/settings.json", "\n"),
        (".config/goose/config.yaml", GOOSE),
    ]);
    std::fs::create_dir_all(home.path().join("project/.mcp.json")).expect("a folder where a file should be");
    std::fs::create_dir_all(home.path().join(".config/Claude")).expect("make");
    std::fs::write(home.path().join(".config/Claude/claude_desktop_config.json"), [0xff, 0xfe]).expect("write");
    let findings = findings(home.path());
    for (path, part) in [
        (".claude.json", "line 1 column 24"),
        (".cursor/mcp.json", "names and values"),
        ("Code/User/mcp.json", "'servers' does not hold servers"),
        (".codex/config.toml", "line 2"),
        (".hermes/config.yaml", "line 4"),
        ("project/.mcp.json", "not a file"),
        ("claude_desktop_config.json", "UTF-8"),
    ] {
        let error = config(&findings, path)["error"].as_str().unwrap_or_else(|| panic!("{path}: {findings:#}"));
        assert!(error.contains(part), "{path}: {error}");
    }
    assert_eq!(config(&findings, "zed/settings.json")["error"], Value::Null, "an empty file is no error");
    assert_eq!(config(&findings, "goose/config.yaml")["servers"].as_array().map(Vec::len), Some(3));
    let report = text(&doctor(home.path(), &[]).stdout);
    assert!(report.contains("cannot be used") && !report.contains("hunter2"), "{report}");
}

#[test]
fn a_machine_with_nothing_to_do_is_fine() {
    let wrapped = r#"{ "mcpServers": { "x": { "command": "nostray", "args": ["run", "--", "npx"] } } }"#;
    let home = home(&[(".cursor/mcp.json", wrapped)]);
    let output = doctor(home.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("All is fine."));
    let findings = findings(home.path());
    assert!(["cgroup", "subreaper"].contains(&findings["machine"]["tier"].as_str().expect("text")), "{findings:#}");
    let checks = findings["machine"]["checks"].as_array().expect("a list");
    for name in ["control group v2", "subreaper", "pidfd", "/proc", "--isolate pid"] {
        let check = checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        // A failed check comes with advice.
        assert!(check["ok"] == true || check["advice"].is_string(), "{check:#}");
    }
    assert!(!home.path().join(".local").exists(), "doctor must not create directories");
}

#[test]
fn a_directory_that_others_can_read_is_reported_with_the_remedy() {
    let home = home(&[(".local/state/nostray/x", "")]);
    let place = home.path().join(".local/state/nostray");
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let findings = findings(home.path());
    let all = findings["directories"].as_array().expect("a list");
    let bad = all.iter().find(|place| place["purpose"] == "state").expect("there");
    assert_eq!(bad["state"], "bad");
    assert_eq!(bad["advice"], format!("make it private: chmod 700 {}", place.display()));
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    assert_eq!(doctor(home.path(), &[]).status.code(), Some(0));
}

#[test]
fn a_closed_stdout_is_no_reason_to_panic() {
    let home = home(&[]);
    for words in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        let mut command = Command::new(nostray());
        command.args(["doctor", "--pid", "1"]).args(words).env("HOME", home.path()).stdout(writer);
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().expect("run");
        assert_eq!(text(&output.stderr), "");
    }
}
