//! The sweep ends what dead pens left, and nothing else.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use badchild::{Bystanders, Found, Host, Scene, User, badchild};
use nostray_sys::Signal;
use testkit::{GRACES, nostray, own_processes, run_command, start_host};

/// A pen with its host; all its processes are in the scene.
struct Pen {
    scene: Scene,
    _host: Host,
}

/// Starts this number of pens with the runtime directory of `shared`, and waits until each child is ready.
fn start(shared: &Scene, count: usize, kinds: &[&str]) -> Vec<Pen> {
    let runtime = format!("XDG_RUNTIME_DIR={}", shared.runtime().display());
    let nostray = nostray().display().to_string();
    let badchild = badchild().display().to_string();
    let mut pens: Vec<Pen> = (0..count)
        .map(|i| {
            let scene = Scene::new(shared.user);
            let mut words = vec!["env", &runtime, &nostray, "run", "--no-sweep"];
            words.extend(GRACES);
            words.extend(["--", &badchild, "tree", "stubborn", kinds[i % kinds.len()]]);
            let host = Host::start(&scene, &[], &words);
            Pen { scene, _host: host }
        })
        .collect();
    for pen in &mut pens {
        pen._host.ready();
    }
    pens
}

fn kill_all_of_ours(pen: &Pen, place: &Scene) {
    let own = own_processes(&pen.scene);
    testkit::wait_until_on_record(place, &own.guard);
    // Stop all keepers first, so that none acts on the death of another.
    for found in [&own.front, &own.spare, &own.guard] {
        found.send(Signal::STOP);
    }
    // The outermost keeper first: the end of spare and guard continues a stopped front.
    for found in [&own.front, &own.spare, &own.guard] {
        found.send(Signal::STOP);
        found.send(Signal::KILL);
    }
    // A killed process holds its lock until it has exited.
    badchild::wait_until("the keepers are gone", || {
        ![&own.front, &own.spare, &own.guard].iter().any(|found| found.is_alive())
    });
}

fn nostray_in(scene: &Scene, words: &[&str]) -> Output {
    scene.command(&nostray()).args(words).stdin(Stdio::null()).output().expect("run nostray")
}

fn tree_of(pen: &Pen) -> Vec<Found> {
    let is_tree = |found: &Found| found.command.contains(" tree ") || found.command.contains(" member ");
    let is_ours = |found: &Found| found.command.contains("nostray") && found.command.contains(" run ");
    pen.scene.processes().into_iter().filter(|f| is_tree(f) && !is_ours(f) && !f.command.contains(" host ")).collect()
}

const KINDS: [&str; 4] = ["plain", "setsid", "daemon", "term-ignoring"];

#[test]
fn fifty_dead_pens_are_swept_and_fifty_live_ones_stay_as_they_are() {
    // Fewer pens for the second user: the sweep looks for each dead pen among all processes.
    for (user, count) in User::all().into_iter().zip([50, 10]) {
        let shared = Scene::apart(user);
        let bystanders = Bystanders::start(User::Current);
        let dead = start(&shared, count, &KINDS);
        let alive = start(&shared, count, &KINDS);
        let before: Vec<Vec<Found>> = alive.iter().map(|pen| pen.scene.processes()).collect();
        dead.iter().for_each(|pen| kill_all_of_ours(pen, &shared));
        let dry = nostray_in(&shared, &["sweep", "--dry-run"]);
        assert_eq!(dry.status.code(), Some(1), "a dry run must leave survivors: {dry:?}");
        assert!(dead.iter().all(|pen| tree_of(pen).len() == 2), "a dry run ended a process");
        let swept = nostray_in(&shared, &["sweep"]);
        assert_eq!(swept.status.code(), Some(0), "{}", String::from_utf8_lossy(&swept.stdout));
        for pen in &dead {
            assert_eq!(tree_of(pen).len(), 0, "{}", String::from_utf8_lossy(&swept.stdout));
        }
        assert!(
            String::from_utf8_lossy(&swept.stdout).contains(&format!("{count} active, not touched")),
            "{swept:?}"
        );
        for (pen, before) in alive.iter().zip(before) {
            assert!(before.iter().all(Found::is_alive), "the sweep touched a live pen");
            assert_eq!(pen.scene.processes().len(), before.len());
        }
        bystanders.expect_untouched();
        let listed = nostray_in(&shared, &["ps", "-q"]);
        assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), count);
    }
}

