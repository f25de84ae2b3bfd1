//! Where sharing is impossible, a session gets a child of its own, with one warning. A socket that is no broker's, or
//! is another user's, is not trusted.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use badchild::{Folder, Found, User, badchild, wait_until};
use nostray_supervise::link::VERSION;
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::many::{Many, errors, text};
use testkit::stage::Caller;
use testkit::{in_parallel, nostray};

/// The user with the fewest rights.
fn least() -> User {
    *User::all().last().expect("one")
}

fn is_root() -> bool {
    User::all().contains(&User::Nobody)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
}

/// The warnings on stderr.
fn warnings(caller: &Caller) -> Vec<String> {
    caller.errors().lines().map(str::to_owned).collect()
}

/// Checks a session that fell back to a child of its own: its child is restarted as a shared one would be, and the
/// front says once why it is not shared.
fn expect_alone(mut caller: Caller) {
    caller.initialize();
    let before = caller.pid();
    caller.error("die", json!({}));
    assert_ne!(caller.pid(), before, "the child is restarted");
    caller.close();
    assert_eq!(caller.code(), 0, "{}", caller.errors());
    let said = warnings(&caller);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].contains("child of its own") && said[0].contains("--require-share"), "{said:#?}");
}

/// Checks that a front with `--require-share` refuses.
fn expect_refusal(mut caller: Caller) {
    assert_eq!(caller.code(), 125);
    let said = warnings(&caller);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with("nostray: this child cannot be shared: "), "{said:#?}");
}

/// A runtime directory in which there can be no broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    File,
    NotWritable,
    OfAnother,
    OpenToOthers,
}

#[test]
fn without_a_directory_for_a_broker_a_session_has_a_child_of_its_own_and_one_warning() {
    let uid = if is_root() { 65_534 } else { nostray_sys::process::user() };
    if Path::new(&format!("/run/user/{uid}")).exists() {
        return; // the broker has a directory in any case
    }
    let mut places = vec![Place::Nowhere, Place::File, Place::OpenToOthers];
    if is_root() {
        places.extend([Place::NotWritable, Place::OfAnother]);
    }
    let mut all = Vec::new();
    for place in places {
        all.extend([(place, false), (place, true)]);
    }
    in_parallel(all, |(place, required)| {
        let many = Many::for_user(least());
        let folder = if place == Place::OpenToOthers { Folder::private("bad", least()) } else { Folder::new("bad") };
        let (path, ours) = (folder.path().join("file"), folder.path().join("nostray"));
        match place {
            Place::Nowhere => {}
            Place::File => std::fs::write(&path, "").expect("write"),
            Place::NotWritable => set_mode(folder.path(), 0o755),
            // The directory is root's, and not this user's, so its mode does not matter.
            Place::OfAnother => {
                std::fs::create_dir(&ours).expect("mkdir");
                set_mode(&ours, 0o777);
            }
            Place::OpenToOthers => {
                std::fs::create_dir(&ours).expect("mkdir");
                std::os::unix::fs::chown(&ours, Some(uid), None).expect("chown");
                set_mode(&ours, 0o755);
            }
        }
        let options: &[&str] = if required { &["--require-share"] } else { &[] };
        let caller = many.share_in(options, &[], |command| {
            command.env_remove("XDG_STATE_HOME").env_remove("HOME").env_remove("XDG_RUNTIME_DIR");
            match place {
                Place::Nowhere => {}
                Place::File => drop(command.env("XDG_RUNTIME_DIR", &path).env("HOME", "/dev/null")),
                _ => drop(command.env("XDG_RUNTIME_DIR", folder.path())),
            }
        });
        if required {
            expect_refusal(caller);
            assert_eq!(many.stage.lives().len(), 0, "{place:?}");
        } else {
            expect_alone(caller);
        }
        many.expect_no_process();
    });
}

/// A session whose runtime directory is a full file system.
fn on_a_full_disk(many: &Many, folder: &Path, limits: &str) -> Caller {
    let script = "mount -t tmpfs -o $2,mode=700 none \"$1\" && export XDG_RUNTIME_DIR=$1 HOME=/dev/null && unset XDG_STATE_HOME \
                  && mkdir -m 700 $1/nostray && dd if=/dev/zero of=$1/fill bs=4k count=1 2>/dev/null; shift 2; exec \"$@\"";
    let (nostray, path) = (nostray().display().to_string(), folder.display().to_string());
    let server = many.stage.server(&[]);
    let mut words = vec!["-m", "sh", "-c", script, "sh", &path, limits, &nostray];
    words.extend(["share", "--linger", "0s", "--term-grace", "500ms", "--"]);
    words.extend(server.iter().map(String::as_str));
    many.stage.start_plain("unshare", &words)
}

