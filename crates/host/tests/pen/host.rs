//! A pen and its host: what the child finds, what is left as it was, and who guards.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use badchild::{Over, company};
use nostray::{Cause, Error, IfTaken, PenSpec, blocking};
use nostray_sys::Signal;
use nostray_sys::process::{Reaped, reap};
use nostray_sys::signal::{Disposition, set_disposition};

use crate::apart::any::{KINDS, Kind};
use crate::apart::{apart, apart_with, child, expect_alone, keepers, path_with, programs, trees, zombies};

const SHORT: Duration = Duration::from_millis(100);

fn shell(script: &str) -> nostray::PenSpecBuilder {
    PenSpec::builder("sh").args(["-c", script])
}

/// What a child sees of itself is what it would see if the host had started it alone.
#[test]
fn a_child_finds_signals_limits_and_files_as_if_the_host_had_started_it_alone() {
    apart(|| {
        // What the marks are for is that they are there; pipes have numbers of their own.
        let is_mark = |line: &&str| line.starts_with("env NOSTRAY_PEN=") || line.starts_with("Max realtime timeout");
        let seen = |output: &[u8]| -> Vec<String> {
            let text = String::from_utf8_lossy(output).into_owned();
            let lines = text.lines().filter(|line| !is_mark(line)).map(|line| match line.split_once('[') {
                Some((pipe, _)) if line.starts_with("fd ") => pipe.to_owned(),
                _ => line.to_owned(),
            });
            lines.collect()
        };
        let _open = File::open("/proc/self/status").expect("open");
        for script in ["", "exec grep SigIgn /proc/self/status"] {
            let words: Vec<String> = match script {
                "" => vec![programs().join("badchild").display().to_string(), "status".to_owned()],
                script => ["sh", "-c", script].map(str::to_owned).into(),
            };
            let mut alone = Command::new(&words[0]);
            alone.args(&words[1..]).stdin(Stdio::piped());
            let alone = seen(&alone.output().expect("run").stdout);
            for kind in KINDS {
                let mut pen = kind.spawn(&PenSpec::builder(&words[0]).args(&words[1..]).build().expect("right"));
                let (output, _) = pen.exchange(b"");
                assert!(pen.wait().success());
                assert_eq!(seen(&output), alone, "{kind:?}");
            }
            assert!(!alone.is_empty());
        }
        for kind in KINDS {
            let mut pen = kind.spawn(&shell("kill -PIPE $$; echo alive").build().expect("right"));
            assert_eq!(pen.exchange(b"").0, b"");
            assert_eq!(pen.wait().signal, Some(Signal::PIPE.as_raw()), "{kind:?}");
        }
    });
}

/// What of this process children could change.
fn of_this_process() -> Vec<String> {
    // Of the test's own thread: what the program's first one blocks while it makes this one is its own affair.
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("read");
    let is_of_interest = |line: &&str| ["Sig", "Shd", "Umask", "Threads"].iter().any(|key| line.starts_with(key));
    let lines = status.lines().filter(is_of_interest).filter(|line| !line.starts_with("SigQ"));
    let mut lines: Vec<_> = lines.map(str::to_owned).collect();
    lines.push(format!("subreaper {}", badchild::is_subreaper()));
    lines.push(format!("directory {}", std::env::current_dir().expect("a directory").display()));
    lines.extend(badchild::open_files().expect("read").into_iter().map(|(fd, target)| format!("fd {fd} {target}")));
    lines
}

#[test]
fn nothing_is_changed_in_the_host() {
    apart(|| {
        let before = of_this_process();
        for kind in KINDS {
            let mut pen = kind.ready(&child(&["tree", "stubborn", "daemon"]).build().expect("right"));
            let differs = |line: &&String| {
                !before.contains(line) && !["fd ", "Threads"].iter().any(|key| line.starts_with(key))
            };
            let during = of_this_process();
            assert_eq!(during.iter().filter(differs).collect::<Vec<_>>(), [""; 0], "{kind:?}");
            pen.stop(SHORT, SHORT);
            drop(pen);
            drop(kind.ready(&child(&["tree", "cooperative", "plain"]).build().expect("right")));
            expect_alone();
            // What sees them off takes a moment to end itself.
            badchild::comes_true(badchild::PATIENCE, &mut || of_this_process() == before);
            assert_eq!(of_this_process(), before, "{kind:?}");
            assert_eq!(zombies(), [0; 0]);
        }
    });
}

/// As libraries and shells do, who think that all children are theirs.
#[test]
fn a_host_that_waits_for_all_its_children_does_not_confuse_pens() {
    apart(|| {
        for kind in KINDS {
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if !matches!(reap(), Ok(Reaped::News(_))) {
                            std::thread::sleep(Duration::from_millis(1)); // a host that reaps any child, now and then
                        }
                    }
                });
                let _over = Over(&over);
                check_ends_without_codes(kind);
            });
        }
    });
}

#[test]
fn a_host_that_ignores_sigchld_does_not_confuse_pens() {
    apart(|| {
        set_disposition(Signal::CHLD, Disposition::Ignored).expect("ignore it");
        KINDS.into_iter().for_each(check_ends_without_codes);
    });
}