#[test]
fn the_next_run_heals_a_crash_of_everything() {
    let shared = Scene::apart(User::Current);
    let dead = start(&shared, 10, &KINDS);
    dead.iter().for_each(|pen| kill_all_of_ours(pen, &shared));
    let mut next = run_command(&shared, &[], &["pause"]).stdout(Stdio::null()).spawn().expect("start");
    for pen in &dead {
        badchild::wait_until("the next run has swept", || tree_of(pen).is_empty());
    }
    drop(next.stdin.take());
    next.wait().expect("wait");
    shared.expect_empty();
}

#[test]
fn no_sweep_means_none() {
    let shared = Scene::apart(User::Current);
    let dead = start(&shared, 1, &["setsid"]);
    kill_all_of_ours(&dead[0], &shared);
    // With a sweep, the tree would end within the time below.
    let status = run_command(&shared, &["--no-sweep"], &["exit", "0"]).status().expect("run");
    assert!(status.success());
    assert!(!badchild::comes_true(Duration::from_millis(400), &mut || tree_of(&dead[0]).len() < 2));
    nostray_in(&shared, &["sweep"]);
    assert!(tree_of(&dead[0]).is_empty());
}

#[test]
fn two_hundred_starts_and_twenty_sweeps_at_once_do_not_disturb_each_other() {
    let shared = Scene::apart(User::Current);
    let dead = start(&shared, 5, &KINDS);
    dead.iter().for_each(|pen| kill_all_of_ours(pen, &shared));
    let mut pens: Vec<_> = (0..200)
        .map(|_| {
            let mut command = run_command(&shared, &[], &["pause"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start")
        })
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let output = nostray_in(&shared, &["sweep"]);
                assert!(output.stderr.is_empty(), "{output:?}");
            });
        }
    });
    let mut ready = 0;
    // On a busy machine, two hundred starts take minutes.
    badchild::comes_true(badchild::PATIENCE * 2, &mut || {
        let listed = nostray_in(&shared, &["ps", "--json"]);
        ready = String::from_utf8_lossy(&listed.stdout).matches("\"state\": \"ready\"").count();
        ready == 200
    });
    assert_eq!(ready, 200, "not all are on record");
    for pen in &mut pens {
        assert!(pen.try_wait().expect("look").is_none(), "a live pen was swept");
    }
    for pen in &dead {
        badchild::wait_until("the dead pens are swept", || tree_of(pen).is_empty());
    }
    // Two hundred ends may take longer than one `stop` waits.
    let mut stopped = None;
    badchild::comes_true(badchild::PATIENCE * 2, &mut || {
        stopped = Some(nostray_in(&shared, &["stop", "--all", "--now"]));
        nostray_in(&shared, &["ps", "-q"]).status.code() == Some(1)
    });
    for pen in &mut pens {
        pen.wait().expect("reap");
    }
    shared.expect_empty();
    assert_eq!(nostray_in(&shared, &["ps", "-q"]).status.code(), Some(1), "{stopped:?}");
}

