//! Pens of both kinds: streams, ends with their causes, drops, and what the host notices of them (nothing).

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use badchild::random::Random;
use badchild::{company, wait_until};
use nostray::{Cause, ChangeKind, Error, IfTaken, Pen, PenSpec, Registry, Stdio as Stream, blocking};
use nostray_sys::Signal;
use nostray_sys::process::{Side, exit_now, fork};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::apart::any::{Any, KINDS, Kind, runtime};
use crate::apart::{apart, apart_with, child, expect_alone, file, folder, keepers, nostray, trees, zombies};

/// So long that a test fails which depends on it.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// Bytes of every value, in no order.
fn bytes(count: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    std::iter::repeat_with(|| random.below(256) as u8).take(count).collect()
}

fn shell(script: &str) -> nostray::PenSpecBuilder {
    PenSpec::builder("sh").args(["-c", script])
}

#[test]
fn what_is_piped_arrives_byte_for_byte() {
    apart(|| {
        let input = bytes(3_000_001);
        for kind in KINDS {
            let mut pen = kind.spawn(&child(&["echo"]).eof_grace(LONG).build().expect("right"));
            let (output, errors) = pen.exchange(&input);
            assert!(output == input && errors.is_empty(), "{kind:?}: {} {}", output.len(), errors.len());
            assert!(pen.wait().success());
            let mut pen = kind.spawn(&shell("cat >&2; echo done").eof_grace(LONG).build().expect("right"));
            let (output, errors) = pen.exchange(&input);
            assert!(errors == input && output == b"done\n", "{kind:?}: {} {}", output.len(), errors.len());
            assert!(pen.wait().success());
        }
    });
}

#[test]
fn what_is_inherited_is_the_hosts_own() {
    let input = bytes(300_001);
    apart_with(
        |command, folder| {
            let path = folder.path().join("stdin");
            std::fs::write(&path, bytes(300_001)).expect("write");
            command.stdin(File::open(path).expect("open"));
        },
        || {
            for kind in KINDS {
                // The first one leaves nothing for the second to read.
                let spec = shell("cat >$0; cat $0; cat $0 >&2").arg(file("copy")).stdin(Stream::Inherited);
                let spec = spec.stdout(Stream::Inherited).stderr(Stream::Inherited).build().expect("right");
                let mut pen = kind.spawn(&spec);
                assert!(pen.wait().success());
            }
        },
        |folder| {
            let read = |name: &str| std::fs::read(folder.path().join(name)).expect("read");
            assert!(read("stderr") == input, "stderr is not what it should be");
            // What the test program says itself is there, too.
            assert!(read("stdout").windows(input.len()).any(|part| part == input), "stdout is not what it should be");
        },
    );
}

#[test]
fn what_goes_nowhere_is_neither_read_nor_heard() {
    apart(|| {
        for kind in KINDS {
            let spec = shell("cat; echo out; echo error >&2; exit 3").stdin(Stream::Null);
            let spec = spec.stdout(Stream::Null).stderr(Stream::Null).build().expect("right");
            let mut pen = kind.spawn(&spec);
            match &pen {
                Any::Async(pen, _) => assert!(pen.stdin.is_none() && pen.stdout.is_none() && pen.stderr.is_none()),
                Any::Blocking(pen) => assert!(pen.stdin.is_none() && pen.stdout.is_none() && pen.stderr.is_none()),
            }
            let exit = pen.wait();
            assert_eq!((exit.code, exit.signal, exit.cause), (Some(3), None, Cause::Itself));
        }
    });
}

#[test]
fn the_code_or_the_signal_of_a_child_that_ends_by_itself_is_told_as_it_is() {
    apart(|| {
        for kind in KINDS {
            // Codes that mean something to nostray mean nothing when they are the child's own.
            for code in [0, 1, 75, 124, 125, 126, 127, 128, 137, 143, 255] {
                let exit = kind.spawn(&child(&["exit", &code.to_string()]).build().expect("right")).wait();
                assert_eq!((exit.code, exit.signal, exit.cause), (Some(code), None, Cause::Itself), "{kind:?}");
            }
            for signal in [1, 2, 6, 9, 15, 31] {
                let exit = kind.spawn(&child(&["die", &signal.to_string()]).build().expect("right")).wait();
                assert_eq!((exit.code, exit.signal, exit.cause), (None, Some(signal), Cause::Itself), "{kind:?}");
            }
        }
        expect_alone();
        assert_eq!(zombies(), [0; 0]);
    });
}

