//! Records: their content, and what nostray does when they are damaged, foreign, or cannot be written.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use badchild::{Bystanders, Folder, Found, Scene, User, badchild, comes_true};
use testkit::{nostray, own_processes, run_command};

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn record_file(scene: &Scene) -> PathBuf {
    let mut files =
        std::fs::read_dir(scene.runtime().join("nostray")).expect("read").map(|e| e.expect("entry").path());
    files.find(|path| path.extension().is_some_and(|kind| kind == "json")).expect("a record")
}

/// A pen that is running, on record in a place of its own.
fn running(scene: &Scene, options: &[&str], manner: &[&str]) -> std::process::Child {
    let process =
        run_command(scene, options, manner).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start");
    badchild::wait_until("the pen is on record", || {
        text(&nostray_in(scene, &["ps", "--json"]).stdout).contains("\"ready\"")
    });
    process
}

fn child_of(scene: &Scene) -> Option<Found> {
    scene.processes().into_iter().find(|found| found.stat.name == "badchild")
}

fn end(scene: &Scene, mut process: std::process::Child) {
    drop(process.stdin.take());
    process.kill().ok();
    process.wait().expect("reap");
    scene.expect_empty();
}

#[test]
fn a_record_names_all_keepers_and_the_child_and_is_private_and_goes_with_its_tree() {
    for user in User::all() {
        let scene = Scene::apart(user);
        let options = ["--session", "chat-17", "--label", "task=42", "--term-grace", "3s"];
        let process = running(&scene, &options, &["pause", "--token", "hunter2", "--api-key=hunter2"]);
        let file = record_file(&scene);
        let found = std::fs::metadata(&file).expect("is there");
        assert_eq!(found.mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(file.parent().expect("in a folder")).expect("is there").mode() & 0o777, 0o700);
        let record = std::fs::read_to_string(&file).expect("read");
        assert!(!record.contains("hunter2"), "a secret is on record: {record}");
        assert!(!record.contains(badchild::TOKEN), "the environment is on record: {record}");
        let own = own_processes(&scene);
        // The child is on record before it has executed its program.
        badchild::wait_until("the child is there", || child_of(&scene).is_some());
        let child = child_of(&scene).expect("the child");
        for (name, who) in [("front", &own.front), ("spare", &own.spare), ("guard", &own.guard), ("child", &child)] {
            let expected = format!("\"{name}\":{{\"pid\":{},\"start\":{}}}", who.stat.pid, who.stat.start.0);
            assert!(record.contains(&expected), "{expected} is not in {record}");
        }
        for part in
            ["\"session\":\"chat-17\"", "\"labels\":{\"task\":\"42\"}", "\"term_grace\":3000", "\"version\":1"]
        {
            assert!(record.contains(part), "{part} is not in {record}");
        }
        end(&scene, process);
        assert!(!file.exists());
        let left: Vec<_> = std::fs::read_dir(file.parent().expect("in a folder")).expect("read").flatten().collect();
        assert_eq!(left.len(), 1, "only the journal is left: {left:?}");
    }
}

/// When the directory for records is unusable for any reason, the child runs, contained, with one warning.
#[test]
fn without_a_place_for_records_the_child_runs_all_the_same() {
    let scene = Scene::new(User::Current);
    let read_only = Folder::new("read-only");
    let file = read_only.path().join("file");
    std::fs::write(&file, "").expect("write");
    let open = Folder::new("open-to-all");
    std::fs::create_dir(open.path().join("nostray")).expect("make");
    std::fs::set_permissions(open.path().join("nostray"), std::fs::Permissions::from_mode(0o777)).expect("chmod");
    let link = Folder::new("link");
    std::os::unix::fs::symlink("/tmp", link.path().join("nostray")).expect("link");
    let cases = [("a file in its place", file), ("open to all", open.path().into()), ("a link", link.path().into())];
    for (what, runtime) in cases {
        let mut command = run_command(&scene, &[], &["exit", "5"]);
        command.env("XDG_RUNTIME_DIR", &runtime).env("HOME", "/dev/null").env_remove("XDG_STATE_HOME");
        let output = command.output().expect("run");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{what}: {said}");
        assert_eq!(said.lines().count(), 1, "{what}: {said}");
        assert!(said.contains("contained, but not on record"), "{what}: {said}");
    }
    // None of the variables is set.
    let mut command = run_command(&scene, &[], &["exit", "5"]);
    let output = command.env_remove("XDG_RUNTIME_DIR").env_remove("HOME").env_remove("XDG_STATE_HOME").output();
    assert_eq!(output.expect("run").status.code(), Some(5));
    scene.expect_empty();
}