/// A recorded pid now belongs to a stranger. The test reuses the pid in a pid namespace, where it can set the pid
/// counter.
#[test]
fn a_process_that_reuses_a_recorded_pid_is_not_signalled() {
    let scene = Scene::apart(User::Current);
    let script = r#"
set -e
mkdir -p -m 700 "$XDG_RUNTIME_DIR"
mkfifo "$XDG_RUNTIME_DIR/in"
"$1" run --no-sweep -- "$2" pause < "$XDG_RUNTIME_DIR/in" > /dev/null &
front=$!
exec 9> "$XDG_RUNTIME_DIR/in"
until "$1" ps --json | grep -q '"state": "ready"'; do :; done
"$1" ps --json > "$XDG_RUNTIME_DIR/before"
number() { grep -A1 "\"$1\": {" "$XDG_RUNTIME_DIR/before" | grep pid | tr -dc 0-9; }
child=$(number child); spare=$(number spare); guard=$(number guard); id=$("$1" ps -q)
kill -STOP $front $spare $guard; kill -KILL $child $guard $spare $front
wait $front || true
# A shell that only spins may never reap them.
while [ -e /proc/$child ] || [ -e /proc/$guard ] || [ -e /proc/$spare ]; do sleep 0.01; done
for number in $spare $guard $child; do
  until [ "$(cat /proc/$number/comm 2>/dev/null)" = sleep ]; do
    echo $((number - 1)) > /proc/sys/kernel/ns_last_pid; setsid sleep 1000 &
  done
done
"$1" stop "$id" || true
# Without a control group, it is not proved that these sleepers are none of it.
"$1" sweep || true
for number in $spare $guard $child; do
  [ "$(cat /proc/$number/comm)" = sleep ] || { echo "$number was hit"; exit 1; }
done
"$1" run --die-with $child -- true
echo unharmed
"#;
    let mut unshare = scene.command("unshare".as_ref());
    unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    unshare.args(["bash", "-c", script, "bash"]).arg(nostray()).arg(badchild());
    let output = unshare.stdin(Stdio::null()).output().expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.ends_with("unharmed\n"), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    scene.expect_empty();
}

/// Wall-clock times in records decide nothing, so a change of the clock has no effect.
#[test]
fn a_clock_that_was_set_by_hours_changes_nothing() {
    for step in ["-36000000", "+36000000"] {
        let shared = Scene::apart(User::Current);
        let dead = start(&shared, 2, &["setsid", "daemon"]);
        let alive = start(&shared, 2, &["setsid", "daemon"]);
        for pen in dead.iter().chain(&alive) {
            testkit::wait_until_on_record(&shared, &own_processes(&pen.scene).guard);
        }
        for entry in std::fs::read_dir(shared.runtime().join("nostray")).expect("read") {
            let path = entry.expect("entry").path();
            if path.extension().is_some_and(|kind| kind == "json") {
                let edit = format!(
                    "import json,sys;r=json.load(open(sys.argv[1]));r['since']+={step};r['started']+={step};\
                     json.dump(r,open(sys.argv[1],'w'))"
                );
                assert!(Command::new("python3").args(["-c", &edit]).arg(&path).status().expect("python").success());
            }
        }
        dead.iter().for_each(|pen| kill_all_of_ours(pen, &shared));
        nostray_in(&shared, &["sweep"]);
        assert!(dead.iter().all(|pen| tree_of(pen).is_empty()));
        assert!(alive.iter().all(|pen| tree_of(pen).len() == 2));
        let stopped = nostray_in(&shared, &["stop", "--all"]);
        assert!(stopped.status.success(), "{stopped:?}");
        assert!(alive.iter().all(|pen| tree_of(pen).is_empty()));
    }
}

#[test]
fn include_active_asks_live_pens_to_stop() {
    let shared = Scene::apart(User::Current);
    let pens = start(&shared, 3, &KINDS);
    let output = nostray_in(&shared, &["sweep", "--include-active"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("was asked to stop").count(), 3, "{output:?}");
    for pen in &pens {
        badchild::wait_until("the tree has ended", || tree_of(pen).is_empty());
    }
    drop(start_host(&shared, &[], &GRACES, &["pause"]));
    shared.expect_empty();
}

/// A cleanup of the runtime directory removed the lock files: a pen is not dead because a file is missing.
#[test]
fn a_live_pen_whose_lock_was_removed_is_not_swept() {
    let shared = Scene::apart(User::Current);
    let pens = start(&shared, 2, &["setsid"]);
    for entry in std::fs::read_dir(shared.runtime().join("nostray")).expect("read").flatten() {
        if entry.path().extension().is_some_and(|kind| kind == "lock") {
            std::fs::remove_file(entry.path()).expect("remove");
        }
    }
    let swept = nostray_in(&shared, &["sweep"]);
    assert!(String::from_utf8_lossy(&swept.stdout).contains("2 active"), "{swept:?}");
    assert!(pens.iter().all(|pen| tree_of(pen).len() == 2));
    assert!(nostray_in(&shared, &["stop", "--all"]).status.success());
}