/// The brokers whose socket is below this folder.
fn brokers_below(folder: &Path) -> Vec<Found> {
    let place = folder.display().to_string();
    let all = nostray_sys::proc::scan().unwrap_or_default();
    let found = all.into_iter().filter(|stat| stat.name == "nostray-broker" && !stat.is_zombie());
    found.filter_map(|stat| Found::by_pid(stat.pid)).filter(|found| found.command.contains(&place)).collect()
}

#[test]
fn a_full_disk_does_not_keep_a_session_from_its_child() {
    if !is_root() {
        return; // only root can mount a small file system
    }
    let many = Many::new();
    // Without room for another file a broker cannot start.
    let folder = Folder::new("full");
    expect_alone(on_a_full_disk(&many, folder.path(), "size=4k,nr_inodes=3"));
    many.expect_no_process();

    // Without room for another byte, a socket and a lock can still be made.
    let folder = Folder::new("full");
    let mut caller = on_a_full_disk(&many, folder.path(), "size=4k");
    caller.initialize();
    caller.error("die", json!({}));
    caller.who();
    caller.close();
    assert_eq!(caller.code(), 0, "{}", caller.errors());
    many.expect_no_process();
    wait_until("the broker leaves", || brokers_below(folder.path()).is_empty());
}

/// A runtime directory may have any length, but the path of a socket is limited.
#[test]
fn sessions_share_although_the_runtime_directory_is_too_long_for_a_socket() {
    let many = Many::new();
    let folder = Folder::private("long", User::Current);
    let long = folder.path().join("l".repeat(120));
    std::fs::create_dir(&long).expect("mkdir");
    set_mode(&long, 0o700);
    // A version of its own, so that no other session finds this broker: the short directory belongs to the user, not to
    // the test.
    let version = std::process::id().to_string();
    let change = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", &long).env("NOSTRAY_BROKER_VERSION", &version);
    };
    let mut callers: Vec<Caller> = (0..2).map(|_| many.share_in(&["--require-share"], &[], change)).collect();
    let pids: Vec<_> = callers.iter_mut().map(|caller| (caller.initialize(), caller.pid()).1).collect();
    assert_eq!(pids[0], pids[1]);
    let short = PathBuf::from(format!("/tmp/nostray-{}", nostray_sys::process::user()));
    assert_eq!(mode(&short), 0o700);
    assert_eq!(mode(&short.join(format!("broker-{version}.sock"))), 0o600);
    for caller in &mut callers {
        caller.close();
        assert_eq!(caller.code(), 0, "{}", caller.errors());
        assert_eq!(warnings(caller), [""; 0]);
    }
    many.stage.scene.expect_empty();
    let file = format!("broker-{version}.");
    wait_until("the broker leaves", || brokers_below(&short.join(&file)).is_empty());
    assert!(!short.join(format!("{file}sock")).exists());
    for end in ["lock", "log"] {
        std::fs::remove_file(short.join(format!("{file}{end}"))).ok();
    }
    // Fails if another broker uses the directory.
    std::fs::remove_dir(&short).ok();
}

/// The socket of the scene's broker.
fn socket(many: &Many) -> PathBuf {
    many.stage.scene.runtime().join(format!("nostray/broker-{VERSION}.sock"))
}

/// Makes nostray's directory, as the first session does.
fn make_place(many: &Many) {
    let place = many.stage.scene.runtime().join("nostray");
    std::fs::create_dir(&place).expect("mkdir");
    set_mode(&place, 0o700);
}

/// Checks that two sessions share a child, without warnings.
fn expect_shared(many: &Many) {
    let mut callers: Vec<Caller> = (0..2).map(|_| many.share(&["--require-share"], &[])).collect();
    let pids: Vec<_> = callers.iter_mut().map(|caller| (caller.initialize(), caller.pid()).1).collect();
    assert_eq!(pids[0], pids[1]);
    for caller in &callers {
        assert_eq!(warnings(caller), [""; 0]);
    }
    many.end_all(callers);
}

#[test]
fn files_of_dead_brokers_do_not_prevent_sharing() {
    // A plain file as socket, a lock file with the pid of a live process, and a long log.
    let many = Many::new();
    make_place(&many);
    std::fs::write(socket(&many), "no socket").expect("write");
    std::fs::write(socket(&many).with_extension("lock"), format!("{}", std::process::id())).expect("write");
    std::fs::write(socket(&many).with_extension("log"), "x".repeat(1 << 20)).expect("write");
    expect_shared(&many);
    assert!(std::fs::metadata(socket(&many).with_extension("log")).is_ok_and(|found| found.len() < 1 << 20));

    // A socket without a listener.
    let many = Many::new();
    make_place(&many);
    drop(UnixListener::bind(socket(&many)).expect("bind"));
    expect_shared(&many);

    // A real broker that was killed.
    let many = Many::new();
    let mut caller = many.begun(&[]);
    // Stop the front, or it would start the next broker.
    let front = i32::try_from(caller.process.id()).expect("small");
    Found::by_pid(badchild::pid(front)).expect("is there").send(Signal::STOP);
    many.broker().send(Signal::KILL);
    caller.process.kill().expect("kill");
    many.stage.scene.expect_empty();
    assert!(socket(&many).exists(), "the socket of the killed broker must be left");
    expect_shared(&many);
    assert!(!socket(&many).exists(), "a broker that leaves must remove its socket");
}

