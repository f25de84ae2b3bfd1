//! What shows that there was one owner at a time: what the servers have written down, who was seen with the database open, what the slot
//! remembers, and the database itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use badchild::wait_until;
use serde_json::Value;
use testkit::stage::Stage;

use crate::wreck::rows;

/// A line of the record that all servers keep together.
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

/// Those who have this on record, in order.
pub(crate) fn those_who(stage: &Stage, what: &str) -> Vec<i64> {
    let is_so = |entry: &Entry| entry.what.split(' ').next() == Some(what);
    record(stage).into_iter().filter(is_so).map(|entry| entry.pid).collect()
}

/// Looks all the time who has the database open, through /proc.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) looks: u32,
    /// Everybody who ever had it open.
    pub(crate) users: BTreeSet<i32>,
    /// At the same moment.
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
        // Strangers, who are many.
        let before: BTreeSet<_> = scan().collect();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !stop.load(Ordering::Relaxed) {
                let ours = scan().filter(|process| !before.contains(process)).map(|(pid, _)| pid);
                let first: BTreeSet<i32> = ours.filter(|pid| has_open(*pid, &database)).collect();
                // One may have closed it and the next one opened it while one looks. Who is seen again has had it meanwhile, too.
                let again: BTreeSet<i32> = first.iter().copied().filter(|pid| has_open(*pid, &database)).collect();
                seen.looks += 1;
                seen.users.extend(&first);
                if again.len() > seen.most.len() {
                    seen.most = again;
                }
                // Samples: an open file has no event that a stranger could wait for.
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

/// Sees that the database is whole, with every row that anybody was told was in it.
pub(crate) fn expect_whole(stage: &Stage) {
    let mut command = stage.scene.command("python3".as_ref());
    let output = command.args([stage.file("server.py"), "check".to_owned(), stage.file("db")]).output().expect("run");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!(found["integrity"], "ok");
    assert_eq!(found["memories"], rows());
    assert_eq!(found["sum"].as_f64(), Some((rows() * (rows() - 1) / 2) as f64));
    let lives: Vec<i64> = found["lives"].as_array().expect("a list").iter().filter_map(Value::as_i64).collect();
    assert_eq!(lives, those_who(stage, "committed"));
}

/// Sees that no two had the database at once, and says what was seen of it.
pub(crate) fn expect_nobody_met_another(stage: &Stage, watch: Watch) -> Seen {
    let seen = watch.end();
    assert_eq!(seen.most.len(), 1, "{seen:?}");
    for evidence in ["two", "locked"] {
        assert_eq!(those_who(stage, evidence), [0; 0], "{:#?}\n{}", record(stage), stage.journal());
    }
    seen
}

/// Sees that there was one owner at a time, whoever is asked: the servers, the database, /proc, and the slot; that nobody was shot;
/// and that the database is whole.
pub(crate) fn expect_one_owner_at_a_time(stage: &Stage, watch: Watch, owners: usize) {
    let seen = expect_nobody_met_another(stage, watch);
    let journal = || stage.journal();
    let started = those_who(stage, "start");
    assert_eq!(started.len(), owners, "{:#?}\n{}", record(stage), journal());
    for milestone in ["recovered", "ready", "closed"] {
        assert_eq!(those_who(stage, milestone), started, "{:#?}\n{}", record(stage), journal());
    }
    assert!(seen.users.iter().all(|pid| started.contains(&i64::from(*pid))), "{seen:?} {started:?}");
    // The first one is seen for as long as it recovers.
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

/// On the direct path, a moment after it has answered.
pub(crate) fn expect_ready(stage: &Stage) {
    wait_until("the holder is on record as ready", || show(stage)["state"] == "ready");
}

pub(crate) fn show(stage: &Stage) -> Value {
    let output = stage.nostray(&["slot", "show", "db", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}
