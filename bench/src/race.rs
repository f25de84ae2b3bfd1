//! `race`: the pen's own processes are killed at random moments, but never all of them in a round, and sometimes the host; in
//! the end no process of the tree may be left, and the host's other child must be alive. With `--managed` the processes
//! around a supervised child are killed; the child comes back meanwhile, but never beside the last one.
//!
//! With `--slots`, twenty callers that want one slot are struck; see `badchild::contest`.
//!
//! Only `--slots` kills all of a pen's own processes at once: the tree then survives until a later `nostray sweep`.

mod chain;
mod plan;
mod round;
mod slots;

use std::cell::RefCell;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use badchild::{Bystanders, Scene, User, random};

use crate::programs::Programs;
use crate::{Failure, args, screen};
use plan::Plan;
use round::{Outcome, Trouble};

/// Enough to see a pattern.
const ENOUGH: usize = 20;

thread_local! {
    /// What this thread is doing, for the case that the test kit panics.
    static NOW: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What all rounds have in common.
pub(crate) struct Stage {
    pub(crate) programs: Programs,
    users: Vec<User>,
    bystanders: Bystanders,
}

/// What has come out so far.
#[derive(Default)]
struct Tally {
    next: AtomicU64,
    killed: [AtomicU64; 5],
    missed: AtomicU64,
    slowest_ms: AtomicU64,
    failures: Mutex<Vec<String>>,
}

pub(crate) fn run(options: &args::Race) -> Result<ExitCode, Failure> {
    if options.slots {
        return slots::run(options);
    }
    screen::progress("building");
    let stage =
        Stage { programs: Programs::build()?, users: User::all(), bystanders: Bystanders::start(User::Current) };
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        NOW.with_borrow(|now| screen::complain(format_args!("in {now}:")));
        others(panic);
    }));
    let groups = groups_left();
    screen::clear();
    screen::print(format_args!(
        "race: {} rounds, seed {}, {} threads",
        options.rounds, options.seed, options.threads
    ));
    let (tally, start) = (Tally::default(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| work(&stage, options, &tally));
        }
    });
    screen::clear();
    let played = tally.next.load(Ordering::Relaxed).min(options.rounds);
    let [managed, front, spare, guard, host] = tally.killed.each_ref().map(|count| count.load(Ordering::Relaxed));
    let managed = if options.managed { format!("managed front {managed}, ") } else { String::new() };
    screen::print(format_args!(
        "{played} rounds in {:.0} s; killed: {managed}front {front}, spare {spare}, guard {guard}, host {host} times; \
         no process to kill in {} rounds; slowest end {} ms after the last kill; empty control groups left behind: {}",
        start.elapsed().as_secs_f64(),
        tally.missed.load(Ordering::Relaxed),
        tally.slowest_ms.load(Ordering::Relaxed),
        groups_left().saturating_sub(groups),
    ));
    let failures = tally.failures.into_inner().unwrap_or_default();
    for failure in &failures {
        screen::print(failure);
    }
    screen::print(format_args!("{} failures", failures.len()));
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn work(stage: &Stage, options: &args::Race, tally: &Tally) {
    // Look at a scene once more a round later: the first look may have missed a process that was just being forked.
    let mut before: Option<(Scene, String)> = None;
    loop {
        let round = tally.next.fetch_add(1, Ordering::Relaxed);
        if round >= options.rounds || tally.failures.lock().map_or(true, |failures| failures.len() >= ENOUGH) {
            return;
        }
        screen::progress(format_args!("round {round} of {}", options.rounds));
        let plan = Plan::new(random::seed_of_round(options.seed, round), &stage.users, options.managed);
        let title = format!("round {round}, seed {}: {plan}", plan.seed);
        NOW.with_borrow_mut(|now| now.clone_from(&title));
        let (scene, result) = play_when_there_is_room(stage, &plan);
        stage.bystanders.expect_untouched();
        let earlier = match result {
            Ok(outcome) => {
                count(tally, &outcome);
                before.replace((scene, title))
            }
            Err(trouble) => {
                fail(tally, &title, &trouble);
                before.take()
            }
        };
        if let Some((scene, title)) = earlier {
            let late = round::describe(&scene.processes());
            if !late.is_empty() {
                fail(tally, &title, &Trouble::new("came back after the end of its round", late));
            }
        }
    }
}

/// Plays a round; again if the machine had no room for another process: that says nothing about pens.
fn play_when_there_is_room(stage: &Stage, plan: &Plan) -> (Scene, Result<Outcome, Trouble>) {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        let scene = Scene::new(plan.user);
        let result = round::play(stage, plan, &scene);
        match &result {
            Err(trouble) if trouble.no_room && Instant::now() < patience => {
                // The process table is full: others have to end first, and there is no event for that.
                std::thread::sleep(Duration::from_secs(1))
            }
            _ => return (scene, result),
        }
    }
}

fn count(tally: &Tally, outcome: &Outcome) {
    for (counter, killed) in tally.killed.iter().zip(outcome.killed) {
        counter.fetch_add(killed.into(), Ordering::Relaxed);
    }
    tally.missed.fetch_add(u64::from(outcome.killed == [false; 5]), Ordering::Relaxed);
    tally.slowest_ms.fetch_max(u64::try_from(outcome.time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn fail(tally: &Tally, title: &str, trouble: &Trouble) {
    let text = format!("\nFAILED {title}\n  {}\n    {}", trouble.what, trouble.details.join("\n    "));
    screen::complain(&text);
    if let Ok(mut failures) = tally.failures.lock() {
        failures.push(text);
    }
}

/// Counts the empty control groups of pens. Other pens of this machine may come and go meanwhile, so this is for
/// information only.
fn groups_left() -> usize {
    let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter().filter_map(|f| std::fs::read_dir(f).ok());
    folders
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("nostray-"))
        .filter(|entry| std::fs::read_to_string(entry.path().join("cgroup.procs")).is_ok_and(|list| list.is_empty()))
        .count()
}
