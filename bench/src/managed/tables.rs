//! What the managed path adds to a message, and what a bare relay adds.

use super::ways::{MANAGED, Place};
use crate::report::Table;
use crate::stats::{Spread, median, ratios};
use crate::targets::verdict;
use crate::traffic::{Amount, MIB, Passes, Seen, Server, Way, digits, middle, round_trips as on_every_way};

/// How many times what the relay adds the managed path may add, with so many in flight.
pub(super) fn most_added(in_flight: usize) -> f64 {
    if in_flight == 16 { 1.1 } else { 1.3 }
}

/// What is short.
const SHORT: usize = 200;
/// How much of the relay's throughput it has to reach, with long messages.
pub(super) const LEAST_THROUGHPUT: f64 = 0.8;

/// How many times as much one adds as the other.
pub(super) enum Ratio {
    Is(f64),
    /// The other adds less than the noise, and the one more.
    IsMoreThan(f64),
    /// Both add too little to be seen.
    Unseen,
}

impl Ratio {
    pub(super) fn show(&self) -> String {
        match self {
            Self::Is(ratio) => format!("{ratio:.2}"),
            Self::IsMoreThan(ratio) => format!("> {ratio:.2}"),
            Self::Unseen => "-".to_owned(),
        }
    }

    pub(super) fn value(&self) -> Option<f64> {
        match self {
            Self::Is(ratio) | Self::IsMoreThan(ratio) => Some(*ratio),
            Self::Unseen => None,
        }
    }
}

/// The results of one kind of traffic, by way.
#[derive(Clone, Copy)]
pub(super) struct Costs<'a>(pub(super) &'a Seen);

impl Costs<'_> {
    fn of(&self, way: Place) -> &Passes {
        &self.0.ways[way as usize]
    }

    /// Direct, in each pass; the two of them are one, so that half of the noise is gone.
    fn base(&self) -> Vec<f64> {
        let (direct, again) = (&self.of(Place::Direct).p50, &self.of(Place::Again).p50);
        direct.iter().zip(again).map(|(direct, again)| f64::midpoint(*direct, *again)).collect()
    }

    /// Microseconds that a way adds to a round trip.
    pub(super) fn added(&self, way: Place) -> Spread {
        let added: Vec<f64> = self.of(way).p50.iter().zip(self.base()).map(|(own, base)| own - base).collect();
        Spread::of(&added)
    }

    /// Microseconds between direct and direct.
    fn noise(&self) -> f64 {
        let (direct, again) = (&self.of(Place::Direct).p50, &self.of(Place::Again).p50);
        median(&direct.iter().zip(again).map(|(direct, again)| (direct - again).abs()).collect::<Vec<_>>())
    }

    /// What the managed path adds, in units of what the relay adds.
    pub(super) fn added_ratio(&self) -> Ratio {
        let (relay, managed, noise) =
            (self.added(Place::Relay).median, self.added(Place::Managed).median, self.noise());
        match managed / noise {
            _ if relay > noise => Ratio::Is(managed / relay),
            least if least > self.most_added() => Ratio::IsMoreThan(least),
            _ => Ratio::Unseen,
        }
    }

    pub(super) fn most_added(&self) -> f64 {
        most_added(self.0.load.in_flight)
    }

    pub(super) fn throughput_ratio(&self) -> Spread {
        let of = |way| &self.of(way).messages_a_second;
        Spread::of(&ratios(of(Place::Managed), of(Place::Relay)))
    }

    pub(super) fn is_short(&self) -> bool {
        self.0.load.size == SHORT
    }

    pub(super) fn is_long(&self) -> bool {
        self.0.load.size >= MIB
    }
}

/// Round trips on every way.
pub(super) fn round_trips(ways: &[Way], server: &Server, all: &[Seen], amount: &Amount) -> Table {
    let mut table = on_every_way(ways, server, all);
    table.note(format!(
        "Medians of {} passes, each with new processes, in which the ways take turns. `nostray run` is not on the way; \
         `managed` is `nostray {}`. Every answer was counted, and its number and length compared.",
        amount.passes,
        MANAGED.join(" "),
    ));
    table
}

/// What relay and managed path add.
pub(super) fn added(server: &Server, all: &[Seen]) -> Table {
    let columns = ["message", "in flight", "relay adds", "managed adds", "ratio", "noise", ""];
    let mut table = Table::new(format!("Added to a round trip with {}, p50, us", server.name), &columns);
    for seen in all.iter().map(Costs) {
        let (relay, managed) = (seen.added(Place::Relay), seen.added(Place::Managed));
        let ratio = seen.added_ratio();
        let reached = ratio.value().map_or("in the noise", |ratio| verdict(ratio <= seen.most_added()));
        let most = relay.median.abs().max(managed.median.abs());
        let show = |spread: Spread| spread.show(digits(most));
        let noise = format!("{:.*}", digits(most), seen.noise());
        table.row(seen.0.name().into_iter().chain([
            show(relay),
            show(managed),
            ratio.show(),
            noise,
            reached.to_owned(),
        ]));
    }
    table.note(format!(
        "Against direct in the same pass; median (lowest-highest). Ratio: of the medians, at most {}, and {} with 16 in flight. \
         Noise: how far direct is from direct; where the relay adds less than that, the ratio is known only if managed adds more. With \
         many in flight, a message waits for those before it, and what is added is time of a processor.",
        most_added(1),
        most_added(16)
    ));
    table
}

/// How much passes.
pub(super) fn throughput(server: &Server, all: &[Seen]) -> Table {
    let columns = ["message", "in flight", "direct", "nostray run", "bare relay", "managed", "managed / relay", ""];
    let mut table = Table::new(format!("Throughput with {}, messages a second", server.name), &columns);
    for seen in all.iter().map(Costs) {
        let cell = |way| middle(&seen.of(way).messages_a_second);
        let ratio = seen.throughput_ratio();
        let reached = if seen.is_long() { verdict(ratio.median >= LEAST_THROUGHPUT) } else { "" };
        let cells = [Place::Direct, Place::Run, Place::Relay, Place::Managed].map(cell);
        table.row(seen.0.name().into_iter().chain(cells).chain([ratio.show(2), reached.to_owned()]));
    }
    table.note(format!(
        "There and back: a message of 1 MiB is 2 MiB. Ratio: median of the passes (lowest-highest); at 1 MiB at least \
         {LEAST_THROUGHPUT}."
    ));
    table
}

/// What the processes on the way do for a message.
pub(super) fn busy(server: &Server, all: &[Seen]) -> Table {
    let columns = ["message", "in flight", "nostray run", "bare relay", "managed", "managed / relay"];
    let title = format!("Processor time of what is on the way, with {}, us a message", server.name);
    let mut table = Table::new(title, &columns);
    for seen in all.iter().map(Costs) {
        let cell = |way| middle(&seen.of(way).busy);
        let ratio = Spread::of(&ratios(&seen.of(Place::Managed).busy, &seen.of(Place::Relay).busy));
        let cells = [Place::Run, Place::Relay, Place::Managed].map(cell);
        table.row(seen.0.name().into_iter().chain(cells).chain([ratio.show(2)]));
    }
    table.note("Without host and server. Ratio: median of the passes (lowest-highest).");
    table
}
