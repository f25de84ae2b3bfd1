//! What was measured, for people: a row for each way, a column for each kind of traffic.

use super::ways::{Found, Who};
use crate::report::Table;
use crate::stats::{Spread, median, ratios};
use crate::traffic::{End, Passes, Seen, middle};

/// Like `1.02 (0.98-1.07)`: how many times as much as another in the same pass.
fn ratio(own: &[f64], base: Option<&[f64]>) -> String {
    match base {
        Some(base) if !own.is_empty() => Spread::of(&ratios(own, base)).show(2),
        _ => "-".to_owned(),
    }
}

/// Microseconds, in the unit that says it shortest.
pub(super) fn time(us: f64) -> String {
    let (value, unit) = match us {
        short if short < 1e3 => (short, "us"),
        medium if medium < 1e6 => (medium / 1e3, "ms"),
        long => (long / 1e6, "s"),
    };
    let digits = if value < 10.0 { 1 } else { 0 };
    format!("{value:.digits$} {unit}")
}

pub(super) fn load(seen: &Seen) -> String {
    format!("{}, {}", seen.load.size(), seen.load.in_flight)
}

/// A table with one column more for a ratio.
fn table(
    found: &Found<'_>,
    title: String,
    cell: impl Fn(&Passes) -> String,
    last: (&str, impl Fn(usize) -> String),
) -> Table {
    let columns: Vec<String> = found.seen.iter().map(load).collect();
    let columns: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).chain([last.0]).collect();
    let mut table = Table::new(title, &columns);
    for (at, name) in found.names.iter().enumerate() {
        let cells = found.seen.iter().map(|seen| match &seen.ways[at].end {
            Some(End::Failed(_)) => "fails".to_owned(),
            Some(End::Slow(_)) => cell(&seen.ways[at]) + " (cut)",
            None => cell(&seen.ways[at]),
        });
        table.row(std::iter::once((*name).to_owned()).chain(cells).chain([last.1(at)]));
    }
    table
}

/// One short message at a time, on one processor: what the way itself takes.
pub(super) fn together(found: &Found<'_>) -> Option<Table> {
    let seen = found.alone()?;
    let title = format!("One message of 200 B at a time with {}, all on one processor", found.server);
    let columns = ["", "p50", "p99", "p50 / direct", "processor time on the way, us"];
    let mut table = Table::new(title, &columns);
    let direct = found.of(seen, Who::Direct).map(|passes| &passes.p50[..]);
    for (name, _, passes) in found.each(seen) {
        let cells = match passes.end {
            Some(End::Failed(_)) => ["fails", "-", "-", "-"].map(str::to_owned),
            _ => [
                time(median(&passes.p50)),
                time(median(&passes.p99)),
                ratio(&passes.p50, direct),
                middle(&passes.busy),
            ],
        };
        table.row(std::iter::once(name.to_owned()).chain(cells));
    }
    table.note(
        "Host, server and all processes between them share one processor, so that none has to be woken on another \
         one. Such a wake-up may take longer than all the rest, and hits some ways and not others. The last column \
         but one within a pass (lowest-highest).",
    );
    Some(table)
}

/// All of one server.
pub(super) fn all(found: &Found<'_>, passes: usize) -> Vec<Table> {
    let mut all = vec![round_trips(found), throughput(found), busy(found)];
    let medians = match passes {
        1 => "One pass".to_owned(),
        several => format!("Medians of {several} passes, each with new processes"),
    };
    all[0].note(format!(
        "Columns: how long a request is, and how many are on the way at once. {medians}; the last column within a pass (lowest-highest), and \
         `direct, again` in it is the noise of this machine. With many on the way, each waits for those before it."
    ));
    all[1].note("There and back: a message of 1 MiB is 2 MiB.");
    all[2].note(
        "Of all processes but host and server. `nostray run` costs nothing here: it hands over the pipes themselves.",
    );
    let notes = failures(found);
    notes.into_iter().for_each(|note| all[0].note(note));
    all
}