#[test]
fn a_tree_that_outlives_its_child_is_gone_when_wait_returns() {
    apart(|| {
        for kind in KINDS {
            for left in ["daemon", "term-ignoring", "setsid"] {
                let mut pen = kind.spawn(&child(&["leave", left, "7"]).build().expect("right"));
                let exit = pen.wait();
                assert_eq!((exit.code, exit.cause), (Some(7), Cause::Itself), "{kind:?} {left}");
                assert_eq!(trees().len(), 0, "{kind:?} {left}");
            }
        }
    });
}

#[test]
fn the_end_of_its_input_ends_a_child_and_is_told_as_the_cause_if_it_had_to_be_made_to() {
    apart(|| {
        for kind in KINDS {
            let cooperative = child(&["tree", "cooperative", "plain"]).eof_grace(LONG);
            let mut pen = kind.ready(&cooperative.build().expect("right"));
            pen.close_stdin();
            let exit = pen.wait();
            assert_eq!((exit.code, exit.signal), (Some(0), None));
            assert!(matches!(exit.cause, Cause::StdinClosed | Cause::Itself), "{kind:?} {exit}");
            let mut pen = kind.ready(&child(&["tree", "stubborn", "daemon"]).build().expect("right"));
            pen.close_stdin();
            let exit = pen.wait();
            assert_eq!((exit.code, exit.signal, exit.cause), (None, Some(9), Cause::StdinClosed), "{kind:?}");
            assert_eq!(company().len(), 0);
        }
    });
}

#[test]
fn a_stop_is_as_patient_as_it_is_asked_to_be_and_no_more() {
    apart(|| {
        for kind in KINDS {
            let patient = |manner: &[&str]| child(manner).eof_grace(LONG).term_grace(LONG).build().expect("right");
            let begun = Instant::now();
            let mut pen = kind.ready(&patient(&["tree", "cooperative", "plain"]));
            let exit = pen.stop(LONG, LONG);
            assert_eq!((exit.code, exit.signal), (Some(0), None), "{kind:?}");
            // Not the end of its input but SIGTERM ends this one.
            let mut pen = kind.ready(&patient(&["pause"]));
            let exit = pen.stop(SHORT, LONG);
            assert_eq!((exit.code, exit.signal), (None, Some(15)), "{kind:?}");
            assert!(matches!(exit.cause, Cause::Asked(_) | Cause::StdinClosed), "{kind:?} {exit}");
            let mut pen = kind.ready(&patient(&["tree", "stubborn", "daemon"]));
            let exit = pen.stop(SHORT, SHORT);
            assert_eq!((exit.code, exit.signal), (None, Some(9)), "{kind:?}");
            assert!(matches!(exit.cause, Cause::Asked(_) | Cause::StdinClosed), "{kind:?} {exit}");
            assert_eq!(company().len(), 0);
            assert_eq!(pen.stop(SHORT, SHORT), exit, "once more is the same");
            assert_eq!(pen.wait(), exit, "once more is the same");
            assert!(begun.elapsed() < LONG / 2, "{kind:?}: {:?}", begun.elapsed());
        }
    });
}

#[test]
fn times_that_no_clock_can_show_are_for_ever() {
    apart(|| {
        for kind in KINDS {
            let spec = child(&["tree", "cooperative", "plain"]).eof_grace(Duration::MAX).term_grace(Duration::MAX);
            let mut pen = kind.ready(&spec.clone().build().expect("right"));
            assert!(pen.stop(Duration::MAX, Duration::MAX).success());
            drop(kind.ready(&spec.build().expect("right")));
            expect_alone();
        }
        let mut pen = blocking::Pen::spawn(&child(&["exit", "0"]).build().expect("right")).expect("start");
        assert!(pen.wait_for(Duration::MAX).expect("wait").expect("for ever").success());
    });
}