/// The manner of a tree with nothing in it that would want to know of its own children.
const STUBBORN: [&str; 3] = ["tree", "stubborn", "setsid"];

/// Ends of all kinds, of which the host does not get the codes of the front.
fn check_ends_without_codes(kind: Kind) {
    for _ in 0..5 {
        let exit = kind.spawn(&child(&["exit", "7"]).build().expect("right")).wait();
        assert_eq!((exit.code, exit.signal, exit.cause), (Some(7), None, Cause::Itself), "{kind:?}");
    }
    let exit = kind.spawn(&child(&["die", "6"]).build().expect("right")).wait();
    assert_eq!((exit.code, exit.signal, exit.cause), (None, Some(6), Cause::Itself), "{kind:?}");
    let mut pen = kind.ready(&child(&STUBBORN).build().expect("right"));
    assert_eq!(pen.stop(SHORT, SHORT).signal, Some(9), "{kind:?}");
    assert_eq!(trees().len(), 0);
    // All keepers are killed, so none of them reports how the child ended.
    let mut pen = kind.ready(&child(&STUBBORN).build().expect("right"));
    pen.child(); // its guard has written its record
    keepers().iter().for_each(|keeper| keeper.send(Signal::KILL));
    assert_eq!(pen.wait().cause, Cause::KeepersKilled, "{kind:?}");
    assert_eq!(trees().len(), 0);
    let holder = kind.ready(&child(&["pause"]).slot("db", IfTaken::Wait).build().expect("right"));
    let exit = kind.spawn(&child(&["pause"]).slot("db", IfTaken::Fail).build().expect("right")).wait();
    assert_eq!(exit.cause, Cause::SlotTaken, "{kind:?}");
    drop(holder);
    drop(kind.ready(&child(&["tree", "cooperative", "plain"]).build().expect("right")));
    expect_alone();
}

#[test]
fn without_a_guard_the_error_says_what_to_do() {
    apart_with(
        |command, folder| {
            command.env("PATH", folder.path());
        },
        || {
            for kind in KINDS {
                let error = kind.try_spawn(&child(&["pause"]).build().expect("right")).expect_err("no guard");
                assert!(matches!(error, Error::NoGuard), "{error}");
                let text = error.to_string();
                assert!(text.contains("nostray::guard::init()") && text.contains("PATH"), "{text}");
                assert_eq!(company().len(), 0);
            }
        },
        |_| (),
    );
}

/// An older nostray does not know what a guard is, and something else of that name even less.
#[test]
fn a_nostray_in_path_that_is_no_guard_is_told_as_a_failure_of_the_guard() {
    for script in ["#!/bin/sh\necho what >&2\nexit 2\n", "#!/bin/sh\nexit 0\n"] {
        apart_with(
            |command, folder| {
                let program = folder.path().join("nostray");
                // By another process: see `badchild::publish`.
                let mut shell = Command::new("sh");
                shell.args(["-c", "cat >$0 && chmod +x $0"]).arg(&program).stdin(Stdio::piped());
                let mut writer = shell.spawn().expect("start");
                writer.stdin.take().expect("piped").write_all(script.as_bytes()).expect("write");
                assert!(writer.wait().expect("wait").success());
                command.env("PATH", path_with(folder.path().to_owned()));
            },
            || {
                for kind in KINDS {
                    let exit = kind.spawn(&child(&["pause"]).build().expect("right")).wait();
                    assert!(matches!(exit.cause, Cause::GuardFailed(_)), "{kind:?}: {exit:?}");
                    assert_eq!((exit.code, exit.signal), (None, None), "there was no child: {exit:?}");
                }
            },
            |_| (),
        );
    }
}

/// A file without execute permission is passed over, as a shell does.
#[test]
fn a_nostray_that_is_not_executable_is_passed_over() {
    apart_with(
        |command, folder| {
            let path = folder.path().join("nostray");
            std::fs::write(&path, "").expect("write");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
            let path = [folder.path().to_owned(), programs()];
            command.env("PATH", std::env::join_paths(path).expect("no colon"));
        },
        || {
            for kind in KINDS {
                assert!(kind.spawn(&child(&["exit", "0"]).build().expect("right")).wait().success());
            }
        },
        |_| (),
    );
}

/// A guard forks, so it must be alone. `#[tokio::main]` starts threads before what looks like the first line.
#[test]
fn a_program_that_has_threads_already_cannot_guard_its_children_and_says_why() {
    apart_with(
        |command, _| {
            command.env("PATH", "/usr/bin:/bin");
        },
        || {
            let (stay, wait) = std::sync::mpsc::channel::<()>();
            let other = std::thread::spawn(move || wait.recv().is_err());
            nostray::guard::init();
            let error =
                blocking::Pen::spawn(&PenSpec::builder("true").build().expect("right")).expect_err("too late");
            assert!(error.to_string().contains("nostray::guard!() beside main"), "{error}");
            drop(stay);
            other.join().expect("no panic");
        },
        |_| (),
    );
}
