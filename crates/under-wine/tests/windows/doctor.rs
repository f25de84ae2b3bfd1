//! `nostray doctor`: which nostray this is, what the machine offers, and what the configurations of hosts name.

use std::process::Output;

use under_wine::{DEADLINE, Stage, kill, within};

/// A home with the configuration of one host.
struct Home {
    stage: Stage,
    folder: String,
}

impl Home {
    /// The entry stands for the words of one server.
    fn new(name: &str, entry: &str) -> Self {
        let stage = Stage::new(name);
        std::fs::create_dir_all(stage.folder().join("home/.cursor")).expect("made");
        let home = Self { folder: stage.path("home"), stage };
        home.write(entry);
        home
    }

    fn write(&self, entry: &str) {
        let entry = entry.replace('\\', "\\\\");
        let text = format!("{{ \"mcpServers\": {{ \"memory\": {{ {entry} }} }} }}");
        std::fs::write(self.stage.folder().join("home/.cursor/mcp.json"), text).expect("written");
    }

    fn config(&self) -> String {
        std::fs::read_to_string(self.stage.folder().join("home/.cursor/mcp.json")).expect("read")
    }

    fn doctor(&self, words: &[&str]) -> (Output, String) {
        self.run(&[&["doctor"], words].concat())
    }

    fn run(&self, words: &[&str]) -> (Output, String) {
        let roaming = format!("{}\\roaming", self.folder);
        let variables = [("USERPROFILE", self.folder.as_str()), ("APPDATA", &roaming)];
        let said = self.stage.run_with(&variables, "nostray.exe", words);
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        (said, text)
    }
}

/// The value of a field of a report in JSON, the first one of that name.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let head = format!("\"{name}\": ");
    json.lines().find_map(|line| line.trim().strip_prefix(&head)).map(|value| value.trim_end_matches(','))
}

const BY_CMD: &str = r#""command": "cmd", "args": ["/c", "npx", "-y", "@scope/server-memory"]"#;

#[test]
fn a_server_behind_cmd_is_not_wrapped_and_is_wrapped_with_its_words_intact() {
    let home = Home::new("doctor", BY_CMD);
    let (said, json) = home.doctor(&["--json"]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert_eq!(field(&json, "tier"), Some("\"job\""), "{json}");
    let records = ["\"purpose\": \"state\",", "\\nostray\","];
    assert!(records.iter().all(|part| json.contains(part)) && !json.contains("\"state\": \"bad\""), "{json}");
    assert!(json.contains("\"state\": \"unwrapped\"") && json.contains(".cursor"), "{json}");
    assert!(json.contains("\"version\": \"0."), "{json}");
    let (_, report) = home.doctor(&[]);
    for line in [
        "job: a job object for each tree",
        "a child in its job: a child is started",
        "memory: not wrapped: cmd /c npx -y",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
    assert!(report.contains("nostray.exe (version"), "which one runs: {report}");
    let hosts = home.run(&["hosts"]).1;
    assert!(hosts.contains("Cursor") && hosts.contains("memory"), "{hosts}");
    let before = home.config();
    let (fixed, text) = home.doctor(&["--fix", "--yes"]);
    assert!(fixed.status.success(), "{fixed:?}: {text}");
    assert_eq!(home.config().replace(' ', "").matches(r#""run","--","cmd","/c","npx","-y""#).count(), 1, "{before}");
    let (said, report) = home.doctor(&[]);
    assert!(report.contains("memory: wrapped"), "{report}");
    assert!(said.status.success(), "all is fine: {report}");
}

#[test]
fn a_nostray_behind_cmd_is_recognised() {
    let home = Home::new("doctor-by-hand", r#""command": "cmd", "args": ["/c", "nostray", "run", "--", "npx", "x"]"#);
    let (said, report) = home.doctor(&[]);
    assert!(report.contains("memory: wrapped"), "{report}");
    assert!(said.status.success(), "{report}");
}

#[test]
fn a_configuration_that_names_a_missing_or_another_nostray_is_named() {
    let home = Home::new("doctor-other", r#""command": "Z:\nowhere\nostray.exe", "args": ["run", "--", "npx", "x"]"#);
    let (said, json) = home.doctor(&["--json"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(json.contains("\"state\": \"broken\"") && json.contains("there is no program Z:"), "{json}");
    let copy = home.stage.path("nostray.exe");
    std::fs::copy(home.stage.built_here("nostray.exe"), home.stage.folder().join("nostray.exe")).expect("copied");
    home.stage.copy_what_wine_lacks();
    home.write(&format!(r#""command": "{copy}", "args": ["run", "--", "npx", "x"]"#));
    let (said, report) = home.doctor(&[]);
    assert!(report.contains("names another nostray") && report.contains("version 0."), "{report}");
    assert!(said.status.success(), "a doubt is no fault: {report}");
}

#[test]
fn a_server_whose_host_has_ended_may_be_a_stray_and_is_not_ended() {
    let home = Home::new("doctor-stray", "");
    let stage = &home.stage;
    home.write(&format!(r#""command": "{}", "args": ["sleep"]"#, stage.built("badchild.exe")));
    let mut host = stage.host("exits", &stage.badchild("sleep", &["left"]));
    let left = stage.told("left");
    let pid = format!("\"pid\": {left},");
    let (_, json) = home.doctor(&["--json"]);
    assert!(!json.contains(&pid), "its host lives: {json}");
    stage.go();
    host.wait().expect("ended");
    let (_, json) = home.doctor(&["--json"]);
    assert!(json.contains(&pid) && json.contains("\"confidence\": \"maybe\""), "{json}");
    let (said, _) = home.doctor(&["--kill", "--yes"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    let process = stage.find(" left").expect("it is still there");
    kill(process.pid);
    stage.time_until_empty();
}

#[test]
fn what_is_in_a_pen_is_no_stray() {
    let home = Home::new("doctor-pen", "");
    let stage = &home.stage;
    home.write(&format!(r#""command": "{}", "args": ["sleep"]"#, stage.built("badchild.exe")));
    let mut host = stage.host("waits", &stage.contained(&[], "tree", &[]));
    let orphan = stage.told("orphan");
    stage.told("child");
    let (_, json) = home.doctor(&["--json"]);
    assert!(
        !json.contains(&format!("\"pid\": {orphan},")),
        "the parent of this one has ended, and it is in a job: {json}"
    );
    stage.terminate(&stage.told("front"));
    host.wait().expect("ended");
    let is_gone = || stage.seen().is_empty().then_some(());
    assert!(within(DEADLINE, is_gone).is_some());
}
