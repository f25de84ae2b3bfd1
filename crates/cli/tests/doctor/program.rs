//! `nostray doctor` says which nostray runs, where it came from, and when PATH or a host's configuration has another one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use badchild::Folder;
use serde_json::Value;
use testkit::nostray;

/// A machine with a folder for each way to install nostray, and a home.
struct Machine(Folder);

impl Machine {
    fn new() -> Self {
        let machine = Self(Folder::new("machine"));
        fs::create_dir_all(machine.path("home")).expect("make a home");
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("make folders");
        fs::write(&path, text).expect("write");
        path
    }

    /// The program under test, at this place.
    fn install(&self, path: &str) -> PathBuf {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("make folders");
        // By another process, so that no open file is left with a child that another test forks.
        assert!(Command::new("cp").arg(nostray()).arg(&path).status().expect("run cp").success());
        path
    }

    fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path
    }

    fn call(&self, program: &Path, folders: &[&str], words: &[&str]) -> (String, String) {
        let path: Vec<_> = folders.iter().map(|folder| self.path(folder)).chain(["/bin".into()]).collect();
        let mut command = Command::new(program);
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CODEX_HOME", "HERMES_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("home")).env("PATH", std::env::join_paths(path).expect("a PATH"));
        let output = command.args(words).current_dir(self.path("home")).stdin(Stdio::null()).output().expect("run");
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// What doctor says for people, and for programs. It looks at no other stray than this test, which is none.
    fn doctor(&self, program: &Path, folders: &[&str]) -> (String, Value) {
        let pid = std::process::id().to_string();
        let (text, _) = self.call(program, folders, &["doctor", "--pid", &pid]);
        let (json, _) = self.call(program, folders, &["doctor", "--pid", &pid, "--json"]);
        (text, serde_json::from_str(&json).expect("one JSON object"))
    }
}

#[test]
fn each_way_to_install_is_told_apart() {
    let machine = Machine::new();
    let record = "../../../bin/nostray,sha256=x,1\n";
    for (folder, mark) in
        [("uv/tools/nostray", "uv-receipt.toml"), ("pipx/venvs/nostray", "pipx_metadata.json"), ("venv", "")]
    {
        machine.write(&format!("{folder}/lib/python3.11/site-packages/nostray-0.1.0.dist-info/RECORD"), record);
        machine.write(&format!("{folder}/pyvenv.cfg"), "");
        if !mark.is_empty() {
            machine.write(&format!("{folder}/{mark}"), "");
        }
    }
    machine.write("user/lib/python3.11/site-packages/nostray-0.1.0.dist-info/RECORD", record);
    machine.write("archive/share/nostray/receipt", "nostray-receipt 1\nversion 0.1.0\nfile 0 bin/nostray\n");
    machine.write("cargo/.crates.toml", "[v1]\n\"nostray 0.1.0 (registry+x)\" = [\"nostray\"]\n");
    machine.write("src/target/.rustc_info.json", "{}");
    machine.write("project/package.json", "{}");
    let npm = "node_modules/@nostray/linux-x64/bin/nostray";
    let cases = [
        ("uv/tools/nostray/bin/nostray", "uv-tool"),
        ("pipx/venvs/nostray/bin/nostray", "pipx"),
        ("venv/bin/nostray", "venv"),
        ("user/bin/nostray", "pip"),
        ("with a space/bin/nostray", "unknown"),
        ("archive/bin/nostray", "archive"),
        ("cargo/bin/nostray", "cargo"),
        ("src/target/debug/nostray", "build"),
        (&format!("lib/node_modules/nostray/{npm}"), "npm"),
        (&format!("project/{npm}"), "npm"),
        (&format!("home/.npm/_npx/b1767d125cf9ba8d/{npm}"), "cache"),
        ("home/.cache/uv/archive-v0/BaIF7aHPU-H4vlKd/bin/nostray", "cache"),
    ];
    for (path, expected) in cases {
        let program = machine.install(path);
        let (text, said) = machine.doctor(&program, &[]);
        assert_eq!(said["program"]["origin"], expected, "{path}: {text}");
        assert_eq!(said["program"]["path"], program.canonicalize().expect("there").to_str().expect("text"));
        assert_eq!(said["program"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&format!("version {}", env!("CARGO_PKG_VERSION"))), "{text}");
        fs::remove_file(program).expect("tidy up");
    }
}

#[test]
fn links_are_followed_and_others_in_path_are_named_with_their_versions() {
    let machine = Machine::new();
    let own = machine.install("opt/nostray");
    fs::create_dir_all(machine.path("links")).expect("make a folder");
    symlink(&own, machine.path("links/nostray")).expect("link");
    machine.script("old/nostray", "#!/bin/sh\necho nostray 0.0.9\n");
    machine.script("mute/nostray", "#!/bin/sh\nexit 3\n");
    let (text, said) = machine.doctor(&machine.path("links/nostray"), &["links", "opt"]);
    assert_eq!(said["program"]["path"], own.canonicalize().expect("there").to_str().expect("text"));
    assert_eq!(said["in_path"].as_array().map(Vec::len), Some(1), "a link is no other program: {said:#}");
    assert!(!text.contains("another one") && !text.contains("one more"), "{text}");
    let (text, said) = machine.doctor(&own, &["old", "links", "mute"]);
    let versions: Vec<_> = said["in_path"].as_array().expect("a list").iter().map(|one| &one["version"]).collect();
    assert_eq!(versions, [&Value::from("0.0.9"), &Value::from(env!("CARGO_PKG_VERSION")), &Value::Null]);
    assert!(text.contains("the first nostray in PATH is another one") && text.contains("version 0.0.9"), "{text}");
    assert!(text.contains("PATH has one more nostray") && text.contains("-> "), "{text}");
    let (text, _) = machine.doctor(&own, &[]);
    assert!(text.contains("no folder of PATH has it"), "{text}");
}