#[test]
fn a_full_disk_costs_the_record_and_not_the_child() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can mount a small file system
    }
    let (scene, folder) = (Scene::new(User::Current), Folder::new("full"));
    let mut shell = scene.command("unshare".as_ref());
    let script = "mount -t tmpfs -o size=4k,mode=700 none \"$1\" && export XDG_RUNTIME_DIR=$1 && mkdir -m 700 $1/nostray && \
                  dd if=/dev/zero of=$1/fill bs=4k count=1 2>/dev/null; exec \"$2\" run --eof-grace 0s -- \"$3\" exit 6";
    shell.args(["-m", "sh", "-c", script, "sh"]).arg(folder.path()).arg(nostray()).arg(badchild());
    let output = shell.env("HOME", "/dev/null").stdin(Stdio::null()).output().expect("run");
    assert_eq!(output.status.code(), Some(6), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not on record"), "{}", text(&output.stderr));
    scene.expect_empty();
}

/// Records that are cut, have a flipped bit, are of another version or user, are a link or a pipe, or are huge: no
/// command sends a signal or crashes. The record names the pid of a stranger, and its lock is free.
#[test]
fn damaged_and_foreign_records_are_never_acted_on() {
    let scene = Scene::apart(User::Current);
    let bystanders = Bystanders::start(User::Current);
    let stranger = Found::by_pid(nostray_sys::process::getpid()).expect("this test");
    let process = running(&scene, &[], &["pause"]);
    let record = std::fs::read_to_string(record_file(&scene)).expect("read");
    end(&scene, process);
    // Every process in the record has the pid of this test and another start time: a sweep that trusts the pid kills
    // this test.
    let number = format!("\"pid\":{},\"start\":1}}", stranger.stat.pid);
    let mut strange = String::new();
    let mut rest = record.as_str();
    while let Some(at) = rest.find("\"pid\":") {
        strange += &rest[..at];
        strange += &number;
        rest = &rest[at + rest[at..].find('}').expect("closed") + 1..];
    }
    strange += rest;
    let place = scene.runtime().join("nostray");
    let id = record.split("\"id\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an id").to_owned();
    let file = place.join(format!("{id}.json"));
    let look = |what: &str| {
        for words in [&["sweep"][..], &["ps"], &["ps", "--json"], &["stop", "--all"]] {
            let output = nostray_in(&scene, words);
            assert!(output.status.code().is_some_and(|code| code < 3), "{what}, {words:?}: {output:?}");
            assert!(!text(&output.stderr).contains("panicked"), "{what}, {words:?}: {output:?}");
        }
        for entry in std::fs::read_dir(&place).expect("read").flatten().filter(|e| e.path() != place.join("journal"))
        {
            let path = entry.path();
            if path.is_dir() {
                std::fs::remove_dir(path).ok()
            } else {
                std::fs::remove_file(path).ok()
            };
        }
    };
    let bytes = strange.as_bytes();
    for end in (0..bytes.len()).step_by(7) {
        std::fs::write(&file, &bytes[..end]).expect("write");
        look(&format!("cut at {end}"));
    }
    for bit in (0..bytes.len() * 8).step_by(61) {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&file, &flipped).expect("write");
        look(&format!("bit {bit}"));
    }
    for version in ["0", "2", "4294967295", "-1", "\"1\""] {
        std::fs::write(&file, strange.replace("\"version\":1", &format!("\"version\":{version}"))).expect("write");
        look(&format!("version {version}"));
    }
    std::fs::write(&file, vec![b' '; 1 << 20]).expect("write");
    look("huge");
    std::os::unix::fs::symlink("/etc/passwd", &file).expect("link");
    look("a link");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo").success());
    look("a pipe");
    std::fs::create_dir(&file).expect("make");
    look("a folder");
    if User::all().contains(&User::Nobody) {
        std::fs::write(&file, &strange).expect("write");
        std::os::unix::fs::chown(&file, Some(65_534), None).expect("chown");
        look("another user's");
    }
    bystanders.expect_untouched();
}

#[test]
fn a_record_of_another_version_is_shown_and_left_alone() {
    let scene = Scene::apart(User::Current);
    let process = running(&scene, &[], &["pause"]);
    let file = record_file(&scene);
    let record = std::fs::read_to_string(&file).expect("read");
    end(&scene, process);
    std::fs::write(&file, record.replace("\"version\":1", "\"version\":7")).expect("write");
    let shown = nostray_in(&scene, &["ps"]);
    assert!(text(&shown.stderr).contains("version 7"), "{shown:?}");
    nostray_in(&scene, &["sweep"]);
    assert!(file.exists(), "a sweep must not remove a record of another version");
    std::fs::write(&file, "{").expect("write");
    let swept = nostray_in(&scene, &["sweep"]);
    assert!(text(&swept.stdout).contains("damaged"), "{swept:?}");
    assert!(!file.exists() && file.with_extension("damaged").exists(), "a damaged record must be set aside");
}

