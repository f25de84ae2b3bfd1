//! A realistic host, and every way in which it ends, with children of every kind: nothing is left, and at most one child of a key was
//! there at any time. Both are seen in `/proc` and by the children themselves, not by what nostray believes.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use badchild::{Folder, Found, Scene, User, comes_true, in_parallel, pid, publish, wait_until};
use nostray_sys::Signal;
use serde_json::Value;

use crate::apart::{example, programs};

/// How children behave when they are to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Cooperative,
    TermIgnoring,
    Daemonising,
}

const MANNERS: [Manner; 3] = [Manner::Cooperative, Manner::TermIgnoring, Manner::Daemonising];

impl Manner {
    /// A server with a descendant, and a lock of both.
    fn server(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Cooperative => (&["--with", "plain"], &[]),
            Self::TermIgnoring => (&["--with", "term-ignoring"], &["--ignore-eof"]),
            Self::Daemonising => (&["--with", "daemon"], &[]),
        }
    }

    fn tree(self) -> &'static str {
        match self {
            Self::Cooperative => "tree cooperative plain",
            Self::TermIgnoring => "tree stubborn term-ignoring",
            Self::Daemonising => "tree stubborn daemon",
        }
    }
}

/// A host with its orders.
struct Host {
    process: Child,
    orders: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    scene: Scene,
    folder: Folder,
    badchild: PathBuf,
}

