//! How long a tree outlives its host: from the host's SIGKILL to the end of the last process.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Found, Scene};
use nostray_sys::poll::{Until, wait};
use nostray_sys::{Pidfd, Signal};

use crate::host::Host;
use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{median, percentile};
use crate::variants::Variant;
use crate::{Failure, screen};

/// The graces that stubborn trees are given, together.
pub(crate) const GRACES: Duration = Duration::from_millis(200);
const GRACE_OPTIONS: [&str; 4] = ["--eof-grace", "100ms", "--term-grace", "100ms"];
/// What is there after this, stays.
const PATIENCE: Duration = Duration::from_secs(2);

/// A kind of tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) size: usize,
    pub(crate) stubborn: bool,
}

impl Tree {
    fn child(self, badchild: OsString) -> Vec<OsString> {
        let mut words = vec![badchild, "many".into(), self.size.to_string().into()];
        if self.stubborn {
            words.push("stubborn".into());
        }
        words
    }
}

/// What became of one.
enum Outcome {
    /// All of it ended, after so many milliseconds.
    Gone(f64),
    /// So many processes were still there after [`PATIENCE`].
    Survived(usize),
}

/// The times of nostray's trees, for the targets.
pub(crate) struct Times(Vec<(Tree, Vec<f64>)>);

impl Times {
    /// The median for one kind of tree, in milliseconds from the host's death; none if one of them survived.
    pub(crate) fn median(&self, tree: Tree) -> Option<f64> {
        let (_, times) = self.0.iter().find(|(kind, _)| *kind == tree)?;
        (!times.is_empty()).then(|| median(times))
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = Tree> {
        self.0.iter().map(|(tree, _)| *tree)
    }
}

/// Measures all variants with all trees. `runs` says how often for a size; a variant that leaves survivors is not asked
/// again.
pub(crate) fn measure(
    variants: &[Variant],
    programs: &Programs,
    sizes: &[usize],
    runs: fn(usize) -> usize,
) -> Result<(Vec<Table>, Times), Failure> {
    let mut tables = Vec::new();
    let mut nostrays = Times(Vec::new());
    for stubborn in [false, true] {
        let what = if stubborn {
            format!("Stubborn trees: ms above the graces ({} ms)", GRACES.as_millis())
        } else {
            "Cooperative trees: ms".to_owned()
        };
        let title = format!("{what} from the host's SIGKILL to an empty tree, p50 (p90)");
        let columns: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let columns: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).collect();
        let mut table = Table::new(title, &columns);
        table.columns[0] = "processes:".to_owned();
        let mut rows: Vec<Vec<String>> = variants.iter().map(|variant| vec![variant.name.to_owned()]).collect();
        for &size in sizes {
            let tree = Tree { size, stubborn };
            let outcomes = one_kind(variants, programs, tree, runs(size))?;
            for ((variant, row), outcome) in variants.iter().zip(&mut rows).zip(&outcomes) {
                row.push(cell(variant, tree, outcome));
            }
            let nostray = variants.iter().position(Variant::is_nostray).and_then(|at| outcomes.into_iter().nth(at));
            nostrays.0.push((tree, nostray.and_then(|times| times.into_times()).unwrap_or_default()));
        }
        table.rows = rows;
        table.note(format!(
            "The wrapper's own processes count, too. `n stay`: so many processes were there {PATIENCE:?} after the \
             host's death (tried once, then killed). Sizes in turn, variants interleaved; {} runs of each size.",
            sizes.iter().map(|&size| runs(size).to_string()).collect::<Vec<_>>().join(", ")
        ));
        if stubborn {
            table.note("The others know no graces; their times are from the host's death.");
        }
        tables.push(table);
    }
    Ok((tables, nostrays))
}

/// All runs of one variant with one kind of tree.
enum Outcomes {
    Gone(Vec<f64>),
    Survived(usize),
}

impl Outcomes {
    fn into_times(self) -> Option<Vec<f64>> {
        match self {
            Self::Gone(times) => Some(times),
            Self::Survived(_) => None,
        }
    }
}