/// What can be in the place of a file.
#[derive(Debug, Clone, Copy)]
enum Thing {
    Pipe,
    Folder,
    Socket,
    LinkToPipe,
    LinkToNothing,
    Device,
    Closed,
}

const THINGS: [Thing; 7] = [
    Thing::Pipe,
    Thing::Folder,
    Thing::Socket,
    Thing::LinkToPipe,
    Thing::LinkToNothing,
    Thing::Device,
    Thing::Closed,
];

impl Thing {
    /// Replaces what is at this path. False if this user may not create such a thing.
    fn put(self, path: &Path) -> bool {
        let run = |program: &str, words: &[&str]| {
            let status = std::process::Command::new(program).args(words).arg(path).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        take_away(path);
        match self {
            Self::Pipe => run("mkfifo", &[]),
            Self::Folder => std::fs::create_dir(path).is_ok(),
            Self::Socket => std::os::unix::net::UnixListener::bind(path).is_ok(),
            Self::LinkToPipe => {
                let pipe = path.with_file_name("a-pipe");
                take_away(&pipe);
                let made = std::process::Command::new("mkfifo").arg(&pipe).status();
                made.is_ok_and(|status| status.success()) && std::os::unix::fs::symlink(&pipe, path).is_ok()
            }
            Self::LinkToNothing => std::os::unix::fs::symlink("/no/such/file", path).is_ok(),
            Self::Device => {
                // /dev/zero, which never ends.
                let made = std::process::Command::new("mknod")
                    .arg(path)
                    .args(["c", "1", "5"])
                    .stderr(Stdio::null())
                    .status();
                made.is_ok_and(|status| status.success())
            }
            Self::Closed => std::fs::write(path, "").is_ok() && run("chmod", &["000"]),
        }
    }
}

fn take_away(path: &Path) {
    std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path)).ok();
}

/// Checks that this command of nostray's ends in time, with any output and exit code.
fn expect_no_hang(scene: &Scene, words: &[&str], what: &str) {
    let mut command = scene.command(&nostray());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().expect("start nostray");
    let ended = comes_true(Duration::from_secs(30), &mut || process.try_wait().expect("look").is_some());
    if !ended {
        process.kill().ok();
        process.wait().ok();
    }
    assert!(ended, "{what}: `nostray {}` hangs", words.join(" "));
}

/// Puts each of [`THINGS`] in the place of each file of a dead pen, a live pen and a held slot.
#[test]
fn no_command_hangs_on_a_pipe_or_device_in_the_place_of_a_registry_file() {
    let scene = Scene::apart(User::Current);
    let options = ["--slot", "db", "--no-sweep", "--eof-grace", "100ms", "--term-grace", "100ms"];
    let process = running(&scene, &options, &["pause"]);
    let living = record_file(&scene);
    let record = std::fs::read_to_string(&living).expect("read");
    let place = living.parent().expect("in a folder").to_owned();
    // The record of a dead pen: its lock is free, and no process has these start times.
    let dead = record.replace("\"start\":", "\"start\":9").replace("\"slot\":\"db\"", "\"slot\":null");
    let id = living.file_stem().and_then(|stem| stem.to_str()).expect("an id").to_owned();
    let slot = scene.runtime().join("state/nostray/slots/db");
    let names = [
        place.join("dead.lock"),
        place.join("dead.json"),
        place.join("dead.out"),
        place.join("dead.new"),
        place.join("journal"),
        place.join("journal.1"),
        place.join(format!("{id}.new")),
        slot.join("history.json"),
        slot.join("history.new"),
        slot.join("w-000000000000000000000001-dead.waits"),
        slot.join("lock"),
        slot.join("alive"),
    ];
    for (name, thing) in names.iter().flat_map(|name| THINGS.map(|thing| (name, thing))) {
        std::fs::write(place.join("dead.json"), dead.replace(&id, "dead")).expect("write");
        if !thing.put(name) {
            continue;
        }
        let what = format!("{thing:?} as {}", name.display());
        for words in [
            &["ps", "--all"][..],
            &["run", "--eof-grace", "0s", "--", "true"],
            &["run", "--slot", "db", "--if-taken", "fail", "--", "true"],
            &["stop", "dead"],
            &["log"],
            &["log", "dead", "--output"],
            &["slot", "show", "db"],
            &["slot", "list", "--all"],
            &["sweep"],
        ] {
            expect_no_hang(&scene, words, &what);
        }
        take_away(name);
        take_away(&name.with_file_name("a-pipe"));
    }
    // The live pen still ends as usual.
    take_away(&slot);
    end(&scene, process);
}