#[test]
fn a_stop_without_a_pipe_to_close_is_a_stop() {
    apart(|| {
        for kind in KINDS {
            let spec = child(&["pause"]).stdin(Stream::Null).eof_grace(LONG).build().expect("right");
            let mut pen = kind.ready(&spec);
            let begun = Instant::now();
            let exit = pen.stop(LONG, LONG);
            assert_eq!(exit.signal, Some(15), "{kind:?} {exit}");
            assert!(matches!(exit.cause, Cause::Asked(_)), "{kind:?} {exit}");
            drop(kind.ready(&spec));
            expect_alone();
            assert!(begun.elapsed() < LONG / 2);
        }
    });
}

#[test]
fn a_kill_does_not_wait_for_anything() {
    apart(|| {
        for kind in KINDS {
            let spec =
                child(&["tree", "stubborn", "daemon"]).eof_grace(LONG).term_grace(LONG).build().expect("right");
            let mut pen = kind.ready(&spec);
            let begun = Instant::now();
            pen.kill();
            let exit = pen.wait();
            assert!(begun.elapsed() < LONG / 2);
            assert_eq!((exit.code, exit.signal), (None, Some(9)), "{kind:?}");
            assert!(matches!(exit.cause, Cause::Asked(_)), "{kind:?} {exit}");
            assert_eq!(company().len(), 0);
        }
    });
}