fn one_kind(variants: &[Variant], programs: &Programs, tree: Tree, runs: usize) -> Result<Vec<Outcomes>, Failure> {
    let mut all: Vec<Outcomes> = variants.iter().map(|_| Outcomes::Gone(Vec::new())).collect();
    for run in 0..runs {
        for (variant, outcomes) in variants.iter().zip(&mut all) {
            let Outcomes::Gone(times) = outcomes else { continue };
            let manner = if tree.stubborn { "stubborn" } else { "cooperative" };
            let (name, size) = (variant.name, tree.size);
            screen::progress(format_args!("{manner} trees of {size}: run {} of {runs}, {name}", run + 1));
            match one(variant, programs, tree).map_err(|error| format!("{name}, a tree of {size}: {error}"))? {
                Outcome::Gone(time) => times.push(time),
                Outcome::Survived(count) => *outcomes = Outcomes::Survived(count),
            }
        }
    }
    Ok(all)
}

fn cell(variant: &Variant, tree: Tree, outcomes: &Outcomes) -> String {
    match outcomes {
        Outcomes::Survived(1) => "1 stays".to_owned(),
        Outcomes::Survived(count) => format!("{count} stay"),
        Outcomes::Gone(times) => {
            let graces = if tree.stubborn && variant.is_nostray() { GRACES.as_secs_f64() * 1e3 } else { 0.0 };
            format!("{:.1} ({:.1})", median(times) - graces, percentile(times, 0.9) - graces)
        }
    }
}

fn one(variant: &Variant, programs: &Programs, tree: Tree) -> Result<Outcome, Failure> {
    let scene = Scene::new(variant.user);
    let badchild = programs.badchild.clone();
    let options: &[&str] = if tree.stubborn { &GRACE_OPTIONS } else { &[] };
    let command = variant.words(options, &tree.child(badchild.clone().into()));
    let mut host = Host::start(&scene, &badchild, &[], &command, Stdio::null())?;
    host.ready(badchild::PATIENCE)?;
    // Each process of the tree closes its files, and wrappers tidy up, a moment after the start.
    std::thread::sleep(Duration::from_millis(50));
    let members = handles(&scene, &host)?;
    if members.len() < tree.size {
        return Err(format!("only {} processes were found", members.len()).into());
    }
    let start = Instant::now();
    host.kill()?;
    // One after the other: the last of them to be waited for has ended when all have, and waiting for a thousand at
    // once would cost a look at each of them for every one that ends.
    for (_, handle) in &members {
        let left = (start + PATIENCE).saturating_duration_since(Instant::now());
        wait(&[(handle.as_fd(), Until::Readable)], Some(left))?;
    }
    let time = start.elapsed();
    let survivors: Vec<_> = members.iter().filter(|(_, handle)| !handle.has_ended().unwrap_or(true)).collect();
    for (_, handle) in &survivors {
        handle.send(Signal::KILL).ok();
    }
    let born_meanwhile = scene.everybody().into_iter().filter(|found| is_new(found, &members)).count();
    match survivors.len() + born_meanwhile {
        0 => Ok(Outcome::Gone(time.as_secs_f64() * 1e3)),
        count => Ok(Outcome::Survived(count)),
    }
}

/// Everybody but the host, with handles that tell when they end.
fn handles(scene: &Scene, host: &Host) -> Result<Vec<(Found, Pidfd)>, Failure> {
    let host = host.pid()?;
    let others = scene.everybody().into_iter().filter(|found| found.stat.pid != host);
    others
        .map(|found| {
            let handle = Pidfd::open(found.stat.pid).map_err(|error| match error.raw_os_error() {
                Some(24) => "too many open files: raise the limit with `ulimit -n 4096`".to_owned(),
                _ => error.to_string(),
            })?;
            Ok((found, handle))
        })
        .collect()
}

fn is_new(found: &Found, members: &[(Found, Pidfd)]) -> bool {
    !members.iter().any(|(member, _)| member.stat.pid == found.stat.pid && member.stat.start == found.stat.start)
}
