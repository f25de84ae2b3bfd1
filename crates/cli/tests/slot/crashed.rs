//! All keepers of a holder are dead, or the files are of an earlier boot, or the files were changed. The lock decides,
//! the rest of the old tree is ended before the new child starts, and no stranger is signalled.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use badchild::{Bystanders, Found, PATIENCE, User, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::slots::{MANAGED, NOT_NOW, Ring, SLOT, end, ended};
use testkit::stage::Caller;
use testkit::{in_parallel, nostray};

const POLICIES: [&str; 3] = ["wait", "fail", "replace"];
const GRACES: [&str; 4] = ["--eof-grace", "200ms", "--term-grace", "400ms"];
/// For a holder whose tree takes long to end.
const PATIENT: [&str; 4] = ["--eof-grace", "200ms", "--term-grace", "2m"];

/// Starts a holder with a tree that is hard to end, and kills all its keepers. Returns the processes that are left.
///
/// The server itself ends with its guard by its parent-death signal; the rest of its tree does not.
fn crashed(ring: &Ring, graces: &[&str], options: &[&str]) -> (Caller, Vec<Found>) {
    let mut holder = ring.holder(&[&["--no-sweep"], graces, options].concat());
    holder.result("fork", json!({ "kind": "daemon" }));
    holder.result("fork", json!({ "kind": "term-ignoring" }));
    ring.kill_keepers(&holder);
    ended(&mut holder);
    let left = ring.stage.trees();
    assert!(left.len() >= 2, "{left:?}");
    (holder, left)
}

fn rewrite(path: &Path, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON");
    change(&mut value);
    std::fs::write(path, value.to_string()).expect("write");
}

#[test]
fn after_a_crash_of_everything_the_newcomer_sweeps_first_with_every_policy() {
    let bystanders = Bystanders::start(User::Current);
    let mut cells = Vec::new();
    for user in User::all() {
        for policy in POLICIES {
            for (old, new) in [(&[][..], &[][..]), (&MANAGED, &[]), (&[], &MANAGED)] {
                cells.push((user, policy, old, new));
            }
        }
    }
    in_parallel(cells, |(user, policy, old, new)| {
        let ring = Ring::for_user(user);
        let (_dead, left) = crashed(&ring, &GRACES, old);
        assert_eq!(ring.state(), "free", "the lock must decide");
        let mut newcomer = ring.run(&[&["--if-taken", policy, "--no-sweep"], new].concat(), &[]);
        newcomer.initialize();
        let alive: Vec<_> = left.iter().filter(|found| found.is_alive()).collect();
        assert!(alive.is_empty(), "{policy}: two trees at once: {alive:?}");
        ring.expect_one_at_a_time();
        let journal = ring.stage.journal();
        assert!(journal.contains("were killed; what is left of it is ended first"), "{journal}");
        let history = ring.history();
        assert!(
            history[0]["ended"].is_object() && history[0]["why"].as_str().is_some_and(|why| why.contains("killed")),
            "{history:#?}"
        );
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
        assert!(ring.records().is_empty(), "{:?}", ring.records());
    });
    bystanders.expect_untouched();
}

