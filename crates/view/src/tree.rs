//! What stands below a child's line if its tree is shown: who holds it, nostray's own processes, and the processes of its tree.

use std::collections::HashMap;

use nostray_registry::{Process, Record, UsedBy, describe};
use nostray_sys::identity::Identity;
use nostray_sys::proc::Stat;
use nostray_sys::process::Pid;
use nostray_sys::text::escaped;
use nostray_terminal::fit::{columns, cut_middle};
use nostray_terminal::table::{ago, bytes, short_span};

use crate::listed::Listed;

/// Below a line, by so many blanks.
const INDENT: usize = 2;

/// The lines, no wider than `width`. `memory` says how many bytes a process uses.
#[must_use]
pub fn lines(child: &Listed, width: Option<usize>, memory: &dyn Fn(&Stat) -> Option<u64>) -> Vec<String> {
    let Some(record) = child.record() else { return Vec::new() };
    let mut lines: Vec<String> = child.used_by.iter().map(held_by).collect();
    lines.extend(kept_by(record));
    let depths = with_depth(&child.pen.tree);
    // Memory stands right behind the longest pid and indent, so that it can be compared.
    let heads: Vec<String> = depths.iter().map(|(depth, stat)| indented(*depth, &stat.pid.to_string())).collect();
    let widest = heads.iter().map(String::len).max().unwrap_or(0);
    for (head, (_, stat)) in heads.iter().zip(&depths) {
        let memory = memory(stat).map_or_else(|| "-".to_owned(), bytes);
        lines.push(with_command(&format!("{head:widest$}  {memory:>5}  "), &describe(stat.pid), width));
    }
    for candidate in candidates(record) {
        let head = format!("? {} may be of it: ", candidate.pid);
        lines.push(with_command(&head, &describe(candidate.pid), width));
    }
    lines.iter().map(|line| indented(1, line)).collect()
}

fn indented(depth: usize, text: &str) -> String {
    format!("{:blanks$}{text}", "", blanks = depth * INDENT)
}

/// A line below a child, with a command at its end that is cut in its middle to what room there is.
fn with_command(head: &str, command: &str, width: Option<usize>) -> String {
    let command = escaped(command);
    match width.map(|width| width.saturating_sub(INDENT + columns(head))) {
        Some(room) => format!("{head}{}", cut_middle(&command, room)),
        None => format!("{head}{command}"),
    }
}

/// `held by claude 4711 for 3h12m, session chat-17, front 4720`
fn held_by(one: &UsedBy) -> String {
    let session = one.session.as_ref().map_or_else(String::new, |session| format!(", session {session}"));
    let front = one.front.map_or_else(String::new, |front| format!(", front {}", front.pid));
    format!("held by {} {} for {}{session}{front}", one.program, one.process.pid, short_span(ago(one.since)))
}

/// `kept by front 5001, spare 5002, guard 5003`: those that live.
fn kept_by(record: &Record) -> Option<String> {
    let front = if record.shared.is_some() { "steward" } else { "front" };
    let keepers = [(front, Some(record.front)), ("spare", record.spare), ("guard", record.guard)];
    let is_alive = |process: &Process| process.identity().is_some_and(Identity::is_alive);
    let told = |(role, process): (&str, Option<Process>)| {
        process.filter(is_alive).map(|process| format!("{role} {}", process.pid))
    };
    let told: Vec<String> = keepers.into_iter().filter_map(told).collect();
    (!told.is_empty()).then(|| format!("kept by {}", told.join(", ")))
}

/// The live processes that may or may not be left of the tree.
fn candidates(record: &Record) -> Vec<Identity> {
    let all = record.candidates.iter().copied().filter_map(Process::identity);
    all.filter(|who| who.is_alive()).collect()
}

/// The processes of a tree, each behind its parent and with its distance from the top.
fn with_depth(tree: &[Stat]) -> Vec<(usize, &Stat)> {
    let members: HashMap<Pid, &Stat> = tree.iter().map(|stat| (stat.pid, stat)).collect();
    let mut by_parent: HashMap<Option<Pid>, Vec<&Stat>> = HashMap::new();
    for stat in tree {
        // The parent of the topmost is a keeper, or the process that has got an orphan.
        let parent = stat.parent.filter(|parent| members.contains_key(parent));
        by_parent.entry(parent).or_default().push(stat);
    }
    let mut ordered = Vec::with_capacity(tree.len());
    let mut waiting: Vec<(usize, &Stat)> = Vec::new();
    let mut add_below = |waiting: &mut Vec<(usize, _)>, parent: Option<Pid>, depth: usize| {
        let mut children = by_parent.remove(&parent).unwrap_or_default();
        children.sort_by_key(|stat: &&Stat| std::cmp::Reverse((stat.start, stat.pid.as_raw_nonzero())));
        waiting.extend(children.into_iter().map(|stat| (depth, stat)));
    };
    add_below(&mut waiting, None, 0);
    while let Some((depth, stat)) = waiting.pop() {
        ordered.push((depth, stat));
        add_below(&mut waiting, Some(stat.pid), depth + 1);
    }
    ordered
}