fn round_trips(found: &Found<'_>) -> Table {
    let cell = |passes: &Passes| format!("{} / {}", time(median(&passes.p50)), time(median(&passes.p99)));
    let last = |at: usize| {
        let alone = found.alone();
        let direct = alone.and_then(|seen| found.of(seen, Who::Direct)).map(|passes| &passes.p50[..]);
        alone.map_or_else(String::new, |seen| ratio(&seen.ways[at].p50, direct))
    };
    let title = format!("Round trips with {}: p50 / p99", found.server);
    table(found, title, cell, ("200 B, 1: p50 / direct", last))
}

fn throughput(found: &Found<'_>) -> Table {
    let last = |at: usize| {
        let crowd = found.crowd();
        let direct = crowd.and_then(|seen| found.of(seen, Who::Direct)).map(|passes| &passes.messages_a_second[..]);
        crowd.map_or_else(String::new, |seen| ratio(&seen.ways[at].messages_a_second, direct))
    };
    let name = found.crowd().map_or_else(String::new, |seen| format!("{} / direct", load(seen)));
    let title = format!("Throughput with {}, messages a second", found.server);
    table(found, title, |passes| middle(&passes.messages_a_second), (&name, last))
}

fn busy(found: &Found<'_>) -> Table {
    let last = |at: usize| {
        let alone = found.alone();
        let relay = alone.and_then(|seen| found.of(seen, Who::Relay)).map(|passes| &passes.busy[..]);
        alone.map_or_else(String::new, |seen| ratio(&seen.ways[at].busy, relay))
    };
    let cell = |passes: &Passes| match Spread::of(&passes.busy) {
        _ if passes.busy.is_empty() => "-".to_owned(),
        // No process is on the way, or all of them sleep.
        all if all.high == 0.0 => "0".to_owned(),
        _ => middle(&passes.busy),
    };
    let title = format!("Processor time of what is on the way, with {}, us a message", found.server);
    table(found, title, cell, ("200 B, 1 / bare relay", last))
}

/// A line for each way and reason, and one about what was cut short.
fn failures(found: &Found<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for (at, name) in found.names.iter().enumerate() {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for seen in found.seen {
            let Some(why) = seen.ways[at].why_it_failed().map(reason) else { continue };
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, loads)) => loads.push(load(seen)),
                None => reasons.push((why, vec![load(seen)])),
            }
        }
        let line = |(why, loads): (String, Vec<String>)| format!("{name} fails at {}: {why}.", loads.join("; "));
        notes.extend(reasons.into_iter().map(line));
    }
    let left = |passes: &Passes| match passes.end {
        Some(End::Slow(left)) => Some(left),
        _ => None,
    };
    if let Some(most) = found.seen.iter().flat_map(|seen| &seen.ways).filter_map(left).max() {
        notes.push(format!(
            "Cut: given up before all were answered (of up to {most} the answer was not waited for), and not tried again; what is said is of those \
             that came."
        ));
    }
    notes
}

/// The first line of what was said, without who said it, without the number of the request, and without a page of HTML.
fn reason(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default();
    let line = line.split_once(": ").map_or(line, |(_, said)| said);
    let line = line.split_once("\"message\":\"").map_or(line, |(_, message)| message);
    let end = line.find(['<', '"']).unwrap_or(line.len());
    let line = line[..end].trim_end_matches([' ', ':', '\\', '.']);
    line.replace("HTTP 413:", "HTTP 413, too large for it:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_the_unit_that_is_shortest() {
        assert_eq!(
            [9.34, 25.0, 1234.0, 45_600.0, 11_344_484.0].map(time),
            ["9.3 us", "25 us", "1.2 ms", "46 ms", "11 s"]
        );
    }

    #[test]
    fn a_person_can_read_the_reason() {
        let refused = "supergateway with echo: the server refuses: {\"id\":1000017,\"error\":{\"message\":\"HTTP 413: POST: <!DOCTYPE";
        assert_eq!(reason(refused), "HTTP 413, too large for it: POST");
        assert_eq!(reason("x with y: no answer for 5 s\n  Traceback"), "no answer for 5 s");
    }
}
