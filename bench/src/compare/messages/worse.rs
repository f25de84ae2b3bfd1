//! What nostray is slower or heavier at, in sentences with their numbers.

use super::tables::{load, time};
use super::ways::{Found, Who};
use crate::stats::{median, ratios};
use crate::traffic::{Passes, Seen, middle};

/// Less than this is not worth a sentence, and more than what direct is from direct is needed anyway.
const NOTABLE: f64 = 1.1;

/// Something of which less is better.
struct Measure {
    of: fn(&Passes) -> &[f64],
    show: fn(f64) -> String,
    /// That another has less of it.
    said: fn(&str) -> String,
}

const TIME: Measure =
    Measure { of: |passes| &passes.p50, show: time, said: |other| format!("a message takes less time over {other}") };
const BUSY: Measure = Measure {
    of: |passes| &passes.busy,
    show: time,
    said: |other| format!("a message takes less of a processor over {other}"),
};

/// Of one server.
pub(super) fn sentences(found: &Found<'_>) -> Vec<String> {
    let ours = found.names.iter().zip(found.who).filter(|(_, who)| who.is_ours());
    ours.flat_map(|(name, &who)| {
        let mut said: Vec<String> = than_direct(found, who).into_iter().collect();
        said.extend(fewer_than_direct(found, who));
        said.extend(than_others(found, who, &TIME));
        said.extend(than_others(found, who, &BUSY));
        said.into_iter().map(move |said| format!("`{name}`, {}: {said}.", found.server))
    })
    .collect()
}

/// How many times as much the one is, within a pass and as a whole: whichever says less.
fn times(own: &[f64], base: &[f64]) -> f64 {
    median(&ratios(own, base)).min(median(own) / median(base))
}

/// How far apart two of the same are, at least as far as is notable.
fn noise(found: &Found<'_>, seen: &Seen, of: fn(&Passes) -> &[f64]) -> f64 {
    let (Some(direct), Some(again)) = (found.of(seen, Who::Direct), found.of(seen, Who::Again)) else {
        return NOTABLE;
    };
    let apart = median(&ratios(of(again), of(direct)));
    // The direct way has no process that needs a processor, so no noise is seen.
    if apart.is_nan() { NOTABLE } else { NOTABLE.max(apart).max(1.0 / apart) }
}

/// One short message.
fn than_direct(found: &Found<'_>, who: Who) -> Option<String> {
    let seen = found.alone()?;
    let (own, direct) = (found.of(seen, who)?, found.of(seen, Who::Direct)?);
    let times = times(&own.p50, &direct.p50);
    if times <= noise(found, seen, TIME.of) {
        return None;
    }
    let of = |who, measure: &Measure| match found.of(seen, who) {
        Some(passes) => (measure.show)(median((measure.of)(passes))),
        None => "-".to_owned(),
    };
    Some(format!(
        "a message of 200 B alone takes {}, {times:.1} times the {} that it takes directly (one bare relay: {}, two: \
         {}), and {} of a processor on the way (one bare relay: {}, two: {})",
        of(who, &TIME),
        of(Who::Direct, &TIME),
        of(Who::Relay, &TIME),
        of(Who::Relays, &TIME),
        of(who, &BUSY),
        of(Who::Relay, &BUSY),
        of(Who::Relays, &BUSY),
    ))
}

/// Of every size what is worst.
fn fewer_than_direct(found: &Found<'_>, who: Who) -> Option<String> {
    let mut worst: Vec<(f64, &Seen, String)> = Vec::new();
    for seen in found.seen {
        let (Some(own), Some(direct)) = (found.of(seen, who), found.of(seen, Who::Direct)) else { continue };
        let (own, direct) = (&own.messages_a_second, &direct.messages_a_second);
        let times = times(direct, own);
        if times <= noise(found, seen, |passes| &passes.messages_a_second) {
            continue;
        }
        let part = 1.0 / times;
        let said = format!("{} in flight: {} of {} a second ({part:.2})", load(seen), middle(own), middle(direct));
        match worst.iter_mut().find(|(_, other, _)| other.load.size == seen.load.size) {
            Some(known) if part < known.0 => *known = (part, seen, said),
            Some(_) => {}
            None => worst.push((part, seen, said)),
        }
    }
    let said: Vec<String> = worst.into_iter().map(|(_, _, said)| said).collect();
    (!said.is_empty()).then(|| format!("fewer messages pass than directly; at worst {}", said.join("; ")))
}

/// Where one of the others is better, or the least that could be in its place.
fn than_others(found: &Found<'_>, who: Who, measure: &Measure) -> Vec<String> {
    let is_other = |other: Who| match other {
        Who::Relay => who == Who::Respawn,
        Who::Relays => who == Who::Share,
        other => other == Who::Other,
    };
    let others = found.names.iter().zip(found.who).enumerate().filter(|&(_, (_, &other))| is_other(other));
    let said = |(at, (other, _)): (usize, (&&str, &Who))| {
        let better = |seen| better(found, seen, who, at, measure);
        let loads: Vec<String> = found.seen.iter().filter_map(better).collect();
        (!loads.is_empty()).then(|| format!("{}: {}", (measure.said)(other), loads.join("; ")))
    };
    others.filter_map(said).collect()
}

fn better(found: &Found<'_>, seen: &Seen, who: Who, other: usize, measure: &Measure) -> Option<String> {
    let (own, other) = ((measure.of)(found.of(seen, who)?), (measure.of)(&seen.ways[other]));
    if other.is_empty() || times(own, other) <= noise(found, seen, measure.of) {
        return None;
    }
    let show = |values| (measure.show)(median(values));
    Some(format!("{} in flight ({} instead of {})", load(seen), show(other), show(own)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::native_loads;

    const NAMES: [&str; 6] = ["direct", "direct, again", "bare relay", "x", "nostray run", "nostray share"];
    const WHO: [Who; 6] = [Who::Direct, Who::Again, Who::Relay, Who::Other, Who::Run, Who::Share];

    fn said(p50: [f64; 6]) -> Vec<String> {
        let passes = |p50: f64| Passes {
            p50: vec![p50],
            p99: vec![p50],
            messages_a_second: vec![1e6 / p50],
            busy: vec![1.0],
            answers: 1,
            end: None,
        };
        let seen = [Seen { load: native_loads()[0], ways: p50.map(passes).into() }];
        sentences(&Found { server: "echo", names: &NAMES, who: &WHO, seen: &seen })
    }

    #[test]
    fn what_is_not_slower_is_not_said_to_be() {
        assert_eq!(said([10.0, 10.2, 20.0, 900.0, 10.3, 10.1]), [""; 0]);
    }

    #[test]
    fn what_chance_does_is_not_said() {
        assert_eq!(said([10.0, 15.0, 20.0, 900.0, 14.0, 14.0]), [""; 0]);
    }

    #[test]
    fn what_is_slower_is_said_with_its_numbers() {
        let said = said([10.0, 10.2, 20.0, 15.0, 10.0, 30.0]);
        assert!(said.iter().all(|line| line.starts_with("`nostray share`, echo: ")), "{said:#?}");
        assert!(said[0].contains("takes 30 us, 3.0 times the 10 us"), "{said:#?}");
        assert!(said[1].contains("200 B, 1 in flight: 33333 of 100000 a second (0.33)"), "{said:#?}");
        assert!(said[2].contains("less time over x: 200 B, 1 in flight (15 us instead of 30 us)"), "{said:#?}");
    }
}
