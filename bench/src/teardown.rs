//! How long a tree outlives its host: from the host's SIGKILL to the end of the last process.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use badchild::{Found, Scene};
use nostray_sys::poll::{Until, wait};
use nostray_sys::{Pidfd, Signal};

use crate::Failure;
use crate::host::Host;
use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{median, percentile};
use crate::traffic::watch;
use crate::variants::Variant;

/// The graces that stubborn trees are given, together.
pub(crate) const GRACES: Duration = Duration::from_millis(200);
const GRACE_OPTIONS: [&str; 4] = ["--eof-grace", "100ms", "--term-grace", "100ms"];
/// What is there after this, stays.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is not tried at the same time as another one.
const LARGE: usize = 100;

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

/// What became of all trees.
pub(crate) struct Times(Vec<Seen>);

/// One variant with one kind of tree.
pub(crate) struct Seen {
    pub(crate) tree: Tree,
    pub(crate) variant: &'static str,
    pub(crate) is_nostray: bool,
    pub(crate) outcomes: Outcomes,
}

impl Times {
    /// nostray's median for one kind of tree, in milliseconds from the host's death; none if one of them survived.
    pub(crate) fn median(&self, tree: Tree) -> Option<f64> {
        let seen = self.0.iter().find(|seen| seen.is_nostray && seen.tree == tree)?;
        seen.outcomes.times().map(median)
    }

    pub(crate) fn trees(&self) -> impl Iterator<Item = Tree> {
        let mut trees: Vec<Tree> = self.0.iter().map(|seen| seen.tree).collect();
        trees.dedup();
        trees.into_iter()
    }

    pub(crate) fn all(&self) -> &[Seen] {
        &self.0
    }
}

/// How many survivors of which trees each variant leaves; one try each, all variants at once, so that survivors are
/// waited for together.
pub(crate) struct Survivors(Vec<(&'static str, Tree, usize)>);

impl Survivors {
    /// Nothing is known of any variant.
    pub(crate) fn unknown() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn find(variants: &[Variant], programs: &Programs, sizes: &[usize]) -> Result<Self, Failure> {
        let trees =
            || [false, true].into_iter().flat_map(|stubborn| sizes.iter().map(move |&size| Tree { size, stubborn }));
        // A handle for each process of one large tree after the other: together they are more than a process may have.
        let large = Mutex::new(());
        let of = |variant: &Variant| {
            let mut survivors = Vec::new();
            for tree in trees() {
                let _alone = (tree.size >= LARGE).then(|| large.lock());
                if let Outcome::Survived(count) = one(variant, programs, tree)? {
                    survivors.push((variant.name, tree, count));
                }
            }
            Ok::<_, Failure>(survivors)
        };
        let all: Result<Vec<_>, Failure> = std::thread::scope(|scope| {
            let threads: Vec<_> = variants.iter().map(|variant| scope.spawn(move || of(variant))).collect();
            threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread failed")?).collect()
        });
        Ok(Self(all?.concat()))
    }

    fn of(&self, variant: &Variant, tree: Tree) -> Option<usize> {
        let (.., count) = self.0.iter().find(|(name, of, _)| *name == variant.name && *of == tree)?;
        Some(*count)
    }
}

/// Measures all variants with all trees. `runs` says how often for a size; a variant that leaves survivors, or is known to, is not asked
/// again.
pub(crate) fn measure(
    variants: &[Variant],
    programs: &Programs,
    sizes: &[usize],
    runs: fn(usize) -> usize,
    known: &Survivors,
) -> Result<(Vec<Table>, Times), Failure> {
    let mut tables = Vec::new();
    let mut times = Times(Vec::new());
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
            let known: Vec<Option<usize>> = variants.iter().map(|variant| known.of(variant, tree)).collect();
            let outcomes = one_kind(variants, programs, tree, runs(size), &known)?;
            for ((variant, row), outcomes) in variants.iter().zip(&mut rows).zip(outcomes) {
                row.push(cell(variant, tree, &outcomes));
                times.0.push(Seen { tree, variant: variant.name, is_nostray: variant.is_nostray(), outcomes });
            }
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
    Ok((tables, times))
}

/// All runs of one variant with one kind of tree.
pub(crate) enum Outcomes {
    /// All of it ended, after so many milliseconds.
    Gone(Vec<f64>),
    /// So many processes stayed, once.
    Survived(usize),
}

impl Outcomes {
    pub(crate) fn times(&self) -> Option<&[f64]> {
        match self {
            Self::Gone(times) => Some(times),
            Self::Survived(_) => None,
        }
    }
}

fn one_kind(
    variants: &[Variant],
    programs: &Programs,
    tree: Tree,
    runs: usize,
    known: &[Option<usize>],
) -> Result<Vec<Outcomes>, Failure> {
    let outcomes = |known: &Option<usize>| known.map_or_else(|| Outcomes::Gone(Vec::new()), Outcomes::Survived);
    let mut all: Vec<Outcomes> = known.iter().map(outcomes).collect();
    for run in 0..runs {
        for (variant, outcomes) in variants.iter().zip(&mut all) {
            let Outcomes::Gone(times) = outcomes else { continue };
            let manner = if tree.stubborn { "stubborn" } else { "cooperative" };
            let (name, size) = (variant.name, tree.size);
            watch::doing(format!("{manner} trees of {size}: run {} of {runs}, {name}", run + 1));
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
    // Wait for one after the other: when the last wait returns, all have ended. A poll over a thousand of them would
    // look at each for every process that ends.
    for (_, handle) in &members {
        let left = (start + PATIENCE).saturating_duration_since(Instant::now());
        wait(&[(handle.as_fd(), Until::Readable)], Some(left))?;
    }
    let time = start.elapsed();
    let survivors: Vec<_> = members.iter().filter(|(_, handle)| !handle.has_ended().unwrap_or(true)).collect();
    for (_, handle) in &survivors {
        handle.send(Signal::KILL).ok();
    }
    let born_meanwhile = scene.processes().into_iter().filter(|found| is_new(found, &members)).count();
    match survivors.len() + born_meanwhile {
        0 => Ok(Outcome::Gone(time.as_secs_f64() * 1e3)),
        count => Ok(Outcome::Survived(count)),
    }
}

/// All processes of the scene but the host, with handles that tell when they end.
fn handles(scene: &Scene, host: &Host) -> Result<Vec<(Found, Pidfd)>, Failure> {
    let host = host.pid()?;
    let others = scene.processes().into_iter().filter(|found| found.stat.pid != host);
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
