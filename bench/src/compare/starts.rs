//! What a start costs: to the first answer of a server, warm and cold; many servers at once; and to the first byte of the smallest
//! program there is.

mod cold;
mod many;
mod one;
mod tables;
mod worse;

use cold::Cold;
use many::Many;
use one::{Kind, Manner, Row};

use super::contenders::{Contender, wrappers};
use super::{Answer, Check, Ground};
use crate::report::Table;
use crate::stats::Spread;
use crate::targets::{MOST_OF_A_START, Targets, missed};
use crate::traffic::{Server, native};
use crate::variants::{Variant, direct, nostray_run};
use crate::{Failure, start};

/// What the first session of a shared child may take longer than a session of its own, in milliseconds.
const MOST_OF_FIRST_SHARED: f64 = 4.0;

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let echo = native(0)?;
    let everything = ground.everything.as_ref().ok();
    let server = everything.unwrap_or(&echo);
    let cold = Cold::find(ground);
    let amounts = Amounts::of(ground);
    let kinds = kinds(ground);

    let (mut tables, mut charts, mut worse, mut checks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut first_shared = None;
    let servers = everything.map(|server| (server, &amounts.everything)).into_iter().chain([(&echo, &amounts.echo)]);
    for (of, amount) in servers {
        let rows = one::measure(&kinds, of, &cold, amount)?;
        tables.push(tables::one(&rows, of, &cold));
        worse.extend(worse::of_starts(&rows, of));
        checks.extend(is_colder(&rows, of));
        if of.command == echo.command {
            first_shared = first_shared_above_direct(&rows);
        }
        if of.command == server.command {
            charts.push(tables::one_bars(&rows, of).chart("starts.svg"));
        }
    }
    checks.extend(many::lazy_waits(&Contender::lazy(ground), server)?);

    let many = many::measure(ground, server, amounts.servers_at_once, amounts.passes_of_many)?;
    tables.push(tables::many(&many, server));
    charts.push(tables::many_bars(&many, server).chart("starts-at-once.svg"));
    worse.extend(worse::of_many(&many, server));
    checks.extend(many.iter().map(Many::check));

    let variants: Vec<Variant> =
        [direct(), nostray_run(&ground.programs)].into_iter().chain(wrappers(ground)).collect();
    let (table, added) = start::measure(&variants, amounts.passes_of_bytes, amounts.starts_of_bytes)?;
    tables.push(table);
    let added: Vec<(&str, Spread)> = variants.iter().map(|variant| variant.name).zip(added).collect();
    worse.extend(worse::of_first_bytes(&added));
    let targets = targets(&added, first_shared);
    worse.splice(0..0, missed(&targets));
    tables.push(targets);
    Ok(Answer { title: "What a start costs", lead: lead(everything), tables, charts, worse, checks })
}

fn lead(everything: Option<&Server>) -> String {
    let server = everything.map_or_else(
        || "a native server, since server-everything could not be had here".to_owned(),
        |server| format!("{}, and a native server, which needs next to no time itself", server.name),
    );
    format!(
        "From the moment at which a host starts the command: until its greeting (`initialize`) is answered, and until the first \
         call after it is. The server is {server}."
    )
}

/// How much of everything.
struct Amounts {
    everything: one::Amount,
    echo: one::Amount,
    servers_at_once: usize,
    passes_of_many: usize,
    passes_of_bytes: usize,
    starts_of_bytes: usize,
}

impl Amounts {
    fn of(ground: &Ground) -> Self {
        if ground.is_quick() {
            Self {
                everything: one::Amount { warm: 3, warm_interpreted: 1, cold: 1, cold_of_others: false },
                echo: one::Amount { warm: 5, warm_interpreted: 0, cold: 0, cold_of_others: false },
                servers_at_once: 10,
                passes_of_many: 1,
                passes_of_bytes: 3,
                starts_of_bytes: 10,
            }
        } else {
            Self {
                everything: one::Amount { warm: 7, warm_interpreted: 3, cold: 3, cold_of_others: true },
                echo: one::Amount { warm: 25, warm_interpreted: 3, cold: 0, cold_of_others: false },
                servers_at_once: 30,
                passes_of_many: 3,
                passes_of_bytes: 10,
                starts_of_bytes: 30,
            }
        }
    }
}

/// All that is started, direct first.
fn kinds(ground: &Ground) -> Vec<Kind<'_>> {
    let with = |manner| move |contender| Kind { contender, manner };
    let ours = [Contender::run(ground), Contender::respawn(ground), Contender::lazy(ground)];
    let mut all = vec![with(Manner::Own)(Contender::direct())];
    all.extend(Contender::wrappers(ground).into_iter().map(with(Manner::Wrapper)));
    all.extend(ours.map(with(Manner::Own)));
    // With one server for all sessions or with one for each, supergateway starts the same processes.
    let gateways = Contender::gateways(ground).into_iter().filter(|gateway| gateway.at_once > 1);
    let shared = std::iter::once(Contender::share(ground)).chain(Contender::mux(ground)).chain(gateways);
    all.extend(shared.map(with(Manner::Shared)));
    all
}

/// Whether the programs were read from the disk when they should be.
fn is_colder(rows: &[Row], server: &Server) -> Option<Check> {
    let direct = rows.iter().find(|row| row.name == "direct")?;
    let what = format!("a cold start of {} takes longer than a warm one, direct", server.name);
    Some(Check::new(what, direct.cold()?.median > direct.answered().median))
}

/// To the first answer, in milliseconds.
fn first_shared_above_direct(rows: &[Row]) -> Option<f64> {
    let first = |name| rows.iter().find(|row| row.name == name && !row.further);
    Some(first("nostray share")?.answered().median - first("direct")?.answered().median)
}

fn targets(added: &[(&str, Spread)], first_shared: Option<f64>) -> Table {
    let mut targets = Targets::new("What nostray may add to a start");
    let (what, target) =
        ("`nostray run`: /bin/echo to its first byte, above direct", format!("<= {MOST_OF_A_START:.1} ms"));
    match added.iter().find(|(name, _)| *name == "nostray run") {
        Some((_, spread)) => {
            targets.line(what, &target, format!("{} ms", spread.show(2)), spread.median <= MOST_OF_A_START);
        }
        None => targets.unknown(what, &target, "not measured"),
    }
    let what = "`nostray share`: first session of the native echo to its first answer, above direct";
    let target = format!("<= {MOST_OF_FIRST_SHARED:.1} ms");
    match first_shared {
        Some(ms) => targets.line(what, &target, format!("{ms:.2} ms"), ms <= MOST_OF_FIRST_SHARED),
        None => targets.unknown(what, &target, "not measured"),
    }
    targets.table()
}