/// The kernel ends a tree in a pid namespace together with its guard.
#[test]
fn after_a_crash_of_everything_around_a_pid_namespace_the_slot_is_free() {
    let ring = Ring::new();
    let mut holder = ring.run(&["--isolate", "pid", "--no-sweep"], &[]);
    holder.initialize();
    holder.result("fork", json!({ "kind": "daemon" }));
    wait_until("the holder is on record", || ring.state() == "ready");
    ring.kill_keepers(&holder);
    ended(&mut holder);
    let mut newcomer = ring.run(&["--if-taken", "fail"], &[]);
    newcomer.initialize();
    ring.expect_one_at_a_time();
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// A server with a second process, which needs a while to free its memory at its end, and holds its files until then.
const LARGE: &str = "
import mmap, os, sys, time
if os.fork() == 0:
    memory = mmap.mmap(-1, 512 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for at in range(0, len(memory), mmap.PAGESIZE):
        memory[at] = 1
    with open(sys.argv[1] + '.new', 'w') as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + '.new', sys.argv[1])
    time.sleep(1000)
os.execvp(sys.argv[2], sys.argv[2:])
";

/// A process that exits first loses its memory, with its mark, and only later its locks.
#[test]
fn an_exiting_process_of_a_dead_holder_is_waited_for() {
    for user in User::all() {
        let ring = Ring::for_user(user);
        let (mut words, large) = (ring.words(&[]), ring.stage.file("large"));
        let at = words.len() - ring.stage.server(&[]).len();
        words.splice(at..at, ["python3", "-c", LARGE, &large].map(str::to_owned));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let mut holder = ring.stage.start_command(&["--slot", SLOT, "--no-sweep"], &words);
        holder.initialize();
        wait_until("the second process runs", || std::fs::exists(&large).expect("look"));
        let number = std::fs::read_to_string(&large).expect("read").parse().expect("a number");
        let large = Found::by_pid(badchild::pid(number)).expect("is there");
        wait_until("the holder is on record", || ring.state() == "ready");
        ring.kill_keepers(&holder);
        large.send(Signal::KILL);
        let mut newcomer = ring.run(&["--no-sweep"], &[]);
        ring.expect_holder(&mut newcomer);
        assert!(!large.is_alive());
        assert_eq!(end(newcomer), 0);
        ended(&mut holder);
        ring.expect_over();
    }
}

/// Contenders wait when all keepers of the holder are killed. The first waiter gets the slot, and sweeps first.
#[test]
fn the_first_waiter_sees_that_all_keepers_of_the_holder_are_killed() {
    in_parallel(vec![&[][..], &MANAGED], |options| {
        let ring = Ring::new();
        let mut holder = ring.holder(&[&["--no-sweep"], &GRACES[..], options].concat());
        holder.result("fork", json!({ "kind": "daemon" }));
        let mut first = ring.waiter(&[], 0);
        let mut second = ring.waiter(options, 1);
        let left = ring.stage.trees();
        ring.kill_keepers(&holder);
        ended(&mut holder);
        first.initialize();
        assert!(left.iter().all(|found| !found.is_alive()), "{left:?}");
        ring.expect_one_at_a_time();
        // The same with the new holder.
        ring.kill_keepers(&first);
        ended(&mut first);
        ring.expect_holder(&mut second);
        assert_eq!(end(second), 0);
        ring.expect_over();
    });
}

/// The newcomer that sweeps is killed, too. The next newcomer continues the sweep.
#[test]
fn a_newcomer_is_killed_while_it_sweeps_and_the_next_newcomer_sweeps() {
    let ring = Ring::new();
    let (_dead, left) = crashed(&ring, &PATIENT, &[]);
    for (round, policy) in [(1, "wait"), (2, "replace")] {
        let mut newcomer = ring.run(&["--if-taken", policy, "--no-sweep"], &[]);
        wait_until("the newcomer sweeps", || ring.stage.journal().matches("is ended first").count() == round);
        let sweepers = ring.stage.own();
        testkit::slots::kill_at_once(&sweepers);
        ended(&mut newcomer);
    }
    assert!(left.iter().any(Found::is_alive), "the tree ended too early, so this test proves nothing");
    // The next sweep keeps the recorded grace as well. Shorten it, since this test is not about time.
    for record in ring.records() {
        rewrite(&record, |record| record["term_grace"] = json!(300));
    }
    let mut newcomer = ring.run(&[], &[]);
    newcomer.initialize();
    assert!(left.iter().all(|found| !found.is_alive()), "{left:?}");
    ring.expect_one_at_a_time();
    assert_eq!(end(newcomer), 0);
    ring.expect_over();
}

/// The rest of the tree has a long grace, and the newcomer a short `--wait-timeout`.
#[test]
fn a_wait_timeout_ends_the_wait_also_during_a_sweep() {
    let ring = Ring::new();
    let (_dead, left) = crashed(&ring, &PATIENT, &[]);
    let began = Instant::now();
    let mut newcomer = ring.run(&["--wait-timeout", "1s", "--no-sweep"], &[]);
    assert_eq!(newcomer.code(), NOT_NOW, "{}", newcomer.errors());
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(ring.stage.lives().len(), 1);
    assert!(left.iter().any(Found::is_alive), "the tree ended too early, so this test proves nothing");
}

/// Pids of an earlier boot mean nothing, also if strangers have them now.
#[test]
fn files_of_a_previous_boot_do_not_block_the_slot_and_no_stranger_is_signalled() {
    let bystanders = Bystanders::start(User::Current);
    for policy in POLICIES {
        for with_lock in [true, false] {
            let ring = Ring::new();
            let stale = stale_files(&ring);
            let stranger = ring.stage.start_plain(&badchild().display().to_string(), &["pause"]);
            let stranger_found = testkit::slots::front_of(&stranger);
            let me = json!({ "pid": stranger.process.id(), "start": stranger_found.stat.start.0 });
            for record in &stale {
                rewrite(record, |record| {
                    record["boot"] = json!("00000000-0000-0000-0000-000000000000");
                    // The stranger has the same pid and the same start time: only the boot id differs.
                    for who in ["front", "spare", "guard", "child"] {
                        record[who] = me.clone();
                    }
                });
                if !with_lock {
                    std::fs::remove_file(record.with_extension("lock")).expect("remove");
                }
            }
            rewrite(&ring.place().join("history.json"), |history| {
                for tenure in history["tenures"].as_array_mut().expect("a list") {
                    tenure["boot"] = json!("00000000-0000-0000-0000-000000000000");
                    tenure["ended"] = Value::Null;
                }
            });
            let mut newcomer = ring.run(&["--if-taken", policy, "--no-sweep"], &[]);
            newcomer.initialize();
            assert!(stranger_found.is_alive(), "a stranger was signalled");
            assert_eq!(end(newcomer), 0);
            drop(stranger);
            ring.expect_over();
        }
    }
    bystanders.expect_untouched();
}

/// The files of a holder whose keepers were killed, and whose tree has ended.
fn stale_files(ring: &Ring) -> Vec<std::path::PathBuf> {
    let (_dead, left) = crashed(ring, &GRACES, &[]);
    testkit::slots::kill_at_once(&left);
    let records = ring.records();
    assert_eq!(records.len(), 1, "{records:?}");
    records
}

#[test]
fn a_stranger_that_has_a_recorded_pid_now_is_not_signalled() {
    let bystanders = Bystanders::start(User::Current);
    for policy in POLICIES {
        let ring = Ring::new();
        let stale = stale_files(&ring);
        let stranger = ring.stage.start_plain(&badchild().display().to_string(), &["pause"]);
        let found = testkit::slots::front_of(&stranger);
        for record in &stale {
            rewrite(record, |record| {
                for who in ["front", "spare", "guard", "child"] {
                    record[who]["pid"] = json!(stranger.process.id());
                }
            });
        }
        let mut newcomer = ring.run(&["--if-taken", policy, "--no-sweep"], &[]);
        newcomer.initialize();
        assert!(found.is_alive(), "a stranger was signalled");
        assert_eq!(end(newcomer), 0);
        drop(stranger);
        ring.expect_over();
        assert!(ring.records().is_empty(), "{:?}", ring.records());
    }
    bystanders.expect_untouched();
}

/// The history lists past holders. It decides nothing except whether a replacement loop is broken.
#[test]
fn a_history_that_cannot_be_read_does_not_block_the_slot() {
    let garbage: Vec<&[u8]> = vec![
        b"",
        b"{torn",
        b"\xff\xfe\0",
        b"[]",
        b"{\"version\":99,\"tenures\":[]}",
        b"{\"version\":1,\"tenures\":{}}",
    ];
    in_parallel(garbage, |garbage| {
        let ring = Ring::new();
        let history = ring.place().join("history.json");
        let mut holder = ring.holder(&[]);
        std::fs::write(&history, garbage).expect("write");
        let shown = ring.stage.nostray(&["slot", "show", SLOT]);
        assert!(shown.status.success(), "{shown:?}");
        let mut refused = ring.run(&["--if-taken", "fail"], &[]);
        assert_eq!(refused.code(), NOT_NOW);
        assert_eq!(ring.stage.lives().len(), 1);
        // The holder is on record, so a newcomer can ask it to hand over.
        let mut newcomer = ring.run(&["--if-taken", "replace"], &[]);
        newcomer.initialize();
        holder.code();
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
        std::fs::write(&history, garbage).expect("write");
        let mut next = ring.run(&["--if-taken", "fail"], &[]);
        ring.expect_holder(&mut next);
        assert_eq!(end(next), 0);
        ring.expect_over();
    });
}

/// Foreign files of all kinds in the directory of a slot.
#[test]
fn foreign_files_beside_the_lock_do_not_block_the_slot() {
    let ring = Ring::new();
    let holder = ring.holder(&[]);
    let place = ring.place();
    let turn = |kind: char, number: u32| place.join(format!("{kind}-{number:024}-foreign.waits"));
    std::fs::write(turn('r', 1), "torn {").expect("write");
    std::fs::write(turn('w', 2), "").expect("write");
    std::fs::create_dir(turn('w', 3)).expect("folder");
    std::os::unix::fs::symlink("/nowhere", turn('w', 4)).expect("link");
    std::os::unix::fs::symlink("/dev/zero", turn('r', 5)).expect("link");
    for name in [
        "history.new",
        "x.new",
        "core",
        ".hidden",
        "w--.waits",
        "r-99999999999999999999999999999999999999999999-x.waits",
    ] {
        std::fs::write(place.join(name), "whatever").expect("write");
    }
    std::fs::write(place.parent().expect("slots").join("a-file"), "").expect("write");
    std::fs::create_dir(place.parent().expect("slots").join("with space")).expect("folder");
    // A pipe without a writer: a process that opens it like a file waits for ever.
    assert!(Command::new("mkfifo").arg(turn('w', 6)).status().expect("mkfifo").success());
    for words in [&["slot", "list", "--all"][..], &["slot", "show", SLOT], &["slot", "list", "--json"]] {
        let mut look = ring.stage.scene.command(&nostray());
        let mut look = look.args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("start");
        let came = comes_true(PATIENCE, &mut || look.try_wait().expect("look").is_some());
        look.kill().ok();
        assert!(look.wait().expect("reap").success() && came, "{words:?} does not end");
    }
    let mut waiter = ring.run(&[], &[]);
    wait_until("the waiter waits", || !waiter.errors().is_empty());
    let mut newcomer = ring.run(&["--if-taken", "replace"], &[]);
    newcomer.initialize();
    let mut holder = holder;
    holder.code();
    assert_eq!(end(newcomer), 0);
    ring.expect_holder(&mut waiter);
    assert_eq!(end(waiter), 0);
    ring.stage.scene.expect_empty();
    ring.expect_one_at_a_time();
    assert!(Path::new("/dev/zero").exists());
}

/// A link could lead anywhere: nostray does not lock its target, and does not write to it.
#[test]
fn links_in_place_of_nostrays_files_are_refused_or_replaced_and_never_written_through() {
    for name in ["lock", "alive", "history.json", "history.new"] {
        let ring = Ring::new();
        let holder = ring.holder(&[]);
        assert_eq!(end(holder), 0);
        let (victim, file) = (ring.stage.file("precious"), ring.place().join(name));
        std::fs::write(&victim, "precious").expect("write");
        std::fs::remove_file(&file).ok();
        std::os::unix::fs::symlink(&victim, &file).expect("link");
        let mut newcomer = ring.run(&[], &[]);
        match name {
            "lock" | "alive" => {
                assert_eq!(newcomer.code(), 125, "{name}: {}", newcomer.errors());
                assert!(newcomer.errors().contains(name), "{}", newcomer.errors());
                assert_eq!(ring.stage.lives().len(), 1, "{name}: a child was started");
            }
            _ => {
                newcomer.initialize();
                assert_eq!(end(newcomer), 0);
                assert_eq!(ring.history().len(), if name == "history.json" { 1 } else { 2 }, "{name}");
            }
        }
        assert_eq!(std::fs::read_to_string(&victim).expect("read"), "precious", "{name}: written through a link");
        ring.stage.scene.expect_empty();
    }
}

/// A pipe or folder in the place of a file: the newcomer answers or fails, and does not wait for ever.
#[test]
fn no_newcomer_hangs_on_a_pipe_or_folder_in_place_of_nostrays_files() {
    for (name, kind) in
        [("history.json", "pipe"), ("history.json", "folder"), ("lock", "folder"), ("alive", "folder")]
    {
        let ring = Ring::new();
        assert_eq!(end(ring.holder(&[])), 0);
        let file = ring.place().join(name);
        std::fs::remove_file(&file).expect("remove");
        match kind {
            "pipe" => assert!(Command::new("mkfifo").arg(&file).status().expect("mkfifo").success()),
            _ => std::fs::create_dir(&file).expect("folder"),
        }
        let mut newcomer = ring.run(&["--wait-timeout", "5s"], &[]);
        newcomer.try_send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        let is_over = |caller: &mut Caller| caller.process.try_wait().expect("look").is_some();
        let mut answered = false;
        let came = comes_true(PATIENCE, &mut || {
            answered |= newcomer.line_within(Duration::ZERO).is_some();
            answered || is_over(&mut newcomer)
        });
        assert!(came, "{name} is a {kind}: {}", newcomer.errors());
        if answered {
            assert_eq!(end(newcomer), 0);
        } else {
            assert_eq!(newcomer.code(), 125, "{name} is a {kind}: {}", newcomer.errors());
            assert!(newcomer.errors().contains(name), "{}", newcomer.errors());
        }
        ring.stage.scene.expect_empty();
    }
}

/// The directory of a held slot is removed, so the next newcomer locks a new file. It still finds the holder by its
/// record.
#[test]
fn a_held_slot_whose_directory_is_removed_does_not_get_a_second_holder() {
    for options in [&[][..], &MANAGED] {
        let ring = Ring::new();
        let mut holder = ring.holder(options);
        std::fs::remove_dir_all(ring.place()).expect("remove");
        let mut refused = ring.run(&["--if-taken", "fail"], &[]);
        assert_eq!(refused.code(), NOT_NOW, "{}", refused.errors());
        let mut late = ring.run(&["--wait-timeout", "500ms"], &[]);
        assert_eq!(late.code(), NOT_NOW, "{}", late.errors());
        assert_eq!(ring.stage.lives().len(), 1);
        holder.who();
        let mut newcomer = ring.run(&["--if-taken", "replace"], &[]);
        newcomer.initialize();
        holder.code();
        ring.expect_one_at_a_time();
        assert_eq!(end(newcomer), 0);
        ring.expect_over();
    }
}

/// Two hosts pass different environments on, so their fronts use different state directories, and lock different files.
#[test]
fn contenders_with_different_state_directories_find_each_other_by_their_records() {
    let ring = Ring::new();
    let mut holder = ring.holder(&[]);
    let elsewhere = ring.stage.scene.runtime().join("other-state");
    let run = |options: &[&str]| {
        ring.run_in(options, &[], |command| {
            command.env("XDG_STATE_HOME", &elsewhere);
        })
    };
    let mut refused = run(&["--if-taken", "fail"]);
    assert_eq!(refused.code(), NOT_NOW, "{}", refused.errors());
    let mut late = run(&["--wait-timeout", "500ms"]);
    assert_eq!(late.code(), NOT_NOW, "{}", late.errors());
    assert_eq!(ring.stage.lives().len(), 1);
    let mut newcomer = run(&["--if-taken", "replace"]);
    newcomer.initialize();
    holder.code();
    ring.expect_one_at_a_time();
    assert_eq!(end(newcomer), 0);
    ring.stage.scene.expect_empty();
}

/// A sweep of other dead pens may take long. It does not hold the slot of the pen that started it.
#[test]
fn a_sweep_in_the_background_does_not_hold_the_slot() {
    let ring = Ring::new();
    // A dead pen without a slot has left a tree that takes long to end.
    let badchild = badchild().display().to_string();
    let options = ["--no-sweep", "--eof-grace", "100ms", "--term-grace", "90s"];
    let mut dead = ring.stage.start_command(&options, &[&badchild, "tree", "stubborn", "daemon"]);
    assert_eq!(dead.next_line(), b"ready\n");
    ring.kill_keepers(&dead);
    ended(&mut dead);
    for options in [&[][..], &MANAGED] {
        let mut holder = ring.run(options, &[]);
        holder.initialize();
        wait_until("the sweep runs", || ring.stage.own().iter().any(|found| found.stat.name == "nostray-sweep"));
        let began = Instant::now();
        assert_eq!(end(holder), 0);
        let mut next = ring.run(&["--no-sweep"], &[]);
        next.initialize();
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        assert_eq!(end(next), 0);
    }
    ring.expect_one_at_a_time();
}
