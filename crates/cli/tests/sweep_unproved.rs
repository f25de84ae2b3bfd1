//! What a sweep can prove about a daemon whose keepers were all killed and which had no control group. A daemon that
//! has cleared its environment is recognised by its resource limit. A daemon that has lowered the limit as well is
//! never signalled, and its record stays until the daemon has ended or the user drops the record. Also: a `/proc` that
//! hides other users' processes.
//!
//! A test program of its own: a daemon without marks is a candidate for every dead pen of its user, so no other test
//! may leave such a daemon or count candidates at the same time.

use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use badchild::{Found, PATIENCE, Scene, User, comes_true, pid, wait_until};
use nostray_sys::Signal;
use testkit::{nostray, own_processes};

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Clears the environment and lowers the limit that encodes the pen's name: no mark is left by which a sweep recognises
/// the daemon.
const WITHOUT_MARKS: &str = "prlimit --rttime=1000000:1000000 env -i";

/// One test at a time: a daemon without marks may belong to the pen of any test.
static ALONE: Mutex<()> = Mutex::new(());

/// A pen with a daemon, whose keepers were all killed.
struct Lost {
    _alone: MutexGuard<'static, ()>,
    scene: Scene,
    daemon: Found,
    id: String,
}

/// `None` where every tree has a control group of its own.
fn lost(options: &[&str], daemon: &str) -> Option<Lost> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let scene = Scene::apart(User::all().pop().expect("one"));
    let script = format!("setsid sh -c '{daemon} sleep 1000 > /dev/null 2>&1 & echo $!'; exec cat > /dev/null");
    let mut command = scene.command(&nostray());
    command.args(["run", "--no-sweep", "--eof-grace", "100ms", "--term-grace", "100ms"]).args(options);
    command.args(["--", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("start");
    let mut number = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut number).expect("a number");
    let daemon = pid(number.trim().parse().expect("a number"));
    // Until it has executed `sleep`, the daemon still has its marks.
    wait_until("the daemon is a sleep", || {
        std::fs::read_to_string(format!("/proc/{daemon}/comm")).is_ok_and(|name| name.trim() == "sleep")
    });
    let daemon = Found::by_pid(daemon).expect("is there");
    let own = own_processes(&scene);
    testkit::wait_until_on_record(&scene, &own.guard);
    let shown = text(&nostray_in(&scene, &["ps", "--json"]));
    let kept = [own.front, own.spare, own.guard];
    testkit::slots::kill_at_once(&kept);
    reap(process);
    if !shown.contains("\"tier\": \"subreaper\"") {
        return None;
    }
    let id = text(&nostray_in(&scene, &["ps", "-q"])).trim().to_owned();
    // The child itself ends: the kernel sends it a signal, and its stdin is closed.
    wait_until("the child has ended", || scene.those_with("cat").is_empty());
    Some(Lost { _alone, scene, daemon, id })
}

fn reap(mut process: Child) {
    drop(process.stdin.take());
    process.wait().expect("reap");
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.daemon.send(Signal::KILL);
        // Wait, so that the next test does not see this daemon.
        comes_true(PATIENCE, &mut || !self.daemon.is_alive());
    }
}

#[test]
fn a_daemon_without_environment_is_recognised_by_its_limit() {
    for options in [&[][..], &["--slot", "db"]] {
        let Some(lost) = lost(options, "env -i") else { return };
        match options {
            [] => assert!(nostray_in(&lost.scene, &["sweep"]).status.success()),
            _ => assert!(nostray_in(&lost.scene, &["run", "--slot", "db", "--", "true"]).status.success()),
        }
        assert!(!lost.daemon.is_alive(), "{options:?}");
        assert_eq!(nostray_in(&lost.scene, &["ps", "-q"]).status.code(), Some(1), "{options:?}");
    }
}