#[test]
fn a_directory_in_the_place_of_the_socket_costs_the_sharing_and_not_the_session() {
    in_parallel(vec![false, true], |required| {
        let many = Many::new();
        make_place(&many);
        std::fs::create_dir(socket(&many)).expect("mkdir");
        let caller = many.share(if required { &["--require-share"] } else { &[] }, &[]);
        if required {
            expect_refusal(caller)
        } else {
            expect_alone(caller)
        };
        many.expect_no_process();
        let log = std::fs::read_to_string(socket(&many).with_extension("log")).unwrap_or_default();
        assert!(log.contains("cannot serve"), "the log does not say why: {log}");
    });
}

/// This broker runs and does not answer. `broker_killed.rs` has the broker that is stopped.
#[test]
fn a_broker_that_does_not_answer_costs_the_sharing_and_not_the_session() {
    let many = Many::new();
    make_place(&many);
    let silent = UnixListener::bind(socket(&many)).expect("bind");
    in_parallel(vec![false, true], |required| {
        let caller = many.share(if required { &["--require-share"] } else { &[] }, &[]);
        if required { expect_refusal(caller) } else { expect_alone(caller) }
    });
    let status = many.nostray(&["broker", "status"]);
    assert_eq!(status.status.code(), Some(2), "{status:?}");
    assert!(errors(&status).contains("does not answer"), "{status:?}");
    drop(silent);
    expect_shared(&many);
}

fn call_as(user: User, socket: &Path, line: &str) -> Output {
    let scene = badchild::Scene::new(user);
    let mut command = scene.command(&badchild());
    command.arg("call").arg(socket).arg(line).stdin(Stdio::null()).output().expect("run")
}

#[test]
fn only_the_user_can_talk_to_the_broker() {
    let many = Many::new();
    let first = many.begun(&[]);
    let (socket, place) = (socket(&many), many.stage.scene.runtime().join("nostray"));
    assert_eq!(mode(&place), 0o700);
    for end in ["sock", "lock", "log"] {
        assert_eq!(mode(&socket.with_extension(end)), 0o600, "{end}");
    }
    let answer: Value = serde_json::from_str(&text(&call_as(User::Current, &socket, "\"status\""))).expect("JSON");
    assert_eq!(answer["pid"], many.broker().stat.pid.as_raw_nonzero().get());
    // The broker closes the connection after any other line, and lives on.
    for line in ["", "{}", "no JSON", "{\"attach\":{}}", "\"attach\"", "[[[[", "{\"stop\":7}"] {
        assert_eq!(text(&call_as(User::Current, &socket, line)), "", "{line}");
    }
    if is_root() {
        let refused = call_as(User::Nobody, &socket, "\"status\"");
        assert!(text(&refused).contains("Permission denied"), "{refused:?}");
        // Even with open permissions the broker refuses another user.
        for path in [many.stage.scene.runtime().as_path(), &place] {
            set_mode(path, 0o755);
        }
        set_mode(&socket, 0o666);
        for line in ["\"status\"", "{\"stop\":{\"again\":false}}"] {
            let refused = call_as(User::Nobody, &socket, line);
            assert!(!text(&refused).contains("pid"), "{refused:?}");
        }
        for path in [many.stage.scene.runtime().as_path(), &place] {
            set_mode(path, 0o700);
        }
    }
    let mut second = many.begun(&[]);
    second.who();
    many.end_all([first, second]);
}

#[test]
fn a_socket_of_another_user_is_not_trusted() {
    if !is_root() {
        return; // only root can put another user's socket there
    }
    let many = Many::for_user(User::Nobody);
    make_place(&many);
    let place = many.stage.scene.runtime().join("nostray");
    let nobody = many.stage.scene.runtime().metadata().expect("is there").uid();
    std::os::unix::fs::chown(&place, Some(nobody), None).expect("chown");
    let impostor = UnixListener::bind(socket(&many)).expect("bind");
    set_mode(&socket(&many), 0o777);
    impostor.set_nonblocking(true).expect("do not wait");
    expect_shared(&many);
    while let Ok((mut connection, _)) = impostor.accept() {
        let mut said = String::new();
        std::io::Read::read_to_string(&mut connection, &mut said).expect("read");
        assert_eq!(said, "", "a front sent something to the impostor");
    }
}
