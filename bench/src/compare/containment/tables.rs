//! What the cases came to, for a reader.

use super::case::{Descendant, Ending, Manner, Tree};
use super::play::{LOOKS, Left};
use super::tally::Tally;
use super::worse::show;
use crate::chart::{Chart, Grid, Mark, Row};
use crate::report::Table;

const LAST: usize = LOOKS.len() - 1;

pub(super) fn chart(tally: &Tally) -> Chart {
    let mark = |who, ending| {
        let trees = tally.trees(who, ending, LAST, Left::of_tree);
        let text = format!("{trees}/{}", Tree::COUNT);
        match tally.trees(who, ending, LAST, |left| left.wrapper) {
            _ if trees > 0 => Mark::Bad(text),
            0 => Mark::Good(text),
            _ => Mark::Middling(text),
        }
    };
    let row = |(who, contender): (usize, super::tally::Name)| Row {
        label: contender.name.to_owned(),
        marks: Ending::ALL.map(|ending| mark(who, ending)).into(),
        ours: contender.ours,
    };
    let grid = Grid {
        title: format!("Trees of {} of which something is left after {} s", Tree::COUNT, LOOKS[LAST]),
        columns: Ending::ALL.map(|ending| ending.name().to_owned()).into(),
        rows: tally.each().map(row).collect(),
        legend: ["nothing is left", "the wrapper is left, its tree is not", "something of the tree is left"],
    };
    grid.chart("containment.svg")
}

pub(super) fn all(tally: &Tally) -> Vec<Table> {
    vec![over_time(tally), who_is_left(tally), by_descendant(tally)]
}

fn by_ending(title: String, tally: &Tally, cell: impl Fn(usize, Ending) -> String) -> Table {
    let columns: Vec<&str> = std::iter::once("").chain(Ending::ALL.map(Ending::name)).collect();
    let mut table = Table::new(title, &columns);
    for (who, contender) in tally.each() {
        table.row(std::iter::once(contender.name.to_owned()).chain(Ending::ALL.map(|ending| cell(who, ending))));
    }
    table
}

fn over_time(tally: &Tally) -> Table {
    let seconds = LOOKS.map(|second| second.to_string()).join("/");
    let title = format!("Trees (of {}) of which something is left after {seconds} s", Tree::COUNT);
    let mut table = by_ending(title, tally, |who, ending| show(&tally.counts(who, ending)));
    table.note(
        "The wrapper is the process that the host has started; with nothing, that is the server, and with setpriv, \
         too, which becomes it. Pipe held: another child of the host, which is not to be ended, holds the write end \
         of the server's stdin, as happens to hosts that start many servers.",
    );
    table.note(
        "As people use them, with their defaults: `tini -s`, since it is not the first process; `setpriv --pdeathsig` with the signal named; \
         `bwrap --die-with-parent`, the second with `--unshare-pid`; `supervisord -n` with one program; `pm2-runtime start`; `mcp-proxy \
         --port`; `supergateway --stdio ... --port`. The last four do not read their stdin as the server's, and only supergateway ends with it. \
         rmcp-mux is a daemon that was there before the host, which starts rmcp-mux-proxy: that the server outlives every \
         client is what it is for.",
    );
    table.note(
        "nostray with its default graces: 2 s from the end of input to SIGTERM, 5 s from there to SIGKILL. If a \
         process of the tree ignores both, something is left after 1 s, and until 5 s or 7 s. `nostray share` with \
         `--linger 0s`: its default keeps a server for 10 s after its last client, which is added to that.",
    );
    table
}

fn who_is_left(tally: &Tally) -> Table {
    let title = format!(
        "Who is left after {} s: the server/its descendant/the wrapper, in so many trees of {}",
        LOOKS[LAST],
        Tree::COUNT
    );
    let parts: [fn(Left) -> bool; 3] = [|left| left.server, |left| left.descendant, |left| left.wrapper];
    let mut table =
        by_ending(title, tally, |who, ending| show(&parts.map(|is_left| tally.trees(who, ending, LAST, is_left))));
    table.note("The wrapper: any process of its own, its daemons and nostray's broker among them.");
    table
}

fn by_descendant(tally: &Tally) -> Table {
    let title = format!(
        "Endings (of {}) after which something is left for {} s, with a cooperative/a stubborn server",
        Ending::ALL.len(),
        LOOKS[LAST]
    );
    let columns: Vec<&str> =
        std::iter::once("its descendant:").chain(Descendant::ALL.map(Descendant::word)).collect();
    let mut table = Table::new(title, &columns);
    for (who, contender) in tally.each() {
        let cell = |descendant| {
            Manner::ALL.map(|manner| tally.endings(who, Tree { manner, descendant }).to_string()).join("/")
        };
        table.row(std::iter::once(contender.name.to_owned()).chain(Descendant::ALL.map(cell)));
    }
    table.note(
        "Cooperative: ends with its input, and by SIGTERM. Stubborn: ignores both. setsid: in a session of its own. daemon: forked twice, \
         with a session of its own, and its parent has ended.",
    );
    table
}
