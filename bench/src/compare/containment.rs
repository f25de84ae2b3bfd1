//! What stays behind: eight trees, five ways in which they end, and which processes each contender leaves.

mod case;
mod census;
mod contenders;
mod permits;
mod play;
mod tables;
mod tally;
mod worse;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use badchild::so_many_at_once;
use case::{Case, Descendant, Ending, Manner, Tree};
use census::Census;
use contenders::Contender;
use permits::Permits;
use play::{LOOKS, Left, Outcome, Stage};
use tally::{Name, Tally};

use super::{Answer, Check, Ground};
use crate::programs::running;
use crate::traffic::watch;
use crate::{Failure, machine};

/// Trees at once. Each is mostly waited for.
const AT_ONCE: usize = 112;
/// The same for those whose wrapper needs an interpreter, if there is memory for them.
const INTERPRETED_AT_ONCE: usize = 48;
const MIB_OF_INTERPRETED: usize = 200;
/// Hosts that are being started at once.
const STARTING: usize = 6;
/// A port may have been taken, a machine busy: what could not be started is tried again.
const TRIES: usize = 3;
/// A look that is later than this is not one after 1 s.
const TOO_LATE: Duration = Duration::from_secs(1);

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let contenders = contenders::all(ground);
    let passes = if ground.is_quick() { 1 } else { 3 };
    let mut cases = Vec::new();
    for _ in 0..passes {
        for ending in Ending::ALL {
            for tree in Tree::all() {
                cases.extend((0..contenders.len()).map(|who| Case { who, tree, ending }));
            }
        }
    }
    let count = cases.len();
    let (seen, failed) = play_all(ground, &contenders, cases);
    let contenders = contenders.iter().map(|&Contender { name, ours, .. }| Name { name, ours }).collect();
    let tally = Tally { contenders, seen };
    let mut checks = checks(&tally, count, &failed);
    checks.push(Check::new(
        "Containment: no process of any tree was there after the last one",
        running(&ground.programs.badchild).is_empty(),
    ));
    let passes = if passes == 1 {
        "One pass.".to_owned()
    } else {
        format!("{passes} passes; what is left in one of them counts.")
    };
    Ok(Answer {
        title: "What stays behind",
        lead: format!(
            "A host starts a server with a wrapper around it; the server starts one descendant. When both run, the \
             event comes. The processes that still bear the mark of the tree in their environment are then looked up \
             in `/proc`; the wrapper is not asked. {count} trees, many at a time. {passes} The latest of the looks \
             was {:.1} s late.",
            tally.latest_look().as_secs_f64()
        ),
        tables: tables::all(&tally),
        charts: vec![tables::chart(&tally)],
        worse: worse::worse(&tally),
        checks,
    })
}

/// Plays all cases, and says which could not be played.
fn play_all(ground: &Ground, contenders: &[Contender], mut cases: Vec<Case>) -> (Vec<(Case, Outcome)>, Vec<String>) {
    let (census, starting) = (Census::default(), Permits::new(STARTING));
    let stage = Stage { badchild: &ground.programs.badchild, census: &census, starting: &starting };
    let (seen, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let all = cases.len();
    let play = |case: Case| {
        let contender = &contenders[case.who];
        let mut played = stage.play(contender, case);
        for _ in 1..TRIES {
            if played.is_err() {
                played = stage.play(contender, case);
            }
        }
        match played {
            Ok(outcome) => {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.push((case, outcome));
                watch::doing(format!("containment: {} of {all} trees", seen.len()));
            }
            Err(error) => {
                let text = format!("{}, {:?}, {:?}: {error}", contender.name, case.tree, case.ending);
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            }
        }
    };
    // They are taken from the end.
    cases.reverse();
    let (interpreted, native): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| contenders[case.who].is_interpreted());
    let room = machine::free_mib().map_or(1, |mib| mib / MIB_OF_INTERPRETED).clamp(1, INTERPRETED_AT_ONCE);
    std::thread::scope(|scope| {
        scope.spawn(|| so_many_at_once(room, interpreted, play));
        so_many_at_once(AT_ONCE, native, play);
    });
    (seen.into_inner().unwrap_or_default(), failed.into_inner().unwrap_or_default())
}

fn checks(tally: &Tally, count: usize, failed: &[String]) -> Vec<Check> {
    let last = LOOKS.len() - 1;
    // Whether, with this contender, such trees are left for good after this ending, all of them.
    let leaves = |name: &str, ending: Ending, trees: &dyn Fn(Tree) -> bool, is_left: fn(Left) -> bool| {
        let who = tally.who(name)?;
        Some(Tree::all().filter(|&tree| trees(tree)).all(|tree| tally.any(Case { who, tree, ending }, last, is_left)))
    };
    let stubborn = |tree: Tree| tree.manner == Manner::Stubborn;
    let astray = |tree: Tree| matches!(tree.descendant, Descendant::Setsid | Descendant::Daemon);
    let mut checks = vec![
        Check::new(
            format!(
                "Containment: server, descendant and the host's other child were seen before each of {count} events{}",
                failed.first().map(|one| format!(" (not of {}, such as {one})", failed.len())).unwrap_or_default()
            ),
            failed.is_empty() && tally.seen.len() == count,
        ),
        Check::new(
            "Containment: with nothing around it, a stubborn server outlives its host",
            leaves("nothing", Ending::KillOfHost, &stubborn, |left| left.server) == Some(true),
        ),
        Check::new(
            "Containment: with nothing around it, a cooperative server does not outlive its host, but its descendant does",
            leaves("nothing", Ending::KillOfHost, &|tree| !stubborn(tree), |left| !left.server && left.descendant)
                == Some(true),
        ),
    ];
    for name in ["tini -s", "dumb-init", "setpriv KILL", "bwrap"] {
        if let Some(held) = leaves(name, Ending::KillOfHost, &astray, |left| left.descendant) {
            let what = format!(
                "Containment: with {name}, descendants in another session outlive the host, and were seen to"
            );
            checks.push(Check::new(what, held));
        }
    }
    let hitters = tally.hitters();
    let whom = if hitters.is_empty() { String::new() } else { format!(" (it was with {})", hitters.join(", ")) };
    checks.push(Check::new(
        format!(
            "Containment: no other process was hit: the host's other child was there after each of {count} events{whom}"
        ),
        hitters.is_empty(),
    ));
    let late = tally.latest_look();
    checks.push(Check::new(
        format!("Containment: no look was later than {TOO_LATE:?} (the latest was {:.2} s late)", late.as_secs_f64()),
        late <= TOO_LATE,
    ));
    checks
}
