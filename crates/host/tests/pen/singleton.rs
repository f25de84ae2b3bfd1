//! A name that at most one live process holds: among processes, among threads, and with `nostray run --slot`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, comes_true, pid, wait_until};
use nostray::{Error, IfTaken, Registry, singleton};
use nostray_sys::Signal;

use crate::apart::any::{Kind, runtime};
use crate::apart::{apart, child, example, expect_alone, file, folder, nostray, programs, trees};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

/// `only_one NAME POLICY HOW [MILLISECONDS]`, in our hands.
struct OnlyOne {
    process: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl OnlyOne {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(example("only_one"));
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("start");
        let orders = process.stdin.take().expect("piped");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, orders, says }
    }

    fn taken(words: &[&str]) -> Self {
        let mut one = Self::start(words);
        assert_eq!(one.line(), "taken");
        one
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("read");
        line.trim_end().to_owned()
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("write");
        assert_eq!(self.line(), "done", "{order}");
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("wait").is_some()
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn is_taken(result: Result<singleton::Singleton, Error>) -> String {
    match result {
        Err(Error::Taken(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Proof that is independent of nostray: the holder of the name has a file to itself.
fn alone_for_a_moment(hold: Duration) {
    let claim = File::options().write(true).create(true).truncate(false).open(file("claim")).expect("open");
    claim.try_lock().expect("another holder has the name, too");
    // Time for a second holder to appear.
    std::thread::sleep(hold);
    claim.unlock().expect("unlock");
}

#[test]
fn of_many_threads_one_at_a_time_has_the_name() {
    apart(|| {
        let wait = |how: bool| {
            if how {
                singleton::acquire("s", IfTaken::WaitFor(LONG))
            } else {
                runtime().block_on(singleton::acquire_async("s", IfTaken::WaitFor(LONG)))
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..6 {
                scope.spawn(move || {
                    for _ in 0..5 {
                        let _only_one = wait(thread % 2 == 0).expect("taken");
                        alone_for_a_moment(Duration::from_millis(1));
                    }
                });
            }
        });
    });
}

/// Each kills itself while it has the name: that is the only way in which the next one gets it.
#[test]
fn of_many_processes_one_at_a_time_has_the_name_and_sigkill_frees_it() {
    apart(|| {
        std::thread::scope(|scope| {
            for thread in 0..5 {
                scope.spawn(move || {
                    for round in 0..4 {
                        let how = if (thread + round) % 2 == 0 { "blocking" } else { "async" };
                        let mut one = OnlyOne::taken(&["s", "wait", how]);
                        alone_for_a_moment(Duration::from_millis(1));
                        one.process.kill().expect("kill");
                        one.process.wait().expect("wait");
                    }
                });
            }
        });
        expect_alone();
        drop(singleton::acquire("s", IfTaken::Fail).expect("free"));
    });
}

#[test]
fn a_caller_that_is_too_late_is_told_the_holder() {
    apart(|| {
        let mut holder = OnlyOne::taken(&["s", "fail", "blocking"]);
        let listed = Registry::new().list();
        let found = listed.iter().find(|child| child.slot.as_deref() == Some("s")).expect("is on record");
        assert!(found.command.iter().any(|word| word.contains("only_one")), "{found:?}");
        let blocking = is_taken(singleton::acquire("s", IfTaken::Fail));
        let asynchronous = is_taken(runtime().block_on(singleton::acquire_async("s", IfTaken::Fail)));
        let late = is_taken(singleton::acquire("s", IfTaken::WaitFor(SHORT)));
        for why in [blocking, asynchronous, late] {
            assert!(why.contains(&format!("taken by {}", found.id)), "{why}");
        }
        let other = OnlyOne::start(&["s", "fail", "async"]).line();
        assert!(other.starts_with("not taken: "), "{other}");
        drop(singleton::acquire("another", IfTaken::Fail).expect("names are apart"));
        holder.order("release");
        drop(singleton::acquire("s", IfTaken::Fail).expect("free at once"));
        assert!(!Registry::new().list().iter().any(|child| child.slot.is_some()));
        assert!(matches!(singleton::acquire("a/b", IfTaken::Fail), Err(Error::Spec { .. })));
    });
}

#[test]
fn a_caller_that_waits_has_it_soon_after_it_is_free() {
    apart(|| {
        for how in ["blocking", "async"] {
            for end in ["release", "kill", "end"] {
                let mut holder = OnlyOne::taken(&["s", "wait", "blocking"]);
                let mut next = OnlyOne::start(&["s", "wait", how]);
                assert!(!comes_true(Duration::from_millis(150), &mut || next.has_ended()));
                let begun = Instant::now();
                match end {
                    "release" => holder.order("release"),
                    "kill" => holder.process.kill().expect("kill"),
                    _ => drop(writeln!(holder.orders, "end")),
                }
                assert_eq!(next.line(), "taken", "{how} {end}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{how} {end}: {:?}", begun.elapsed());
            }
        }
    });
}

#[test]
fn a_holder_that_is_replaced_gets_sigterm_but_not_before_it_is_ready() {
    use std::os::unix::process::ExitStatusExt;
    apart(|| {
        for how in ["blocking", "async"] {
            let mut holder = OnlyOne::taken(&["s", "wait", "blocking"]);
            let mut next = OnlyOne::start(&["s", "replace", how]);
            assert!(!comes_true(Duration::from_millis(400), &mut || holder.has_ended()), "it is not ready");
            // It may not live to say that it is done.
            writeln!(holder.orders, "ready").expect("write");
            assert_eq!(next.line(), "taken", "{how}");
            assert_eq!(holder.process.wait().expect("wait").signal(), Some(Signal::TERM.as_raw()), "{how}");
        }
    });
}

/// To replace oneself would be to end oneself.
#[test]
fn a_program_does_not_replace_itself() {
    apart(|| {
        let mut only_one = singleton::acquire("s", IfTaken::Wait).expect("free");
        only_one.ready();
        is_taken(singleton::acquire("s", IfTaken::ReplaceWithin(LONG)));
        is_taken(runtime().block_on(singleton::acquire_async("s", IfTaken::ReplaceWithin(LONG))));
        drop(only_one);
        drop(singleton::acquire("s", IfTaken::Fail).expect("free"));
    });
}

#[test]
fn it_is_the_same_slot_as_that_of_nostray_run_and_of_a_pen() {
    apart(|| {
        let run = |policy: &str| {
            let mut run = nostray(&["run", "--slot", "s", "--if-taken", policy]);
            run.args(["--eof-grace", "200ms", "--term-grace", "200ms", "--"]);
            run.arg(programs().join("badchild")).args(["tree", "stubborn", "daemon"]);
            run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("start")
        };
        let ready = |run: &mut Child| {
            let mut line = String::new();
            BufReader::new(run.stdout.take().expect("piped")).read_line(&mut line).expect("read");
            line
        };
        // It replaces us.
        let mut holder = OnlyOne::taken(&["s", "wait", "async"]);
        assert_eq!(run("fail").wait().expect("wait").code(), Some(75));
        holder.order("ready");
        let mut first = run("replace");
        assert_eq!(ready(&mut first), "ready\n");
        assert!(holder.process.try_wait().expect("wait").is_some(), "it was replaced before its successor is ready");
        // And we replace it: nothing is left of its tree then.
        is_taken(singleton::acquire("s", IfTaken::Fail));
        let before = trees();
        assert_eq!(before.len(), 2, "{before:?}");
        let mut only_one = singleton::acquire("s", IfTaken::ReplaceWithin(LONG)).expect("taken");
        assert!(!before.iter().any(Found::is_alive), "a process of the old tree is left");
        first.wait().expect("wait");
        only_one.ready();
        let exit = Kind::Blocking.spawn(&child(&["pause"]).slot("s", IfTaken::Fail).build().expect("right")).wait();
        assert_eq!(exit.cause, nostray::Cause::SlotTaken);
        drop(only_one);
        let mut pen = Kind::Blocking.ready(&child(&["pause"]).slot("s", IfTaken::Fail).build().expect("right"));
        is_taken(singleton::acquire("s", IfTaken::Fail));
        pen.kill();
        pen.wait();
        drop(singleton::acquire("s", IfTaken::Fail).expect("free"));
    });
}

/// A holder that is dead may have left a tree behind: no caller gets the name before that is gone.
#[test]
fn what_a_killed_holder_of_the_slot_has_left_is_ended_first() {
    apart(|| {
        let mut pen = Kind::Blocking
            .ready(&child(&["tree", "stubborn", "daemon"]).slot("s", IfTaken::Wait).build().expect("right"));
        pen.child(); // its guard has written its record
        std::mem::forget(pen);
        let before = trees();
        assert_eq!(before.len(), 2);
        crate::apart::keepers().iter().for_each(|keeper| keeper.send(Signal::KILL));
        drop(singleton::acquire("s", IfTaken::WaitFor(LONG)).expect("taken"));
        assert!(!before.iter().any(Found::is_alive), "a process of the old tree is left");
    });
}

#[test]
fn a_cancelled_caller_has_given_up_its_place() {
    apart(|| {
        let mut holder = OnlyOne::taken(&["s", "wait", "blocking"]);
        runtime().block_on(async {
            let wait = singleton::acquire_async("s", IfTaken::Wait);
            assert!(tokio::time::timeout(SHORT, wait).await.is_err());
            // Were it still in the queue, it would be first.
            let second = singleton::acquire_async("s", IfTaken::WaitFor(LONG));
            holder.order("release");
            let begun = Instant::now();
            drop(tokio::time::timeout(PATIENCE, second).await.expect("in time").expect("taken"));
            assert!(begun.elapsed() < Duration::from_secs(20));
        });
    });
}

/// A process that was forked from the holder has the lock open as well.
#[test]
fn a_forked_copy_that_drops_it_does_not_free_it() {
    apart(|| {
        let mut holder = OnlyOne::taken(&["s", "wait", "blocking"]);
        let holders = pid(i32::try_from(holder.process.id()).expect("small"));
        holder.order("fork");
        let is_copy = |found: &Found| found.stat.parent == Some(holders);
        wait_until("the copy has ended", || !badchild::company().iter().any(is_copy));
        is_taken(singleton::acquire("s", IfTaken::Fail));
        holder.order("release");
        drop(singleton::acquire("s", IfTaken::Fail).expect("free"));
        assert!(folder().exists());
    });
}
