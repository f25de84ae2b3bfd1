//! What a way costs a message: round trips and throughput of every kind of traffic on every way, the ways taking turns.

use super::busy::Busy;
use super::load::{Load, Turn};
use super::session::{Server, Session};
use super::watch;
use super::ways::{COUNT, MANAGED, Way};
use crate::Failure;
use crate::programs::Programs;
use crate::report::Table;
use crate::stats::{Spread, median, percentile, ratios};
use crate::targets::verdict;
use crate::variants::Variant;

/// How many times what the relay adds the managed path may add.
pub(super) const MOST_ADDED: f64 = 1.3;
/// How much of the relay's throughput it has to reach, with long messages.
pub(super) const LEAST_THROUGHPUT: f64 = 0.8;
/// What is long.
const LONG: usize = 1 << 20;

/// How much of it.
pub(crate) struct Amount {
    /// Each with new processes: where the kernel happens to put them matters.
    pub(crate) passes: usize,
    /// In each pass, of each load on each way.
    pub(crate) turns: usize,
    /// Calls before anything is measured; an interpreter needs some to become what it will be.
    pub(crate) warm_up: usize,
}

/// A value for each pass.
#[derive(Default)]
struct Passes {
    p50: Vec<f64>,
    p99: Vec<f64>,
    messages_a_second: Vec<f64>,
    /// Microseconds of processor time for each message.
    busy: Vec<f64>,
}

/// A turn, and what the way itself did in it.
struct Borne {
    turn: Turn,
    busy: f64,
}

impl Passes {
    fn add(&mut self, turns: &[Borne]) {
        let times: Vec<f64> = turns.iter().flat_map(|borne| borne.turn.times.iter().copied()).collect();
        let speeds: Vec<f64> = turns.iter().map(|borne| borne.turn.messages_a_second).collect();
        let busy: Vec<f64> = turns.iter().map(|borne| borne.busy).collect();
        self.p50.push(median(&times));
        self.p99.push(percentile(&times, 0.99));
        self.messages_a_second.push(median(&speeds));
        self.busy.push(median(&busy));
    }
}

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

/// What one kind of traffic came to, on every way.
pub(super) struct Seen {
    pub(super) load: Load,
    ways: [Passes; COUNT],
}

impl Seen {
    fn of(&self, way: Way) -> &Passes {
        &self.ways[way as usize]
    }

    /// Direct, in each pass; the two of them are one, so that half of the noise is gone.
    fn base(&self) -> Vec<f64> {
        let (direct, again) = (&self.of(Way::Direct).p50, &self.of(Way::Again).p50);
        direct.iter().zip(again).map(|(direct, again)| f64::midpoint(*direct, *again)).collect()
    }

    /// Microseconds that a way adds to a round trip.
    pub(super) fn added(&self, way: Way) -> Spread {
        let added: Vec<f64> = self.of(way).p50.iter().zip(self.base()).map(|(own, base)| own - base).collect();
        Spread::of(&added)
    }

    /// Microseconds between direct and direct.
    fn noise(&self) -> f64 {
        let (direct, again) = (&self.of(Way::Direct).p50, &self.of(Way::Again).p50);
        median(&direct.iter().zip(again).map(|(direct, again)| (direct - again).abs()).collect::<Vec<_>>())
    }

    /// What the managed path adds, in units of what the relay adds.
    pub(super) fn added_ratio(&self) -> Ratio {
        let (relay, managed, noise) = (self.added(Way::Relay).median, self.added(Way::Managed).median, self.noise());
        match managed / noise {
            _ if relay > noise => Ratio::Is(managed / relay),
            least if least > MOST_ADDED => Ratio::IsMoreThan(least),
            _ => Ratio::Unseen,
        }
    }

    pub(super) fn throughput_ratio(&self) -> Spread {
        let of = |way| &self.of(way).messages_a_second;
        Spread::of(&ratios(of(Way::Managed), of(Way::Relay)))
    }

    pub(super) fn is_long(&self) -> bool {
        self.load.size >= LONG
    }

    fn name(&self) -> [String; 2] {
        [self.load.size(), self.load.in_flight.to_string()]
    }
}