impl Host {
    fn start(manner: Manner) -> Self {
        let (scene, folder) = (Scene::apart(User::Current), Folder::new("host"));
        let badchild = programs().join("badchild");
        let mut command = scene.command(&publish(&example("host")));
        let (claim, server) = manner.server();
        let folder_of_key = format!("{}/{{key}}", folder.path().display());
        command.arg("--").arg(&badchild).arg("claim").args(claim).args([&folder_of_key, "{key}", "--"]);
        command.arg(&badchild).args(["server", "--record", &format!("{folder_of_key}/record")]).args(server);
        // The host's own program is the guard: no installed `nostray` is in its PATH.
        command.env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if std::env::var_os("BADCHILD_LOUD").is_none() {
            command.stderr(Stdio::null());
        }
        for key in KEYS {
            std::fs::create_dir(folder.path().join(key)).expect("make a folder");
        }
        let mut process = command.spawn().expect("start a host");
        let orders = process.stdin.take();
        let says = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, orders, says, scene, folder, badchild }
    }

    fn tell(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("open"), "{order}").expect("write");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("read");
        line.trim_end().to_owned()
    }

    /// An order that is answered in one line.
    fn order(&mut self, order: &str) -> String {
        self.tell(order);
        let line = self.line();
        assert!(!line.is_empty() && !line.starts_with("failed"), "{order}: '{line}'");
        line
    }

    /// Loads these keys, and sees that each has one child.
    fn load(&mut self, keys: &[&str]) -> Vec<i32> {
        self.tell(&format!("load {}", keys.join(" ")));
        let children: Vec<i32> = keys.iter().map(|key| self.child_of(key)).collect();
        for (key, child) in keys.iter().zip(&children) {
            assert_eq!(self.servers(key), [*child], "one child a key");
        }
        children
    }

    fn child_of(&mut self, key: &str) -> i32 {
        let line = self.line();
        let (whose, child) = line.split_once(' ').unwrap_or_default();
        assert_eq!(whose, key, "{line}");
        child.parse().unwrap_or_else(|_| panic!("{line}"))
    }

    /// The servers of a key, as `/proc` has them.
    fn servers(&self, key: &str) -> Vec<i32> {
        let part = format!("server --record {}/{key}/record", self.folder.path().display());
        let is_one = |found: &Found| !found.command.contains("--nostray-guard") && !found.command.contains(" claim ");
        let found = self.scene.those_with(&part).into_iter().filter(is_one);
        found.map(|found| found.stat.pid.as_raw_nonzero().get()).collect()
    }

    fn pens(&mut self, manner: Manner) {
        let order = format!("pens {} {}", self.badchild.display(), manner.tree());
        assert_eq!(self.order(&order), "ready");
    }

    /// The trees of its pens.
    fn trees(&self) -> Vec<Found> {
        let trees = self.scene.those_with("badchild tree ");
        trees.into_iter().filter(|found| !found.command.contains("--nostray-guard")).collect()
    }

    fn keepers(&self) -> Vec<Found> {
        let is_one = |found: &Found| {
            let name = found.stat.name.as_str();
            found.command.contains("--nostray-guard")
                || ["nostray-front", "nostray-spare", "nostray-guard"].contains(&name)
        };
        self.scene.processes().into_iter().filter(is_one).collect()
    }

    /// Waits until every guard has written its record: a sweep finds a tree without keepers by that.
    fn wait_for_records(&self) {
        wait_until("all guards are on record", || {
            let files = std::fs::read_dir(self.scene.runtime().join("nostray")).into_iter().flatten().flatten();
            let mut records = files.map(|file| file.path()).filter(|path| path.extension() == Some("json".as_ref()));
            // A record that is just being removed does not count.
            records.all(|path| {
                let text = std::fs::read_to_string(path);
                text.map_or(true, |text| {
                    serde_json::from_str(&text).is_ok_and(|record: Value| record["guard"].is_object())
                })
            })
        });
    }

    fn this(&self) -> Found {
        Found::by_pid(pid(i32::try_from(self.process.id()).expect("small"))).expect("is there")
    }

    fn wait(&mut self) {
        let mut status = None;
        comes_true(badchild::PATIENCE, &mut || {
            status = self.process.try_wait().expect("wait");
            status.is_some()
        });
        assert!(status.is_some(), "the host does not end");
    }

    /// Nothing is left but these, and no key has ever had two children.
    fn nothing_left_but(&mut self, strangers: &[i32]) {
        let left = || {
            let all = self.scene.processes().into_iter();
            let left = all.filter(|found| !strangers.contains(&found.stat.pid.as_raw_nonzero().get()));
            left.map(|found| format!("{} {}", found.stat.pid, found.command)).collect::<Vec<_>>()
        };
        comes_true(badchild::PATIENCE, &mut || left().is_empty());
        assert_eq!(left(), [""; 0]);
        for key in KEYS {
            let two = std::fs::read_to_string(self.folder.path().join(key).join("two")).unwrap_or_default();
            assert_eq!(two, "", "two children of one key");
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

const KEYS: [&str; 3] = ["a", "b", "c"];

/// How a host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Normal,
    InputClosed,
    Panic,
    Abort,
    Exit,
    Term,
    Kill,
    KillWithGuards,
    RuntimeFirst,
    Fork,
    Leak(&'static str),
    ElsewherePanic(&'static str),
}

const ENDS: [End; 15] = [
    End::Normal,
    End::InputClosed,
    End::Panic,
    End::Abort,
    End::Exit,
    End::Term,
    End::Kill,
    End::KillWithGuards,
    End::RuntimeFirst,
    End::Fork,
    End::Leak("forget"),
    End::Leak("rc"),
    End::Leak("arc"),
    End::ElsewherePanic("panic-task"),
    End::ElsewherePanic("panic-thread"),
];

fn play(end: End, manner: Manner) {
    let mut host = Host::start(manner);
    let before = host.load(&["a", "b"]);
    host.pens(manner);
    assert_eq!(host.trees().len(), 2, "{end:?} {manner:?}");
    let mut strangers = Vec::new();
    match end {
        End::Normal => host.tell("end"),
        End::InputClosed => host.orders = None,
        End::Panic => host.tell("panic"),
        End::Abort => host.tell("abort"),
        End::Exit => host.tell("exit 3"),
        End::Term => host.this().send(Signal::TERM),
        End::Kill => host.this().send(Signal::KILL),
        End::KillWithGuards => {
            // The host and all keepers: what is left then is for the next sweep.
            host.wait_for_records();
            let (keepers, this) = (host.keepers(), host.this());
            this.send(Signal::STOP);
            keepers.iter().for_each(|keeper| keeper.send(Signal::KILL));
            this.send(Signal::KILL);
            host.wait();
            // A process that has got SIGKILL is not gone yet; while it dies it has no token any more, but still its
            // files.
            wait_until("they are gone", || !keepers.iter().any(Found::is_alive));
            let mut sweep = host.scene.command(&programs().join("nostray"));
            assert!(sweep.args(["sweep"]).stdout(Stdio::null()).status().expect("run").success());
        }
        End::RuntimeFirst => {
            assert_eq!(host.order("drop-runtime"), "dropped");
            // What was kept by it goes with it, in a host that lives on; the pens are held by values.
            wait_until("the servers are gone", || KEYS.iter().all(|key| host.servers(key).is_empty()));
            assert_eq!(host.trees().len(), 2, "{manner:?}");
            assert_eq!(host.order("drop-pens"), "dropped");
            wait_until("the pens are gone", || host.scene.processes().len() == 1);
            host.tell("end");
        }
        End::Fork => {
            let forked = host.order("fork");
            let forked: i32 = forked.strip_prefix("forked ").and_then(|n| n.parse().ok()).expect("a number");
            strangers.push(forked);
            // It has all our ends of all pipes.
            assert_eq!(host.order("drop-pens"), "dropped");
            wait_until("the pens are gone", || host.trees().is_empty());
            host.load(&["b", "c"]);
            wait_until("so is the server that the host has unloaded", || host.servers("a").is_empty());
            host.pens(manner);
            host.this().send(Signal::KILL);
        }
        End::Leak(how) => {
            host.tell(&format!("abandon {how}"));
            for keys in [["a", "b"], ["b", "c"], ["c", "a"]] {
                host.load(&keys);
            }
            // What is leaked is held, and shared with later leases.
            assert_eq!((host.servers("a"), host.servers("b")), (vec![before[0]], vec![before[1]]), "{how}");
            host.tell("end");
        }
        End::ElsewherePanic(order) => {
            assert_eq!(host.order(order), "panicked");
            wait_until("its pens are gone", || host.trees().is_empty());
            assert_eq!(host.load(&["a", "b"]), before, "the others still hold the child");
            host.load(&["c"]);
            wait_until("and when they do not, it is gone", || {
                host.servers("a").is_empty() && host.servers("b").is_empty()
            });
            host.tell("end");
        }
    }
    host.wait();
    host.nothing_left_but(&strangers);
}

#[test]
fn however_a_host_ends_nothing_is_left_of_any_kind_of_child() {
    programs();
    let rounds = if std::env::var_os("NOSTRAY_LONG").is_some() { 20 } else { 1 };
    let all = ENDS.into_iter().flat_map(|end| MANNERS.map(|manner| (end, manner)));
    let all: Vec<_> = std::iter::repeat_n(all, rounds).flatten().collect();
    in_parallel(all, |(end, manner)| {
        // A panic in a thread of a scope does not say which.
        let played = std::panic::catch_unwind(|| play(end, manner));
        assert!(played.is_ok(), "{end:?} {manner:?}");
    });
}

/// Hosts end processes by a pattern over their command lines: that must not hit a child's keepers.
#[test]
fn no_guard_bears_the_command_line_of_its_child() {
    let mut host = Host::start(Manner::Cooperative);
    host.load(&KEYS[..1]);
    host.pens(Manner::Cooperative);
    host.wait_for_records();
    let keepers = host.keepers();
    assert!(keepers.len() >= 6, "{keepers:#?}");
    for keeper in keepers {
        let line = std::fs::read(format!("/proc/{}/cmdline", keeper.stat.pid)).expect("read");
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.starts_with(&format!("{} ", keeper.stat.name)), "{line}");
        assert!(!line.contains("badchild") && !line.contains("--nostray-guard"), "{line}");
    }
    drop(host.orders.take());
    host.wait();
    host.nothing_left_but(&[]);
}

/// Reloads come faster than children end: the next child of a key waits for the end of the last one.
#[test]
fn however_often_a_host_reloads_there_is_one_child_a_key() {
    let rounds = if std::env::var_os("NOSTRAY_LONG").is_some() { 40 } else { 3 };
    in_parallel(MANNERS.into(), |manner| {
        let mut host = Host::start(manner);
        for _ in 0..rounds {
            for keys in [&["a", "b"][..], &["b", "c"], &["c"], &["a"]] {
                host.load(keys);
            }
        }
        host.tell("end");
        host.wait();
        host.nothing_left_but(&[]);
    });
}

/// A host lives on when the keepers of its children are killed: a child comes back when nothing is left of the child
/// before.
#[test]
fn when_guards_are_killed_the_children_of_a_living_host_come_back_one_at_a_time() {
    in_parallel(MANNERS.into(), |manner| {
        let mut host = Host::start(manner);
        let mut last = host.load(&["a"])[0];
        let all = ["nostray-front", "nostray-spare", "nostray-guard"];
        for names in [&all[2..], &all[1..2], &all[..1], &all[..]] {
            let is_hit = |keeper: &Found| names.contains(&keeper.stat.name.as_str());
            let mut hit = Vec::new();
            // Those who have seen the last one to its end may take a moment to end themselves.
            wait_until("there is one of each", || {
                hit = host.keepers().into_iter().filter(is_hit).collect();
                hit.len() == names.len()
            });
            host.wait_for_records();
            hit.iter().for_each(|keeper| keeper.send(Signal::KILL));
            wait_until("the next child answers", || {
                host.tell("call a");
                let line = host.line();
                let next = line.strip_prefix("a ").and_then(|child| child.parse().ok());
                let is_next = next.is_some_and(|child: i32| child != last);
                last = next.unwrap_or(last);
                is_next
            });
            assert_eq!(host.servers("a"), [last], "{manner:?} {names:?}");
        }
        host.tell("end");
        host.wait();
        host.nothing_left_but(&[]);
    });
}
