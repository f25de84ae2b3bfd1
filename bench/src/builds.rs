//! `builds`: two builds of nostray against each other, taking turns in one run: the one that is built here, and another one, like the static
//! program of the packages.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::managed::ways::managed;
use crate::programs::{Programs, until_none_runs};
use crate::report::{Report, Table};
use crate::share::ways::share;
use crate::stats::{Spread, ratios};
use crate::targets::verdict;
use crate::traffic::{Amount, Limits, Way, dense_loads, measure, native, native_loads, watch};
use crate::variants::{direct, nostray_run};
use crate::{Failure, args, memory, screen, start};

/// No row of the other build may be more than so many times that of this one.
const LIMIT: f64 = 1.1;

pub(crate) fn run(options: &args::Builds) -> Result<ExitCode, Failure> {
    screen::progress("building");
    let here = Programs::build()?;
    let other = Programs { nostray: existing(&options.other)?, badchild: here.badchild.clone() };
    watch::begin();
    let mut report = Report::new("Two builds of nostray, measured");
    let mut rows = Rows::new(&options.other);

    let starts = if options.quick { (5, 40) } else { (15, 100) };
    let variants = [direct(), nostray_run(&here), nostray_run(&other)];
    let (table, added) = start::measure(&variants, starts.0, starts.1)?;
    report.add(&table);
    rows.add("start above direct, ms", 2, added[1], added[2], added[2].median / added[1].median);
    let variants = [nostray_run(&here), nostray_run(&other)];
    let (_, sizes) = memory::measure(&variants, &here, if options.quick { 3 } else { 9 })?;
    rows.add("memory around an idle child, KiB", 0, sizes[0].1, sizes[1].1, sizes[1].1.median / sizes[0].1.median);

    let (echo, passes) = (native(0)?, if options.quick { 5 } else { 9 });
    // Long messages full of structure take seconds each turn, and a processor time a message needs no more than this.
    let limits = Limits {
        sending: Duration::from_millis(400),
        silence: Duration::from_secs(10),
        all: Duration::from_secs(15),
    };
    let amount = |turns| Amount { passes, turns, warm_up: 200, limits: Some(limits) };
    let (short, long): (Vec<_>, Vec<_>) =
        [native_loads(), dense_loads()].concat().into_iter().partition(|load| load.size < 1 << 10);
    let share = |programs| share(programs, &[]);
    for (name, variants) in
        [("run --respawn", [managed(&here), managed(&other)]), ("share", [share(&here), share(&other)])]
    {
        let ways = variants.map(Way::through);
        // Short messages are so soon answered that one turn is too short for the kernel's clock of processor time.
        let short = measure(&ways, &echo, &short, &amount(10))?;
        for seen in short.into_iter().chain(measure(&ways, &echo, &long, &amount(1))?) {
            let [mine, theirs] = [&seen.ways[0], &seen.ways[1]];
            let [size, in_flight] = seen.name();
            let ratio = Spread::of(&ratios(&theirs.busy, &mine.busy)).median;
            let what = format!("{name}: {size}, {in_flight} in flight, processor time of a message, us");
            rows.add(&what, 1, Spread::of(&mine.busy), Spread::of(&theirs.busy), ratio);
        }
    }
    report.add(&rows.table);
    until_none_runs(&here.nostray)?;
    until_none_runs(&other.nostray)?;
    Ok(if rows.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn existing(path: &Path) -> Result<PathBuf, Failure> {
    Ok(path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?)
}

struct Rows {
    table: Table,
    missed: bool,
}

impl Rows {
    fn new(other: &Path) -> Self {
        let title = format!("{} against the nostray that is built here", other.display());
        let mut table = Table::new(title, &["", "here", "other", "ratio", ""]);
        table.note(format!(
            "Medians of several passes (lowest-highest), in which the two take turns; the ratio is that of the same pass where there is \
             one. At most {LIMIT} is reached."
        ));
        Self { table, missed: false }
    }

    fn add(&mut self, what: &str, digits: usize, here: Spread, other: Spread, ratio: f64) {
        let reached = ratio <= LIMIT;
        self.missed |= !reached;
        let cells = [what.to_owned(), here.show(digits), other.show(digits), format!("{ratio:.2}")];
        self.table.row(cells.into_iter().chain([verdict(reached).to_owned()]));
    }
}
