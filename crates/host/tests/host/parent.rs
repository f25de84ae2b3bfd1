//! Programs that are children themselves, as real processes whose parents come to a bad end.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use badchild::{Found, comes_true, pid, wait_until};
use nostray_sys::process::{Ended, News, Reaped, become_subreaper, reap};
use nostray_sys::{Pid, Signal};

use crate::apart::{apart, example, programs};

/// A parent, and its child.
struct Family {
    parent: Child,
    child: Found,
    says: BufReader<ChildStdout>,
}

/// A parent that waits for `child HOW`: `badchild wrap`, or the command in `before`.
fn family(how: &str, before: &[&str]) -> Family {
    let badchild = programs().join("badchild").display().to_string();
    let words: Vec<&str> = if before.is_empty() { vec![&badchild, "wrap", "1", "--"] } else { before.to_vec() };
    let mut parent = Command::new(words[0]);
    parent.args(&words[1..]).arg(example("child")).arg(how);
    let mut parent = parent.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("start");
    let mut says = BufReader::new(parent.stdout.take().expect("piped"));
    let mut line = String::new();
    says.read_line(&mut line).expect("read");
    let its_parent: i32 = line.trim_end().strip_prefix("child of ").and_then(|n| n.parse().ok()).expect("a number");
    let is_it =
        |found: &Found| found.stat.parent == Some(pid(its_parent)) && found.command.contains("examples/child");
    let mut child = badchild::company().into_iter().filter(is_it);
    Family { parent, child: child.next().expect("the child"), says }
}

impl Family {
    /// The next thing that the child says.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("read");
        line.trim_end().to_owned()
    }

    /// Ends the parent of the child, which need not be the process that the test started.
    fn kill_parent(&self) {
        Found::by_pid(self.child.stat.parent.expect("it has one")).expect("is there").send(Signal::KILL);
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        self.child.send(Signal::KILL);
        self.parent.kill().ok();
        self.parent.wait().ok();
    }
}

#[test]
fn the_end_of_the_parent_is_noticed_in_a_runtime_and_in_a_thread() {
    apart(|| {
        for how in ["watch", "wait"] {
            let mut family = family(how, &[]);
            let begun = Instant::now();
            family.kill_parent();
            assert_eq!(family.line(), "gone", "{how}");
            assert!(begun.elapsed() < Duration::from_secs(10));
            wait_until("the child has ended", || !family.child.is_alive());
        }
    });
}

/// A parent is known by its identity: the subreaper that adopts its children is not taken for it.
#[test]
fn the_parents_end_is_noticed_also_below_a_subreaper() {
    apart(|| {
        become_subreaper().expect("become one");
        for how in ["watch", "wait"] {
            let mut family = family(how, &[]);
            family.kill_parent();
            assert_eq!(family.line(), "gone", "{how}");
            let child = family.child.stat.pid;
            assert_eq!(reaped(child), Ended::Exited(0), "it was handed to us, and that did not matter");
        }
    });
}

/// Reaps until this one has ended.
fn reaped(child: Pid) -> Ended {
    let mut how = None;
    comes_true(Duration::from_secs(20), &mut || {
        while let Ok(Reaped::News(news)) = reap() {
            match news {
                News::Ended(pid, ended) if pid == child => how = Some(ended),
                _ => {}
            }
        }
        how.is_some()
    });
    how.expect("it has ended")
}

/// After a double fork, the child's parent is the subreaper that adopts it. As long as the subreaper lives, so does the
/// child.
#[test]
fn after_a_double_fork_the_subreaper_is_the_childs_parent() {
    apart(|| {
        become_subreaper().expect("become one");
        let badchild = programs().join("badchild").display().to_string();
        for how in ["watch", "wait", "die"] {
            let mut family = family(how, &[&badchild, "after-parent", "--"]);
            assert_eq!(family.child.stat.parent, Some(nostray_sys::process::getpid()));
            family.parent.wait().ok();
            assert!(!comes_true(Duration::from_millis(300), &mut || !family.child.is_alive()), "{how}");
            family.child.send(Signal::KILL);
            assert_eq!(reaped(family.child.stat.pid), Ended::Killed(Signal::KILL));
        }
    });
}

/// As with PDEATHSIG, which is why that is not used: it is the thread's end that tells there.
#[test]
fn the_end_of_the_thread_that_started_it_is_not_the_end_of_its_parent() {
    apart(|| {
        for how in ["watch", "wait", "die"] {
            let start = || {
                let mut child =
                    Command::new(example("child")).arg(how).stdout(Stdio::piped()).spawn().expect("start");
                let mut line = [0; 8];
                child.stdout.as_mut().expect("piped").read_exact(&mut line).expect("read");
                child
            };
            let mut child = std::thread::scope(|scope| scope.spawn(start).join().expect("no panic"));
            assert!(
                !comes_true(Duration::from_millis(300), &mut || child.try_wait().expect("wait").is_some()),
                "{how}"
            );
            child.kill().and_then(|()| child.wait()).expect("end it");
        }
    });
}

#[test]
fn one_line_ends_a_program_with_its_parent_and_politely() {
    apart(|| {
        become_subreaper().expect("become one");
        let family = family("die", &[]);
        family.kill_parent();
        assert_eq!(reaped(family.child.stat.pid), Ended::Killed(Signal::TERM));
    });
}

#[test]
fn a_child_that_ignores_the_end_of_its_parent_is_ended_five_seconds_later() {
    if std::env::var_os("NOSTRAY_LONG").is_none() {
        return;
    }
    apart(|| {
        become_subreaper().expect("become one");
        let family = family("die-stubborn", &[]);
        let begun = Instant::now();
        family.kill_parent();
        assert_eq!(reaped(family.child.stat.pid), Ended::Killed(Signal::KILL));
        assert!(begun.elapsed() >= Duration::from_secs(5), "{:?}", begun.elapsed());
    });
}
