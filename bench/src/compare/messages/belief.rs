//! Whether what was measured can be believed.

use std::time::Duration;

use super::super::Check;
use super::ways::{Found, Who};
use crate::Failure;
use crate::stats::{median, ratios};
use crate::traffic::relay::Harm;
use crate::traffic::{Filling, Limits, Load, Server, Session};
use crate::variants::Variant;

/// A harmful relay does its harm long before.
const LOAD: Load = Load { size: 200, filling: Filling::Text, in_flight: 16, messages: 50, on_one_processor: false };
const LIMITS: Limits =
    Limits { sending: Duration::from_secs(5), silence: Duration::from_secs(2), all: Duration::from_secs(10) };

/// Of one server.
pub(super) fn checks(found: &Found<'_>) -> Vec<Check> {
    let server = found.server;
    let all = || found.seen.iter().flat_map(|seen| found.each(seen));
    let answers: usize = all().map(|(_, _, passes)| passes.answers).sum();
    let carried =
        all().filter(|(_, who, _)| who.must_carry()).all(|(_, _, passes)| passes.answers > 0 && passes.end.is_none());
    let mut checks = vec![Check::new(
        format!(
            "{server}: each of {answers} answers was compared with an answer that was checked in full; none was lost, \
             doubled or changed directly, through bare relays and through nostray"
        ),
        carried,
    )];
    let useless: Vec<&str> = found
        .names
        .iter()
        .enumerate()
        .filter(|&(at, _)| found.seen.iter().all(|seen| seen.ways[at].answers == 0))
        .map(|(_, name)| *name)
        .collect();
    checks.push(Check::new(
        format!(
            "{server}: every way carried something{}",
            if useless.is_empty() { String::new() } else { format!(", but not {}", useless.join(", ")) }
        ),
        useless.is_empty(),
    ));
    let Some(alone) = found.alone() else { return checks };
    let of = |who| found.of(alone, who);
    if let (Some(direct), Some(again)) = (of(Who::Direct), of(Who::Again)) {
        let apart = median(&ratios(&again.p50, &direct.p50));
        let what = format!("{server}: direct and direct again take about as long ({apart:.2})");
        checks.push(Check::new(what, (0.5..2.0).contains(&apart)));
    }
    if let (Some(direct), Some(relay), Some(relays)) = (of(Who::Direct), of(Who::Relay), of(Who::Relays)) {
        let [direct, relay, relays] = [direct, relay, relays].map(|passes| median(&passes.busy));
        let what = format!(
            "{server}: a bare relay is seen to need a processor, and two of them more than one ({direct:.1}, {relay:.1} and {relays:.1} us a message)"
        );
        checks.push(Check::new(what, direct == 0.0 && relay > 0.5 && relays > relay));
    }
    checks
}

/// Relays that do harm.
pub(super) fn harm_is_seen(server: &Server) -> Result<Vec<Check>, Failure> {
    let me = std::env::current_exe()?;
    let check = |harm: Harm| {
        let words = [me.clone().into_os_string(), "relay".into(), harm.option().into()];
        let seen = Session::open(&Variant::other("harmful relay", words), server)
            .and_then(|mut session| session.bear(&LOAD, Some(LIMITS)))
            .err()
            .map(|error| error.to_string());
        let (what, sign) = match harm {
            Harm::Garble => ("a relay that changes a byte of one answer is noticed", "not what the first answer was"),
            Harm::Lose => ("a relay that loses one answer is noticed", "no answer for"),
            Harm::Double => ("a relay that brings one answer twice is noticed", "answered twice"),
        };
        Check::new(what, seen.is_some_and(|said| said.contains(sign)))
    };
    Ok(Harm::ALL.map(check).into())
}
