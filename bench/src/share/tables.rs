//! What sharing adds to a message, and what the others add.

use super::ways::Place;
use crate::report::Table;
use crate::stats::{Spread, ratios};
use crate::targets::{Targets, verdict};
use crate::traffic::{MIB, Passes, Seen, Server, Way, middle};

/// How many times as long as over two relays a short message may take, alone and with [`MANY`] in flight, and how many times as
/// much of a processor then.
const MOST_LATENCY_ALONE: f64 = 1.0;
const MOST_LATENCY_OF_MANY: f64 = 1.2;
const MOST_BUSY_OF_MANY: f64 = 1.5;
/// How many short messages a second have to pass with many in flight, or which part of the direct throughput.
const LEAST_MESSAGES: f64 = 100_000.0;
const LEAST_PART: f64 = 0.4;
/// And which part of the direct throughput with long messages.
const LEAST_PART_LONG: f64 = 0.5;
/// What is short, and many.
const SHORT: usize = 200;
const MANY: usize = 256;

/// The results of one kind of traffic, by way.
#[derive(Clone, Copy)]
pub(crate) struct Costs<'a>(pub(crate) &'a Seen);

impl Costs<'_> {
    fn of(&self, way: Place) -> Option<&Passes> {
        self.0.ways.get(way as usize)
    }

    fn ratio(&self, way: Place, base: Place, of: fn(&Passes) -> &[f64]) -> Option<Spread> {
        Some(Spread::of(&ratios(of(self.of(way)?), of(self.of(base)?))))
    }

    /// How many times as long as over two relays it takes.
    fn latency(&self, way: Place) -> Option<Spread> {
        self.ratio(way, Place::Relays, |passes| &passes.p50)
    }

    /// How many times as much of a processor it takes as two relays do.
    fn busy(&self, way: Place) -> Option<Spread> {
        self.ratio(way, Place::Relays, |passes| &passes.busy)
    }

    /// How many times as long as over two relays it may take.
    fn most_latency(&self) -> Option<f64> {
        match self.0.load.in_flight {
            _ if !self.is_short() => None,
            1 => Some(MOST_LATENCY_ALONE),
            MANY => Some(MOST_LATENCY_OF_MANY),
            _ => None,
        }
    }

    /// Throughput as a part of the direct throughput.
    fn throughput(&self, way: Place) -> Option<Spread> {
        self.ratio(way, Place::Direct, |passes| &passes.messages_a_second)
    }

    fn speed(&self) -> Spread {
        self.of(Place::Share).map_or_else(Spread::default, |passes| Spread::of(&passes.messages_a_second))
    }

    fn is_short(&self) -> bool {
        self.0.load.size == SHORT
    }

    fn has_long_enough_lines(&self) -> bool {
        self.0.load.size == MIB
    }

    fn has_many(&self) -> bool {
        self.0.load.in_flight == MANY
    }

    fn passes_enough(&self) -> Option<bool> {
        let part = self.throughput(Place::Share)?.median;
        match (self.is_short() && self.has_many(), self.has_long_enough_lines()) {
            (true, _) => Some(self.speed().median >= LEAST_MESSAGES || part >= LEAST_PART),
            (_, true) => Some(part >= LEAST_PART_LONG),
            _ => None,
        }
    }
}

fn show(spread: Option<Spread>) -> String {
    spread.map_or_else(|| "-".to_owned(), |spread| spread.show(2))
}

