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
use crate::targets::Targets;
use crate::traffic::{Server, native};
use crate::variants::{Variant, direct, nostray_run};
use crate::{Failure, start};

/// What `nostray run` may add to the start of a child, in milliseconds, and what the child's record may add to that.
const MOST_ADDED: f64 = 1.5;
const MOST_FOR_RECORD: f64 = 0.3;

pub(super) fn measure(ground: &Ground) -> Result<Answer, Failure> {
    let echo = native(0)?;
    let everything = ground.everything.as_ref().ok();
    let server = everything.unwrap_or(&echo);
    let cold = Cold::find(ground);
    let amounts = Amounts::of(ground);
    let kinds = kinds(ground);

    let (mut tables, mut charts, mut worse, mut checks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let servers = everything.map(|server| (server, &amounts.everything)).into_iter().chain([(&echo, &amounts.echo)]);
    for (of, amount) in servers {
        let rows = one::measure(&kinds, of, &cold, amount)?;
        tables.push(tables::one(&rows, of, &cold));
        worse.extend(worse::of_starts(&rows, of));
        checks.extend(is_colder(&rows, of));
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
    tables.push(targets(&added));
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

fn targets(added: &[(&str, Spread)]) -> Table {
    let mut targets = Targets::new("What `nostray run` may add to a start");
    let most = MOST_ADDED + MOST_FOR_RECORD;
    let (what, target) = ("/bin/echo to its first byte, above direct", format!("<= {most:.1} ms"));
    match added.iter().find(|(name, _)| *name == "nostray run") {
        Some((_, spread)) => targets.line(what, &target, format!("{} ms", spread.show(2)), spread.median <= most),
        None => targets.unknown(what, &target, "not measured"),
    }
    let mut table = targets.table();
    table.note(format!(
        "{MOST_ADDED} ms for the pen, and {MOST_FOR_RECORD} ms for the record by which `nostray ps` knows it."
    ));
    table
}
