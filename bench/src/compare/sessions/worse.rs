//! Where nostray takes more memory than another.

use super::looks::{Cell, Row};
use crate::stats::Spread;
use crate::traffic::digits;

/// A sentence for each of nostray's that takes more than one of the others, with all numbers of sessions at which it does.
pub(super) fn sentences(rows: &[Row]) -> Vec<String> {
    let (ours, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.ours);
    let pairs = ours.iter().flat_map(|own| others.iter().map(move |other| (own, other)));
    pairs.filter_map(|(own, other)| sentence(own, other)).collect()
}

/// What `nostray run` has around an idle child, the first of these, against what the others have there.
pub(super) fn of_wrappers(sizes: &[(&str, Spread)]) -> Option<String> {
    let ((name, own), others) = sizes.split_first()?;
    let lighter = others.iter().filter(|(_, other)| own.is_above(*other));
    let list: Vec<String> = lighter.map(|(name, other)| format!("{name} ({:.0})", other.median)).collect();
    let kib = own.median;
    let list = list.join(", ");
    (!list.is_empty()).then(|| format!("`{name}` holds {kib:.0} KiB around an idle child; less: {list}."))
}

fn sentence(own: &Row, other: &Row) -> Option<String> {
    let pairs = own.cells.iter().filter_map(|cell| Some((cell, other.at(cell.sessions)?)));
    let more: Vec<String> = pairs.filter_map(|(own, other)| more(own, other)).collect();
    let last = more.last()?;
    let list = match &more[..more.len() - 1] {
        [] => last.clone(),
        before => format!("{} and {last}", before.join(", ")),
    };
    Some(format!("`{}` takes more memory than {}: {list}.", own.name, other.name))
}

/// Like `3.1 MiB against 1.2 around 8 servers with 8 sessions`, if it is more.
fn more(own: &Cell, other: &Cell) -> Option<String> {
    let sessions = if own.sessions == 1 { "1 session".to_owned() } else { format!("{} sessions", own.sessions) };
    let show = |spread: Spread| match spread.median {
        nothing if nothing <= 0.0 => "none".to_owned(),
        mib => format!("{mib:.*}", digits(mib)),
    };
    // Servers are never quite equal, so that only what is around them is compared where there are as many of them.
    let (own_has, other_has, what) = if own.servers() == other.servers() {
        (own.around(), other.around(), " around the server".to_owned() + if own.servers() == 1 { "" } else { "s" })
    } else {
        (own.all(), other.all(), " in all".to_owned())
    };
    let is_more = own_has.is_above(other_has);
    is_more.then(|| format!("{} MiB against {}{what} with {sessions}", show(own_has), show(other_has)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_around_as_many_servers_is_compared_without_them() {
        let rows = [
            Row::known("direct", &[(1, 1, 61.0, 0.0), (8, 8, 420.0, 0.0)]),
            Row::known("nostray share", &[(1, 1, 60.0, 3.0), (8, 1, 60.0, 4.0)]),
        ];
        assert_eq!(
            sentences(&rows),
            [
                "`nostray share` takes more memory than direct: 3.00 MiB against none around the server with 1 session."
            ]
        );
    }

    #[test]
    fn what_has_more_servers_is_compared_with_them() {
        let rows = [Row::known("rmcp-mux", &[(8, 1, 60.0, 9.0)]), Row::known("nostray run", &[(8, 8, 420.0, 6.0)])];
        assert_eq!(
            sentences(&rows),
            ["`nostray run` takes more memory than rmcp-mux: 426 MiB against 69.0 in all with 8 sessions."]
        );
    }

    #[test]
    fn wrappers_that_hold_less_are_named() {
        let sizes = [("nostray run", 998.0), ("tini", 109.0), ("huge", 2000.0)];
        let sizes = sizes.map(|(name, kib)| (name, Spread::of(&[kib])));
        assert_eq!(
            of_wrappers(&sizes).as_deref(),
            Some("`nostray run` holds 998 KiB around an idle child; less: tini (109).")
        );
        assert_eq!(of_wrappers(&sizes[..1]), None);
    }

    #[test]
    fn nothing_is_said_of_what_is_lighter() {
        let rows = [Row::known("rmcp-mux", &[(1, 1, 60.0, 9.0)]), Row::known("nostray share", &[(1, 1, 70.0, 6.0)])];
        assert!(sentences(&rows).is_empty());
    }
}
