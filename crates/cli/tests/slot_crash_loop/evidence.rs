//! The evidence that there was one owner at a time: the record of the servers, the processes that were seen with the
//! database open, the history of the slot, and the database itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use badchild::wait_until;
use serde_json::Value;
use testkit::stage::Stage;

use crate::wreck::rows;

/// A line of the record that all servers append to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: i64,
    at: u64,
    pub(crate) what: String,
}

pub(crate) fn record(stage: &Stage) -> Vec<Entry> {
    let text = std::fs::read_to_string(stage.file("record")).unwrap_or_default();
    let entry = |line: &str| {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().expect("three words");
        Entry {
            pid: next().parse().expect("a number"),
            at: next().parse().expect("a number"),
            what: next().to_owned(),
        }
    };
    text.lines().map(entry).collect()
}

/// The pids of the servers that recorded this, in order.
pub(crate) fn pids_with(stage: &Stage, what: &str) -> Vec<i64> {
    let is_so = |entry: &Entry| entry.what.split(' ').next() == Some(what);
    record(stage).into_iter().filter(is_so).map(|entry| entry.pid).collect()
}

/// Samples through /proc which processes have the database open.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) looks: u32,
    /// All processes that were seen with the database open.
    pub(crate) users: BTreeSet<i32>,
    /// The largest set of processes that had it open at the same moment.
    pub(crate) most: BTreeSet<i32>,
}

impl Watch {
    pub(crate) fn over(stage: &Stage) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (stop, database) = (is_over.clone(), stage.file("db"));
        let scan = || {
            let all = nostray_sys::proc::scan().unwrap_or_default();
            all.into_iter().map(|stat| (stat.pid.as_raw_pid(), stat.start))
        };
        // Exclude the many processes that run already.
        let before: BTreeSet<_> = scan().collect();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !stop.load(Ordering::Relaxed) {
                let ours = scan().filter(|process| !before.contains(process)).map(|(pid, _)| pid);
                let first: BTreeSet<i32> = ours.filter(|pid| has_open(*pid, &database)).collect();
                // During a scan, one server may close the database and the next one open it. A process that has it open
                // in both scans had it open in between.
                let again: BTreeSet<i32> = first.iter().copied().filter(|pid| has_open(*pid, &database)).collect();
                seen.looks += 1;
                seen.users.extend(&first);
                if again.len() > seen.most.len() {
                    seen.most = again;
                }
                // Polls: another process gets no event when a file is opened.
                std::thread::sleep(Duration::from_millis(25));
            }
            seen
        });
        Self { is_over, thread: Some(thread) }
    }

    pub(crate) fn end(mut self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("is there").join().expect("no panic")
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// The database, its log, or the index of its log.
fn has_open(pid: i32, database: &str) -> bool {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| {
        let rest = target.to_str().and_then(|target| target.strip_prefix(database));
        rest.is_some_and(|rest| ["", "-wal", "-shm"].contains(&rest))
    })
}

/// Checks that the database is intact and has all rows.
pub(crate) fn expect_whole(stage: &Stage) {
    let mut command = stage.scene.command("python3".as_ref());
    let output = command.args([stage.file("server.py"), "check".to_owned(), stage.file("db")]).output().expect("run");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(found["integrity"], "ok");
    assert_eq!(found["memories"], rows());
    assert_eq!(found["sum"].as_f64(), Some((rows() * (rows() - 1) / 2) as f64));
    let lives: Vec<i64> = found["lives"].as_array().expect("a list").iter().filter_map(Value::as_i64).collect();
    assert_eq!(lives, pids_with(stage, "committed"));
}

/// Checks that no two servers had the database at once, and returns what the watch saw.
pub(crate) fn expect_no_two_servers_at_once(stage: &Stage, watch: Watch) -> Seen {
    let seen = watch.end();
    assert_eq!(seen.most.len(), 1, "{seen:?}");
    for evidence in ["two", "locked"] {
        assert_eq!(pids_with(stage, evidence), [0; 0], "{:#?}\n{}", record(stage), stage.journal());
    }
    seen
}

/// Checks that there was one owner at a time, by the record of the servers, the database, /proc, and the slot; that no
/// server was killed; and that the database is intact.
pub(crate) fn expect_one_owner_at_a_time(stage: &Stage, watch: Watch, owners: usize) {
    let seen = expect_no_two_servers_at_once(stage, watch);
    let journal = || stage.journal();
    let started = pids_with(stage, "start");
    assert_eq!(started.len(), owners, "{:#?}\n{}", record(stage), journal());
    for milestone in ["recovered", "ready", "closed"] {
        assert_eq!(pids_with(stage, milestone), started, "{:#?}\n{}", record(stage), journal());
    }
    assert!(seen.users.iter().all(|pid| started.contains(&i64::from(*pid))), "{seen:?} {started:?}");
    // The first server recovers for so long that some sample sees it.
    assert!(seen.looks > 10 && seen.users.contains(&i32::try_from(started[0]).expect("small")), "{seen:?}");
    let shown = show(stage);
    let history = shown["history"].as_array().expect("a list");
    assert_eq!(history.len(), owners, "{shown:#}");
    let at = |tenure: &Value, what: &str| {
        tenure[what]["since_boot"].as_u64().unwrap_or_else(|| panic!("was not {what}: {shown:#}"))
    };
    for tenure in history {
        assert!(
            at(tenure, "taken") <= at(tenure, "ready") && at(tenure, "ready") <= at(tenure, "ended"),
            "{shown:#}"
        );
    }
    for pair in history.windows(2) {
        assert!(at(&pair[0], "ended") <= at(&pair[1], "taken"), "{shown:#}");
    }
    expect_whole(stage);
}

/// Waits until the record says ready. On the direct path that is a moment after the first answer.
pub(crate) fn expect_ready(stage: &Stage) {
    wait_until("the holder is on record as ready", || show(stage)["state"] == "ready");
}

pub(crate) fn show(stage: &Stage) -> Value {
    let output = stage.nostray(&["slot", "show", "db", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}