/// Sends all loads over all ways.
pub(super) fn measure(
    ways: &[Variant; COUNT],
    server: &Server,
    programs: &Programs,
    loads: &[Load],
    amount: &Amount,
) -> Result<Vec<Seen>, Failure> {
    let mut all: Vec<Seen> = loads.iter().map(|&load| Seen { load, ways: Default::default() }).collect();
    for pass in 0..amount.passes {
        let doing =
            |what: &str| watch::doing(format!("{}: pass {} of {}, {what}", server.name, pass + 1, amount.passes));
        doing("starts");
        let mut sessions = ways.iter().map(|way| Session::open(way, server)).collect::<Result<Vec<_>, _>>()?;
        for session in &mut sessions {
            session.bear(&Load { messages: amount.warm_up, ..loads[0] })?;
        }
        let on_the_way: Vec<Busy> =
            sessions.iter().zip(ways).map(|(session, way)| Busy::of(session, programs, way)).collect();
        for seen in &mut all {
            let mut turns: [Vec<Borne>; COUNT] = Default::default();
            for turn in 0..amount.turns {
                for offset in 0..COUNT {
                    let at = (turn + pass + offset) % COUNT;
                    doing(&format!("{}, {} in flight, {}", seen.load.size(), seen.load.in_flight, ways[at].name));
                    let before = on_the_way[at].microseconds()?;
                    let turn = sessions[at].bear(&seen.load)?;
                    let busy = (on_the_way[at].microseconds()? - before) / seen.load.messages as f64;
                    turns[at].push(Borne { turn, busy });
                }
            }
            for (passes, turns) in seen.ways.iter_mut().zip(&turns) {
                passes.add(turns);
            }
        }
    }
    Ok(all)
}

/// Round trips on every way.
pub(super) fn round_trips(ways: &[Variant; COUNT], server: &Server, all: &[Seen], amount: &Amount) -> Table {
    let title = format!("Round trips with {}: p50 / p99, us", server.name);
    let names = ways.iter().map(|way| way.name);
    let mut table = Table::new(title, &["message", "in flight"].into_iter().chain(names).collect::<Vec<_>>());
    for seen in all {
        let cell = |passes: &Passes| {
            let (p50, p99) = (median(&passes.p50), median(&passes.p99));
            format!("{p50:.*} / {p99:.*}", digits(p50), digits(p99))
        };
        table.row(seen.name().into_iter().chain(seen.ways.iter().map(cell)));
    }
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
    for seen in all {
        let (relay, managed) = (seen.added(Way::Relay), seen.added(Way::Managed));
        let ratio = seen.added_ratio();
        let reached = ratio.value().map_or("in the noise", |ratio| verdict(ratio <= MOST_ADDED));
        let most = relay.median.abs().max(managed.median.abs());
        let show = |spread: Spread| spread.show(digits(most));
        let noise = format!("{:.*}", digits(most), seen.noise());
        table.row(seen.name().into_iter().chain([
            show(relay),
            show(managed),
            ratio.show(),
            noise,
            reached.to_owned(),
        ]));
    }
    table.note(format!(
        "Against direct in the same pass; median (lowest-highest). Ratio: of the medians, at most {MOST_ADDED}. Noise: how \
         far direct is from direct; where the relay adds less than that, the ratio is known only if managed adds more. With \
         many in flight, a message waits for those before it, and what is added is time of a processor."
    ));
    table
}

/// How much passes.
pub(super) fn throughput(server: &Server, all: &[Seen]) -> Table {
    let columns = ["message", "in flight", "direct", "nostray run", "bare relay", "managed", "managed / relay", ""];
    let mut table = Table::new(format!("Throughput with {}, messages a second", server.name), &columns);
    for seen in all {
        let cell = |way| {
            let speed = median(&seen.of(way).messages_a_second);
            format!("{speed:.*}", digits(speed))
        };
        let ratio = seen.throughput_ratio();
        let reached = if seen.is_long() { verdict(ratio.median >= LEAST_THROUGHPUT) } else { "" };
        let cells = [Way::Direct, Way::Run, Way::Relay, Way::Managed].map(cell);
        table.row(seen.name().into_iter().chain(cells).chain([ratio.show(2), reached.to_owned()]));
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
    for seen in all {
        let cell = |way| {
            let time = median(&seen.of(way).busy);
            format!("{time:.*}", digits(time))
        };
        let ratio = Spread::of(&ratios(&seen.of(Way::Managed).busy, &seen.of(Way::Relay).busy));
        let cells = [Way::Run, Way::Relay, Way::Managed].map(cell);
        table.row(seen.name().into_iter().chain(cells).chain([ratio.show(2)]));
    }
    table.note("Without host and server. Ratio: median of the passes (lowest-highest).");
    table
}

/// As many as say something.
fn digits(value: f64) -> usize {
    match value.abs() {
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    }
}