#[test]
fn a_daemon_without_marks_is_named_and_not_signalled_and_its_record_stays() {
    let Some(lost) = lost(&[], WITHOUT_MARKS) else { return };
    let number = lost.daemon.stat.pid.to_string();
    for round in 0..2 {
        // While another sweep holds the record's lock, this one reports the pen as active; try again.
        let mut said = String::new();
        comes_true(PATIENCE, &mut || {
            let swept = nostray_in(&lost.scene, &["sweep"]);
            said = text(&swept);
            swept.status.code() == Some(1) || !said.contains("1 active")
        });
        assert!(
            said.contains("not proved") && said.contains(&number) && said.contains("sleep 1000"),
            "{round}: {said}"
        );
        assert!(said.contains(&format!("sweep --forget {}", lost.id)), "{said}");
        assert!(lost.daemon.is_alive(), "the sweep signalled a process that is not proved to be of the tree");
        let shown = text(&nostray_in(&lost.scene, &["ps", "--tree"]));
        assert!(
            shown.contains("unproved") && shown.contains(&format!("  ? {number} may be of it: sleep 1000")),
            "{shown}"
        );
        // The sweep that `run` starts does not drop the record either.
        assert!(nostray_in(&lost.scene, &["run", "--", "true"]).status.success());
    }
    let stopped = nostray_in(&lost.scene, &["stop", &lost.id]);
    assert!(text(&stopped).contains("not proved"), "{}", text(&stopped));
    assert!(text(&nostray_in(&lost.scene, &["log"])).contains("1 may be of it"));
    lost.daemon.send(Signal::KILL);
    wait_until("the daemon has ended", || !lost.daemon.is_alive());
    // Another test's daemon of the same user may be a candidate for a moment.
    wait_until("the record is dropped", || nostray_in(&lost.scene, &["sweep"]).status.success());
    assert_eq!(nostray_in(&lost.scene, &["ps", "-q"]).status.code(), Some(1));
}

#[test]
fn a_user_can_say_that_nothing_is_left() {
    let Some(lost) = lost(&[], WITHOUT_MARKS) else { return };
    assert_eq!(nostray_in(&lost.scene, &["sweep", "--forget", "no-such"]).status.code(), Some(1));
    let forgotten = nostray_in(&lost.scene, &["sweep", "--forget", &lost.id]);
    assert!(forgotten.status.success(), "{}", text(&forgotten));
    assert!(lost.daemon.is_alive());
    assert_eq!(nostray_in(&lost.scene, &["ps", "-q"]).status.code(), Some(1));
}

#[test]
fn a_slot_whose_last_tree_is_not_proved_gone_is_refused_and_names_what_may_be_left() {
    let Some(lost) = lost(&["--slot", "db"], WITHOUT_MARKS) else { return };
    let refused = nostray_in(&lost.scene, &["run", "--slot", "db", "--", "true"]);
    let said = text(&refused);
    assert_eq!(refused.status.code(), Some(75), "{said}");
    assert!(said.contains("not proved") && said.contains(&lost.daemon.stat.pid.to_string()), "{said}");
    assert!(said.contains(&format!("sweep --forget {}", lost.id)), "{said}");
    assert!(nostray_in(&lost.scene, &["sweep", "--forget", &lost.id]).status.success());
    let taken = nostray_in(&lost.scene, &["run", "--slot", "db", "--", "true"]);
    assert!(taken.status.success(), "{}", text(&taken));
}

/// Processes that the same user started after the pen are no candidates, so the record of a tree that is gone is
/// dropped at once.
#[test]
fn strangers_that_came_later_keep_no_record() {
    let Some(lost) = lost(&[], "") else { return };
    let mut later = lost.scene.command("sleep".as_ref());
    let mut later = later.arg("1000").stdin(Stdio::null()).spawn().expect("start");
    let stranger = Found::by_pid(pid(i32::try_from(later.id()).expect("small"))).expect("is there");
    let swept = nostray_in(&lost.scene, &["sweep"]);
    assert!(!lost.daemon.is_alive(), "the daemon has its mark: {}", text(&swept));
    assert!(stranger.is_alive(), "the sweep signalled a stranger");
    wait_until("the record is dropped", || nostray_in(&lost.scene, &["sweep"]).status.success());
    later.kill().expect("kill");
    later.wait().expect("reap");
}