/// Both wait to be heard, since the front is stopped. Of two equal signals that wait, the kernel keeps the first.
#[test]
fn a_kill_is_not_lost_behind_a_stop_that_has_not_been_heard() {
    apart(|| {
        for _ in 0..3 {
            let spec =
                child(&["tree", "stubborn", "daemon"]).stdin(Stream::Null).eof_grace(LONG).term_grace(LONG).build();
            let (spec, begun) = (spec.expect("right"), Instant::now());
            runtime().block_on(async {
                let mut pen = Pen::spawn(&spec).expect("start");
                wait_until("the tree is there", || !trees().is_empty() && keepers().len() == 3);
                let is_front =
                    |found: &badchild::Found| !["nostray-spare", "nostray-guard"].contains(&&*found.stat.name);
                let front = keepers().into_iter().find(is_front).expect("a front");
                front.send(Signal::STOP);
                // A caller that does not wait for the end of a stop has asked for it all the same.
                assert!(tokio::time::timeout(SHORT, pen.stop(SHORT, LONG)).await.is_err());
                pen.kill();
                front.send(Signal::CONT);
                let exit = tokio::time::timeout(LONG, pen.wait()).await.expect("in time").expect("ends");
                assert_eq!((exit.code, exit.signal), (None, Some(9)));
            });
            assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
            expect_alone();
        }
    });
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error_and_nothing_is_started() {
    apart(|| {
        let not_executable = file("data");
        std::fs::write(&not_executable, "data").expect("write");
        let no_interpreter = file("script");
        std::fs::write(&no_interpreter, "#!/no/such/interpreter\n").expect("write");
        std::fs::set_permissions(&no_interpreter, Permissions::from_mode(0o755)).expect("set the mode");
        for kind in KINDS {
            for (program, expected) in [
                (file("missing"), ErrorKind::NotFound),
                ("no-such-program-in-path".into(), ErrorKind::NotFound),
                (not_executable.clone(), ErrorKind::PermissionDenied),
            ] {
                let refused = kind.try_spawn(&PenSpec::builder(&program).build().expect("right"));
                let Err(Error::Program { program: named, source }) = &refused else { panic!("{kind:?} {refused:?}") };
                assert_eq!((named, source.kind()), (&program, expected), "{kind:?}");
            }
            let spec = child(&["exit", "0"]).current_dir(file("missing")).build().expect("right");
            assert!(matches!(kind.try_spawn(&spec), Err(Error::Directory { .. })), "{kind:?}");
            assert_eq!(company().len(), 0, "nothing was started");
            // Only the kernel knows that there is nothing to interpret it.
            let mut watch = Registry::new().watch();
            let exit = kind.spawn(&PenSpec::builder(&no_interpreter).build().expect("right")).wait();
            let Cause::NotExecuted(why) = &exit.cause else { panic!("{kind:?}: {exit}") };
            assert!(why.contains("not found") && exit.code == Some(127), "{kind:?}: {exit}");
            let told: Vec<_> = std::iter::from_fn(|| watch.try_next()).map(|change| change.kind).collect();
            let never_ready = [ChangeKind::Started, ChangeKind::NotExecuted, ChangeKind::Empty];
            assert_eq!(told, never_ready, "{kind:?}");
        }
        expect_alone();
        assert_eq!(zombies(), [0; 0]);
    });
}

#[test]
fn of_two_pens_with_one_slot_the_second_waits_fails_or_replaces() {
    apart(|| {
        for kind in KINDS {
            let spec = |if_taken| child(&["tree", "stubborn", "daemon"]).slot("db", if_taken).build().expect("right");
            let mut first = kind.ready(&spec(IfTaken::Wait));
            let before = trees().len();
            let exit = kind.spawn(&spec(IfTaken::Fail)).wait();
            assert_eq!((exit.code, exit.cause), (Some(75), Cause::SlotTaken), "{kind:?}");
            let late = child(&["exit", "0"]).slot("db", IfTaken::WaitFor(SHORT)).build().expect("right");
            assert_eq!(kind.spawn(&late).wait().cause, Cause::SlotTaken, "{kind:?}");
            assert_eq!(trees().len(), before);
            let mut second = kind.ready(&spec(IfTaken::Replace));
            assert_eq!(trees().len(), before, "nothing of the first tree is left when the second one is there");
            let exit = first.wait();
            assert!(matches!(exit.cause, Cause::Asked(_)), "{kind:?} {exit}");
            second.kill();
            second.wait();
        }
        expect_alone();
    });
}

#[test]
fn when_its_keepers_are_killed_the_tree_is_ended_and_wait_returns_after_that() {
    apart(|| {
        for kind in KINDS {
            let names = ["nostray-front", "nostray-spare", "nostray-guard"];
            for hit in [&names[..1], &names[1..2], &names[2..], &names[..2], &names[1..], &names[..]] {
                let mut pen = kind.ready(&child(&["tree", "stubborn", "daemon"]).build().expect("right"));
                pen.child(); // its guard has written its record
                let keepers = keepers();
                assert_eq!(keepers.len(), 3);
                let hit: Vec<_> = keepers.iter().filter(|found| hit.contains(&found.stat.name.as_str())).collect();
                hit.iter().for_each(|found| found.send(Signal::KILL));
                assert!(!hit.is_empty());
                let exit = pen.wait();
                assert_eq!(trees().len(), 0, "{kind:?}, {hit:?}");
                assert_eq!(exit.cause, Cause::KeepersKilled, "{kind:?}, {hit:?}");
                assert_eq!(zombies(), [0; 0]);
                drop(pen);
                expect_alone();
            }
        }
    });
}

/// What a host does that has its own ideas of when a runtime ends.
#[test]
fn a_dropped_pen_is_gone_with_or_without_a_runtime() {
    apart(|| {
        let spec = child(&["tree", "stubborn", "daemon"]).build().expect("right");
        for kind in KINDS {
            drop(kind.ready(&spec));
            expect_alone();
        }
        let Any::Async(pen, runtime) = Kind::Async.ready(&spec) else { unreachable!() };
        drop(runtime);
        assert_ne!(trees().len(), 0, "it is held by the pen and not by the runtime");
        drop(pen);
        expect_alone();
        let Any::Async(pen, runtime) = Kind::Async.ready(&spec) else { unreachable!() };
        runtime.spawn(async move {
            let _held = pen;
            std::future::pending::<()>().await;
        });
        runtime.shutdown_background();
        expect_alone();
        let Any::Async(pen, runtime) = Kind::Async.ready(&spec) else { unreachable!() };
        std::thread::spawn(move || drop(pen)).join().expect("no panic");
        drop(runtime);
        expect_alone();
        // One that has not had the time to start anything.
        for kind in KINDS {
            drop(kind.spawn(&spec));
            expect_alone();
        }
        wait_until("no zombie is left", || zombies().is_empty());
    });
}

#[test]
fn a_pen_that_was_made_in_one_runtime_can_be_waited_for_in_another() {
    apart(|| {
        let spec = child(&["tree", "stubborn", "daemon"]).build().expect("right");
        let Any::Async(mut pen, first) = Kind::Async.ready(&spec) else { unreachable!() };
        drop(first);
        let exit = runtime().block_on(pen.stop(SHORT, SHORT)).expect("stop");
        assert_eq!(exit.signal, Some(9));
        assert_eq!(company().len(), 0);
    });
}

#[test]
fn a_host_that_stops_waiting_may_wait_again() {
    apart(|| {
        let mut pen = blocking::Pen::spawn(&child(&["pause"]).build().expect("right")).expect("start");
        for _ in 0..20 {
            assert_eq!(pen.wait_for(Duration::from_millis(5)).expect("wait"), None);
        }
        pen.kill();
        assert_eq!(pen.wait_for(LONG).expect("wait").and_then(|exit| exit.signal), Some(9));
        runtime().block_on(async {
            let mut pen = Pen::spawn(&child(&["pause"]).build().expect("right")).expect("start");
            for _ in 0..20 {
                assert!(tokio::time::timeout(Duration::from_millis(5), pen.wait()).await.is_err());
            }
            pen.kill();
            assert_eq!(pen.wait().await.expect("wait").signal, Some(9));
        });
    });
}

#[test]
fn a_pen_needs_no_runtime_to_be_started_and_used_in_one() {
    apart(|| {
        let mut pen = Pen::spawn(&child(&["pause"]).build().expect("right")).expect("start a pen");
        let refused = pen.stdin.take().expect("piped").into_tokio();
        assert!(refused.is_err(), "tokio's pipes need a runtime");
        let mut pen = Pen::spawn(&PenSpec::builder("cat").build().expect("right")).expect("start a pen");
        runtime().block_on(async {
            let mut stdin = pen.stdin.take().expect("piped").into_tokio().expect("in a runtime");
            stdin.write_all(b"hello").await.expect("write");
            drop(stdin);
            let mut text = String::new();
            pen.stdout.take().expect("piped").read_to_string(&mut text).await.expect("read");
            assert_eq!(text, "hello");
            assert!(pen.wait().await.expect("wait").success());
        });
    });
}

/// The end of its input cannot end the child then.
#[test]
fn a_dropped_pen_is_gone_although_another_process_has_its_input() {
    apart(|| {
        for kind in KINDS {
            for manner in [["tree", "cooperative", "plain"], ["tree", "stubborn", "daemon"]] {
                let spec = child(&manner).build().expect("right");
                let mut pen = kind.ready(&spec);
                pen.leak_stdin();
                drop(pen);
                expect_alone();

                // Taken by the host for some thread of its own, which does not end.
                let mut pen = kind.ready(&spec);
                let taken: OwnedFd = match &mut pen {
                    Any::Async(pen, _) => pen.stdin.take().expect("piped").into_std().expect("a descriptor").into(),
                    Any::Blocking(pen) => pen.stdin.take().expect("piped").into(),
                };
                drop(pen);
                expect_alone();
                drop(taken);

                // Leaked into another process, which lives on.
                let Any::Blocking(mut pen) = Kind::Blocking.ready(&spec) else { unreachable!() };
                let writer = pen.stdin.as_ref().expect("piped").try_clone().expect("duplicate");
                let mut other = Command::new("sleep").arg("600").env_clear().stdin(writer).spawn().expect("start");
                drop(pen.stdin.take());
                drop(pen);
                expect_alone();
                assert!(other.try_wait().expect("wait").is_none());
                other.kill().and_then(|()| other.wait()).expect("end it");
            }
        }
    });
}

/// A host that forks has two processes with the same values. Only the process that made the pen owns it.
#[test]
fn a_forked_process_that_drops_its_copy_of_a_pen_leaves_it_alone() {
    apart(|| {
        let spec = child(&["pause"]).stdin(Stream::Null).build().expect("right");
        let mut pen = blocking::Pen::spawn(&spec).expect("start");
        let mut line = [0; 6];
        pen.stdout.as_mut().expect("piped").read_exact(&mut line).expect("read");
        match fork().expect("fork") {
            Side::Child => {
                drop(pen);
                // For as long as a reaper would need to ask.
                std::thread::sleep(Duration::from_millis(500));
                exit_now(0);
            }
            Side::Parent(copy) => {
                let mut status = None;
                wait_until("the copy ends", || {
                    status = nostray_sys::process::reap_child(copy).expect("wait");
                    status.is_some()
                });
                assert_eq!(pen.wait_for(Duration::ZERO).expect("wait"), None, "it was not the copy's to end");
                assert_eq!(trees().len(), 1);
                pen.kill();
                pen.wait().expect("wait");
            }
        }
    });
}

#[test]
fn environment_directory_session_and_labels_are_what_was_asked_for() {
    apart(|| {
        for kind in KINDS {
            let spec = child(&["status"]).env("ADDED", "a b").env_remove("PATH").current_dir(folder());
            let mut pen = kind.spawn(&spec.build().expect("right"));
            let (output, _) = pen.exchange(b"");
            assert!(pen.wait().success());
            let text = String::from_utf8_lossy(&output).into_owned();
            let lines: Vec<_> = text.lines().collect();
            assert!(lines.contains(&"env ADDED=a b"), "{text}");
            assert!(lines.contains(&format!("directory {}", folder().display()).as_str()), "{text}");
            assert!(!lines.iter().any(|line| line.starts_with("env PATH=")), "{text}");
            let token = format!("env {}={}", badchild::TOKEN, std::env::var(badchild::TOKEN).expect("a token"));
            assert!(lines.contains(&token.as_str()), "what is the host's is the child's: {text}");

            let spec = child(&["pause"]).session("a session").label("who", "me").label("empty", "");
            let mut pen = kind.ready(&spec.build().expect("right"));
            let child = pen.child();
            let listed = Registry::new().list();
            let [found] = &listed[..] else { panic!("{listed:?}") };
            assert_eq!((&found.id, found.session.as_deref()), (&pen.id(), Some("a session")));
            let labels: Vec<_> = found.labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(labels, [("empty", ""), ("who", "me")]);
            assert_eq!(found.pid, Some(child.stat.pid.as_raw_nonzero().get()));
            assert_eq!(found.host, i32::try_from(std::process::id()).ok());
            assert_eq!(found.tree.len(), 1, "{found:?}");
            drop(pen);
            expect_alone();
        }
    });
}

/// Then not even the place of the registry is known to the guard by the environment.
#[test]
fn a_child_without_the_hosts_environment_is_on_record_and_contained_all_the_same() {
    apart(|| {
        for kind in KINDS {
            let mut pen = kind.spawn(&child(&["status"]).env_clear().env("ONE", "1").build().expect("right"));
            let (output, errors) = pen.exchange(b"");
            assert!(pen.wait().success());
            let text = String::from_utf8_lossy(&output).into_owned();
            let mut names: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("env ")).collect();
            names.retain(|line| !line.starts_with("NOSTRAY_PEN="));
            assert_eq!(names, ["ONE=1"], "{text}");
            assert_eq!(String::from_utf8_lossy(&errors), "");

            // The token is how we find it.
            let token = std::env::var(badchild::TOKEN).expect("a token");
            let spec = child(&["tree", "stubborn", "daemon"]).env_clear().env(badchild::TOKEN, token);
            let mut pen = kind.ready(&spec.build().expect("right"));
            assert_eq!(Registry::new().list().len(), 1);
            pen.child(); // its guard has written its record
            keepers().iter().for_each(|keeper| keeper.send(Signal::KILL));
            assert_eq!(pen.wait().cause, Cause::KeepersKilled);
            assert_eq!(company().len(), 0, "wait returns when nothing is left");
        }
    });
}

#[test]
fn an_isolated_child_is_alone_with_its_tree() {
    apart(|| {
        let works = nostray(&["run", "--isolate", "pid", "--", "true"]).stdin(Stdio::null()).status().expect("run");
        if !works.success() {
            return; // this machine has no namespaces for us, and says so elsewhere
        }
        for kind in KINDS {
            let mut pen =
                kind.spawn(&shell("echo $$; exec cat").eof_grace(LONG).isolate_pids().build().expect("right"));
            let number: i32 = pen.line().parse().expect("a number");
            assert!(number < 10, "{kind:?}: {number}");
            pen.close_stdin();
            let exit = pen.wait();
            assert!(exit.success(), "{kind:?} {exit}");
            let mut pen = kind.ready(&child(&["tree", "stubborn", "daemon"]).isolate_pids().build().expect("right"));
            keepers().iter().for_each(|keeper| keeper.send(Signal::KILL));
            assert_eq!(pen.wait().cause, Cause::KeepersKilled, "{kind:?}");
            expect_alone();
        }
    });
}
