//! Where nostray starts later than another.

use super::many::Many;
use super::one::Row;
use crate::stats::Spread;
use crate::traffic::{Server, digits};

/// A sentence for each of nostray's that is later than others of its kind, and one for what is only put off.
pub(super) fn of_starts(rows: &[Row], server: &Server) -> Vec<String> {
    let ours = rows.iter().filter(|row| row.ours);
    let mut said: Vec<String> = ours
        .filter_map(|own| {
            let others = rows.iter().filter(|row| !row.ours && row.further == own.further);
            let sooner = sooner(own.answered(), others.map(|row| (row.name, row.answered())))?;
            let (who, time) = (own.quoted(), show(own.answered()));
            Some(format!("To the first answer of {}, {who} takes {time} ms; sooner: {sooner}.", server.name))
        })
        .collect();
    let put_off = |name: &str| rows.iter().find(|row| row.name == name).map(Row::call);
    if let (Some(lazy), Some(direct)) = (put_off("nostray run --lazy"), put_off("direct"))
        && lazy.is_above(direct)
    {
        said.push(format!(
            "With `nostray run --lazy`, the first call itself waits for the start of {}: {} ms from the greeting's answer to the \
             call's, against {} ms direct.",
            server.name,
            show(lazy),
            show(direct)
        ));
    }
    said
}

/// The same for many at once, against contenders that start as many servers sooner or later.
pub(super) fn of_many(all: &[Many], server: &Server) -> Vec<String> {
    all.iter().filter(|many| many.ours).filter_map(|own| of_one_of_many(own, all, server)).collect()
}

fn of_one_of_many(own: &Many, all: &[Many], server: &Server) -> Option<String> {
    let less = |of: fn(&Many) -> Spread, what: &str, unit: &str| {
        let others = all.iter().filter(|many| !many.ours && many.starts_as_many_as(own));
        let list = sooner(of(own), others.map(|many| (many.name, of(many))))?;
        Some(format!("{what} {} {unit}: {list}", show(of(own))))
    };
    // A contender whose sessions are greeted later answers them later.
    let time = less(Many::greeted, "all are greeted after", "ms; sooner")
        .or_else(|| less(Many::answered, "all have been answered a call after", "ms; sooner"));
    let memory = less(Many::memory, "when all are greeted, all processes hold", "MiB; less");
    let said: Vec<String> = time.into_iter().chain(memory).collect();
    let start = format!("{} sessions with {} at once, `{}`", own.sessions, server.name, own.name);
    (!said.is_empty()).then(|| format!("{start}: {}.", said.join("; ")))
}

/// By what `nostray run` is later than the others with the smallest program.
pub(super) fn of_first_bytes(added: &[(&str, Spread)]) -> Option<String> {
    let (_, own) = added.iter().find(|(name, _)| *name == "nostray run")?;
    let others = added.iter().filter(|(name, _)| *name != "nostray run" && *name != "direct");
    let others = sooner(*own, others.copied());
    let list = others.map_or_else(String::new, |list| format!("; less with {list}"));
    (own.low > 0.0).then(|| format!("`nostray run` adds {} ms to the start of /bin/echo{list}.", show(*own)))
}

/// The contenders that are below this, with their numbers.
fn sooner<'a>(own: Spread, others: impl Iterator<Item = (&'a str, Spread)>) -> Option<String> {
    let below = others.filter(|(_, other)| own.is_above(*other));
    let list: Vec<String> = below.map(|(name, other)| format!("{name} ({})", show(other))).collect();
    (!list.is_empty()).then(|| list.join(", "))
}

fn show(spread: Spread) -> String {
    format!("{:.*}", digits(spread.median), spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        Server { name: "it".to_owned(), command: Vec::new() }
    }

    #[test]
    fn only_contenders_of_the_same_kind_that_are_sooner_are_named() {
        let rows = [
            Row::known("direct", false, &[10.0, 10.2]),
            Row::known("tini", false, &[10.1, 14.0]),
            Row::known("rmcp-mux", true, &[1.0, 1.0]),
            Row::known("nostray run", false, &[12.0, 12.5]),
        ];
        assert_eq!(
            of_starts(&rows, &server()),
            ["To the first answer of it, `nostray run` takes 12.5 ms; sooner: direct (10.2)."]
        );
    }

    #[test]
    fn what_a_lazy_start_puts_off_is_said() {
        let rows = [Row::known("direct", false, &[10.0]), Row::known("nostray run --lazy", false, &[9.0, 30.0])];
        assert!(of_starts(&rows, &server()).is_empty());
        let rows = [Row::known("direct", false, &[10.0]), Row::known("nostray run --lazy", false, &[30.0])];
        assert_eq!(of_starts(&rows, &server()).len(), 2);
    }

    #[test]
    fn many_at_once_are_compared_in_time_and_memory() {
        let all = [
            Many::known("direct", 30, &[1000.0], 5.0, 1500.0),
            Many::known("nostray run", 30, &[900.0], 5.0, 1530.0),
        ];
        assert_eq!(
            of_many(&all, &server()),
            [
                "30 sessions with it at once, `nostray run`: when all are greeted, all processes hold 1530 MiB; less: direct (1500)."
            ]
        );
    }

    #[test]
    fn what_is_added_to_the_smallest_program_is_said_with_who_adds_less() {
        let added = [("direct", 0.0), ("nostray run", 1.2), ("tini", 0.4), ("bwrap", 2.0)];
        let said = of_first_bytes(&added.map(|(name, value)| (name, Spread::of(&[value]))));
        assert_eq!(
            said.as_deref(),
            Some("`nostray run` adds 1.20 ms to the start of /bin/echo; less with tini (0.40).")
        );
    }
}