/// Runs a pen with a slot and a daemon in a new pid namespace, as an ordinary user, with `/proc` mounted with these
/// options, and kills all keepers.
const HIDDEN: &str = r#"
set -e
mount -t proc -o "$1" proc /proc
setpriv --reuid 65534 --regid 65534 --clear-groups bash -e -c '
umask 077
nostray=$1; cd "$XDG_RUNTIME_DIR"
mkfifo in
"$nostray" run --no-sweep --slot db --eof-grace 10s --term-grace 1s -- sh -c "setsid sh -c \"$2 sleep 1000 & echo \\\$!\" > daemon; sleep 1000" < in > /dev/null &
front=$!
exec 9> in
until [ -s daemon ] && "$nostray" ps --json | grep -q "\"state\": \"ready\""; do kill -0 $front; sleep 0.01; done
daemon=$(cat daemon)
# Before it has become the sleep, it still bears the marks that it is about to take off.
until [ "$(cat /proc/$daemon/comm)" = sleep ]; do sleep 0.01; done
"$nostray" ps --json > before
number() { grep -A1 "\"$1\": {" before | grep pid | tr -dc 0-9; }
spare=$(number spare); guard=$(number guard); child=$(number child)
kill -STOP $front $spare $guard
# Each is stopped a moment later. The outermost process is killed first: the end of spare and guard continues a stopped front, which
# would end the tree. The end of the front leaves the others their graces.
for keeper in $front $spare $guard; do until grep -q "^State:.T" /proc/$keeper/status; do sleep 0.01; done; done
kill -KILL $front $spare $guard
wait $front || true
while [ -e /proc/$guard ] || [ -e /proc/$spare ]; do sleep 0.01; done
code=0
"$nostray" run --slot db -- sh -c "if kill -0 $daemon 2> /dev/null; then echo beside; else echo alone; fi" || code=$?
echo "code $code"
if kill -0 $daemon 2> /dev/null; then echo left; fi
"$nostray" sweep || echo "sweep $?"
"$nostray" ps -q || echo none
' bash "$2" "$3"
exit # the first process of this namespace is root's, and is hidden from the others
"#;

fn behind_hidden_proc(options: &str, daemon: &str) -> Option<String> {
    if !User::all().contains(&User::Nobody) {
        return None; // only root can mount a /proc and become another user
    }
    let scene = Scene::apart(User::Nobody);
    let place = Scene::apart(User::Current);
    let mut unshare = place.command("timeout".as_ref());
    unshare.arg(PATIENCE.as_secs().to_string());
    unshare.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", HIDDEN, "sh", options]);
    unshare.arg(nostray()).arg(daemon);
    unshare.env("XDG_RUNTIME_DIR", scene.runtime()).env("XDG_STATE_HOME", scene.runtime().join("state"));
    let output = unshare.env("HOME", scene.runtime()).stdin(Stdio::null()).output().expect("run unshare");
    Some(text(&output))
}

#[test]
fn a_slot_has_one_owner_where_proc_hides_other_users_processes() {
    for options in ["hidepid=invisible", "hidepid=noaccess", "hidepid=ptraceable"] {
        for daemon in ["", "env -i"] {
            let Some(said) = behind_hidden_proc(options, daemon) else { return };
            assert!(said.contains("alone\ncode 0\n"), "{options}, {daemon}: {said}");
            assert!(said.contains("\nnone\n") && !said.contains("left\n"), "{options}, {daemon}: {said}");
        }
    }
}

#[test]
fn a_slot_is_refused_where_proc_hides_processes_and_a_daemon_has_no_mark() {
    let Some(said) = behind_hidden_proc("hidepid=invisible", WITHOUT_MARKS) else { return };
    assert!(said.contains("code 75") && said.contains("left\n"), "{said}");
    assert!(said.contains("not proved") && said.contains("sweep 1"), "{said}");
}

/// With `subset=pid`, `/proc` does not show the boot id, so a record of this boot cannot be told from one of an earlier
/// boot. A child runs without a record, and a slot is refused.
#[test]
fn a_slot_is_refused_where_proc_shows_only_processes() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can mount a /proc
    }
    let scene = Scene::apart(User::Current);
    let script = "mount -t proc -o subset=pid proc /proc; \"$1\" run -- echo plain; \"$1\" run --slot db -- echo slotted; echo code $?";
    let mut unshare = scene.command("unshare".as_ref());
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"]).arg(nostray());
    let said = text(&unshare.stdin(Stdio::null()).output().expect("run unshare"));
    assert!(said.contains("plain\n") && said.contains("contained, but not on record"), "{said}");
    assert!(!said.contains("slotted") && said.contains("code 125"), "{said}");
    assert_eq!(said.matches("without subset=pid").count(), 2, "{said}");
}
