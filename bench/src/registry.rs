//! What knowing costs: `nostray ps` and `nostray sweep` against `ps -e`, with many other processes on the machine and with
//! many pens on record, in the same run and taking turns.

use crate::Failure;
use crate::looks::{Look, Looks};
use crate::pens::{Crowd, Pens};
use crate::programs::Programs;
use crate::report::Table;
use crate::screen;
use crate::targets::verdict;

/// Options of `registry`.
pub(crate) struct Options {
    pub(crate) quick: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let programs = Programs::build()?;
    let rounds = if options.quick { 5 } else { 15 };
    let others: &[usize] = if options.quick { &[100, 1000] } else { &[100, 1000, 5000] };
    let pens: &[usize] = if options.quick { &[1, 100] } else { &[1, 100, 1000] };

    let mut table =
        Table::new("Other processes on the machine, 1 pen", &["processes", "what", "ms", "ratio to ps -e"]);
    let mut targets = Vec::new();
    for &count in others {
        let crowd = Crowd::start(&programs, count)?;
        let pen = Pens::start(&programs, 1)?;
        let looks = Looks::take(&programs, &pen.scene, rounds)?;
        add(&mut table, count, &looks);
        if count == 5000 {
            let ratio = looks.ratio(Look::SweepOfOneDead).median;
            targets.push(format!(
                "{}: scan of a sweep at 5,000 processes is {ratio:.2} of ps -e (0.30)",
                verdict(ratio <= 0.3)
            ));
        }
        drop((crowd, pen));
    }
    screen::print(table.text());

    let mut table = Table::new("Pens on record", &["pens", "what", "ms", "ratio to ps -e"]);
    for &count in pens {
        let pens = Pens::start(&programs, count)?;
        let crowd = if count == 100 { Some(Crowd::start(&programs, 500)?) } else { None };
        let looks = Looks::take(&programs, &pens.scene, rounds)?;
        add(&mut table, count, &looks);
        if count == 100 {
            let ratio = looks.ratio(Look::Ps).median;
            targets.push(format!(
                "{}: ps of 100 pens at 1,000 processes is {ratio:.2} of ps -e (1.00)",
                verdict(ratio <= 1.0)
            ));
        }
        drop((crowd, pens));
    }
    screen::print(table.text());
    for target in targets {
        screen::print(&target);
    }
    Ok(())
}

fn add(table: &mut Table, count: usize, looks: &Looks) {
    for look in Look::ALL {
        let cells = [looks.spread(look).show(2), looks.ratio(look).show(2)];
        table.row([count.to_string(), look.name().to_owned()].into_iter().chain(cells));
    }
}