/// A program in PATH that does not end is not waited for.
#[test]
fn a_program_in_path_that_does_not_answer_is_killed() {
    let machine = Machine::new();
    let own = machine.install("opt/nostray");
    let file = machine.path("pid");
    machine.script("slow/nostray", &format!("#!/bin/sh\necho $$ >{}\nexec sleep 1000\n", file.display()));
    let (_, said) = machine.doctor(&own, &["slow"]);
    assert_eq!(said["in_path"][0]["version"], Value::Null);
    let pid = fs::read_to_string(file).expect("it was started");
    assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "it still runs");
}

/// npm's `nostray` is a script that becomes the program; both are one installation.
#[test]
fn the_script_of_npm_is_no_other_program() {
    let machine = Machine::new();
    let own = machine.install("lib/node_modules/nostray/node_modules/@nostray/linux-x64/bin/nostray");
    let shim = machine
        .script("lib/node_modules/nostray/bin/nostray", &format!("#!/bin/sh\nexec '{}' \"$@\"\n", own.display()));
    fs::create_dir_all(machine.path("bin")).expect("make a folder");
    symlink(&shim, machine.path("bin/nostray")).expect("link");
    let (text, said) = machine.doctor(&machine.path("bin/nostray"), &["bin"]);
    assert_eq!(said["program"]["origin"], "npm");
    assert!(!text.contains("another one"), "{text}");
}

#[test]
fn a_configuration_that_names_another_nostray_or_one_that_may_vanish_is_named() {
    let machine = Machine::new();
    let own = machine.install("opt/nostray");
    let old = machine.script("old/nostray", "#!/bin/sh\necho nostray 0.0.9\n");
    let cached = machine.install("home/.npm/_npx/b1767d125cf9ba8d/node_modules/@nostray/linux-x64/bin/nostray");
    let entry = |name: &str, command: &str, words: &str| {
        format!(r#""{name}": {{"command": "{command}", "args": [{words}"x"]}}"#)
    };
    let run = r#""run", "--", "#;
    let entries = [
        entry("own", &own.display().to_string(), run),
        entry("by-name", "nostray", run),
        entry("old", &old.display().to_string(), run),
        entry("cached", &cached.display().to_string(), run),
        entry("missing", &machine.path("gone/nostray").display().to_string(), run),
        entry("npx", "npx", &format!(r#""-y", "nostray", {run}"#)),
    ];
    machine.write("home/.cursor/mcp.json", &format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(", ")));
    let (text, said) = machine.doctor(&own, &["opt"]);
    let servers = said["configs"][0]["servers"].as_array().expect("a list");
    let of = |name: &str| servers.iter().find(|server| server["name"] == name).expect("listed");
    for name in ["own", "by-name", "npx"] {
        assert_eq!(
            (&of(name)["state"], &of(name)["doubt"]),
            (&Value::from("wrapped"), &Value::Null),
            "{name}: {text}"
        );
    }
    let has = |name: &str, field: &str, part: &str| {
        let said = of(name)[field].as_str().unwrap_or_default();
        assert!(said.contains(part), "{name}: '{part}' is not in '{said}'");
    };
    has("old", "doubt", "another nostray");
    has("old", "doubt", "0.0.9");
    has("old", "advice", "nostray wrap");
    has("cached", "doubt", "cache of npx");
    has("cached", "advice", "npm install -g nostray");
    has("missing", "detail", "there is no program");
    for part in ["cached: wrapped, but it names", "missing: wrapped, but it would not run", "-> `nostray unwrap` and"]
    {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
}

/// `nostray wrap` writes the path of the program that runs, also into a cache; so it says that this is not to be kept.
#[test]
fn wrap_warns_when_it_would_write_a_path_that_may_vanish() {
    let machine = Machine::new();
    machine.write("home/.cursor/mcp.json", r#"{"mcpServers": {"some": {"command": "npx", "args": ["-y", "some"]}}}"#);
    let cached = machine.install("home/.cache/uv/archive-v0/BaIF7aHPU-H4vlKd/bin/nostray");
    let (text, errors) = machine.call(&cached, &[], &["wrap", "--dry-run"]);
    assert!(text.contains("archive-v0"), "{text}");
    assert!(errors.contains("may vanish") && errors.contains("uv tool install nostray"), "{errors}");
    let stays = machine.install("opt/nostray");
    assert_eq!(machine.call(&stays, &[], &["wrap", "--dry-run"]).1, "");
}