/// How long a message takes, in units of what it takes over two relays.
pub(super) fn latency(server: &Server, all: &[Costs<'_>]) -> Table {
    let columns = ["message", "in flight", "direct", "share", "", "rmcp-mux"];
    let mut table =
        Table::new(format!("Round trips with {}, p50 / that over two bare relays", server.name), &columns);
    for seen in all {
        let share = seen.latency(Place::Share);
        let reached = share.zip(seen.most_latency()).map_or("", |(share, most)| verdict(share.median <= most));
        table.row(seen.0.name().into_iter().chain([
            show(seen.latency(Place::Direct)),
            show(share),
            reached.to_owned(),
            show(seen.latency(Place::Mux)),
        ]));
    }
    table.note(format!(
        "Median of the passes (lowest-highest), within a pass. One of 200 B alone: at most {MOST_LATENCY_ALONE}; {MANY} in flight: at most \
         {MOST_LATENCY_OF_MANY}. With many, each waits for those before it."
    ));
    table
}

/// How much passes.
pub(super) fn throughput(ways: &[Way], server: &Server, all: &[Costs<'_>]) -> Table {
    let names = ways.iter().map(|way| way.name);
    let columns = ["message", "in flight"].into_iter().chain(names).chain([
        "relays / direct",
        "share / direct",
        "",
        "rmcp-mux / direct",
    ]);
    let title = format!("Throughput with {}, messages a second", server.name);
    let mut table = Table::new(title, &columns.collect::<Vec<_>>());
    for seen in all {
        let cells = seen.0.ways.iter().map(|passes| middle(&passes.messages_a_second));
        let reached = seen.passes_enough().map_or("", verdict);
        table.row(seen.0.name().into_iter().chain(cells).chain([
            show(seen.throughput(Place::Relays)),
            show(seen.throughput(Place::Share)),
            reached.to_owned(),
            show(seen.throughput(Place::Mux)),
        ]));
    }
    table.note(format!(
        "There and back: a message of 1 MiB is 2 MiB. Ratio: median of the passes (lowest-highest). At 200 B with {MANY} in \
         flight at least {LEAST_MESSAGES} or {LEAST_PART} of direct, whichever is less; at 1 MiB at least {LEAST_PART_LONG}."
    ));
    table
}

/// What the processes on the way do for a message.
pub(super) fn busy(ways: &[Way], server: &Server, all: &[Costs<'_>]) -> Table {
    let on_the_way = Place::Relays as usize..;
    let names = ways[on_the_way.clone()].iter().map(|way| way.name);
    let columns = ["message", "in flight"].into_iter().chain(names).chain(["share / two relays"]);
    let title = format!("Processor time of what is on the way, with {}, us a message", server.name);
    let mut table = Table::new(title, &columns.collect::<Vec<_>>());
    for seen in all {
        let cells = seen.0.ways[on_the_way.clone()].iter().map(|passes| middle(&passes.busy));
        let ratio = seen.busy(Place::Share);
        table.row(seen.0.name().into_iter().chain(cells).chain([show(ratio)]));
    }
    table.note("Without host and server. Ratio: median of the passes (lowest-highest).");
    table
}

/// The worst of each kind, in words that begin with `whose`.
pub(crate) fn check(targets: &mut Targets, whose: &str, all: &[Costs<'_>]) {
    let at = |seen: &Costs<'_>| format!("{} in flight", seen.0.load.in_flight);
    for seen in all {
        let mut line = |what: &str, most: f64, ratio: Option<Spread>| {
            let Some(ratio) = ratio else { return };
            let what = format!("{whose}{what} at 200 B / two bare relays, {}", at(seen));
            targets.line(&what, &format!("<= {most:.2}"), ratio.show(2), ratio.median <= most);
        };
        if let Some(most) = seen.most_latency() {
            line("p50", most, seen.latency(Place::Share));
        }
        if seen.is_short() && seen.has_many() {
            line("processor time", MOST_BUSY_OF_MANY, seen.busy(Place::Share));
        }
    }
    for seen in all {
        let (Some(reached), Some(part)) = (seen.passes_enough(), seen.throughput(Place::Share)) else { continue };
        let what = format!("{}, {}", seen.0.load.size(), at(seen));
        if seen.is_short() {
            let value = format!("{:.0}/s, {:.2} of direct", seen.speed().median, part.median);
            let target = format!(">= {LEAST_MESSAGES}/s or {LEAST_PART:.2} of direct");
            targets.line(&format!("{whose}messages a second, {what}"), &target, value, reached);
        } else {
            targets.line(
                &format!("{whose}throughput / direct, {what}"),
                &format!(">= {LEAST_PART_LONG:.2}"),
                part.show(2),
                reached,
            );
        }
    }
}
