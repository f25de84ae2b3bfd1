//! `race --slots`: twenty contenders for one slot, many times over.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use badchild::contest::{self, Lookalikes, Plan, Tally, Trouble};
use badchild::{Bystanders, Scene, User, random};

use super::{ENOUGH, NOW};
use crate::programs::Programs;
use crate::{Failure, args, screen};

pub(crate) fn run(options: &args::Race) -> Result<ExitCode, Failure> {
    screen::progress("building");
    let Programs { nostray, badchild } = Programs::build()?;
    let programs = contest::Programs { nostray, badchild };
    let (bystanders, lookalikes) = (Bystanders::start(User::Current), Lookalikes::start(&programs));
    screen::clear();
    let args::Race { rounds, seed, threads, .. } = *options;
    screen::print(format_args!("race for slots: {rounds} rounds, seed {seed}, {threads} threads"));
    let (next, tally, failures) = (AtomicU64::new(0), Mutex::new(Tally::default()), Mutex::new(0));
    let (users, start) = (User::all(), Instant::now());
    let work = || {
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            if round >= rounds || failures.lock().map_or(true, |failures| *failures >= ENOUGH) {
                return;
            }
            screen::progress(format_args!("round {round} of {rounds}"));
            let plan = Plan::new(random::seed_of_round(seed, round), &users);
            let title = format!("round {round}, seed {}: {plan}", plan.seed);
            NOW.with_borrow_mut(|now| now.clone_from(&title));
            let result = play_when_there_is_room(&programs, &plan).and_then(|outcome| match lookalikes.hit() {
                hit if hit.is_empty() => Ok(outcome),
                details => Err(Trouble { what: "a stranger was hit".to_owned(), details }),
            });
            match result {
                Ok(outcome) => tally.lock().iter_mut().for_each(|tally| tally.add(&outcome)),
                Err(trouble) => {
                    screen::print(format_args!("\nFAILED {title}\n  {trouble}"));
                    failures.lock().iter_mut().for_each(|failures| **failures += 1);
                }
            }
        }
    };
    std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
    bystanders.expect_untouched();
    screen::clear();
    let failures = failures.into_inner().unwrap_or(ENOUGH);
    let tally = tally.into_inner().unwrap_or_default();
    screen::print(format_args!("{tally}\nin {:.0} s\n{failures} failures", start.elapsed().as_secs_f64()));
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays a round; again if the machine had no room for another process.
fn play_when_there_is_room(programs: &contest::Programs, plan: &Plan) -> Result<Tally, Trouble> {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        let scene = Scene::apart(plan.user);
        match contest::play(programs, plan, &scene) {
            // Others have to end first, and there is no event for that.
            Err(trouble) if trouble.is_want_of_room() && Instant::now() < patience => {
                std::thread::sleep(Duration::from_secs(1))
            }
            result => return result,
        }
    }
}
