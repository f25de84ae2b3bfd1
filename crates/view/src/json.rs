//! The object for scripts.

use nostray_registry::{MethodSeen, Record, State, TrafficSeen, UsedBy, describe};
use nostray_sys::proc::Stat;
use serde_json::{Value, json};

use crate::listed::{Condition, Listed, explain};

/// All of them.
#[must_use]
pub fn object(children: &[Listed]) -> Value {
    let pens: Vec<Value> =
        children.iter().filter_map(|child| child.record().map(|record| pen(child, record))).collect();
    let unreadable = |child: &Listed| {
        let why = child.pen.record.as_ref().err()?;
        Some(json!({ "id": child.pen.id, "why": explain(why) }))
    };
    let unreadable: Vec<Value> = children.iter().filter_map(unreadable).collect();
    json!({ "version": 1, "pens": pens, "unreadable": unreadable })
}

/// One of them.
#[must_use]
pub fn pen(child: &Listed, record: &Record) -> Value {
    let (tally, id) = (&child.tally, &child.pen.id);
    let tree: Vec<Value> = child.pen.tree.iter().map(member).collect();
    let used_by: Vec<Value> = child.used_by.iter().map(user).collect();
    let reason = match &record.state {
        State::Stopping { reason } => Some(reason),
        State::BackingOff { cause } | State::Tripped { cause } => Some(cause),
        State::Starting | State::Ready | State::Asleep => None,
    };
    let saved = child.saved();
    json!({
        "id": id, "name": child.name, "state": child.condition.word_for_scripts(),
        "lingering": child.condition == Condition::Lingering, "used_by": used_by,
        "reason": reason, "generation": record.generation,
        "restarts": child.restarts(), "shared": record.shared,
        "slot": record.slot, "status": record.status, "candidates": record.candidates,
        "since": record.since,
        "started": record.started, "command": record.command, "cwd": record.cwd,
        "session": record.session, "labels": record.labels, "host": record.host, "front": record.front,
        "spare": record.spare, "guard": record.guard, "child": record.child, "tier": record.tier,
        "eof_grace": record.eof_grace, "term_grace": record.term_grace, "processes": tally.processes,
        "memory": tally.memory, "open_files": tally.files, "cpu": tally.cpu.as_millis() as u64,
        "cpu_percent": child.cpu_percent.map(|percent| (percent * 10.0).round() / 10.0), "tree": tree,
        "traffic": child.traffic.as_ref().map(traffic),
        "last_exit": record.last_exit, "saved": { "sharing": saved.sharing, "sleeping": saved.sleeping },
    })
}

fn user(one: &UsedBy) -> Value {
    json!({ "program": one.program, "pid": one.process.pid, "session": one.session })
}

fn member(stat: &Stat) -> Value {
    let parent = stat.parent.map(|parent| parent.as_raw_nonzero().get());
    json!({ "pid": stat.pid.as_raw_nonzero().get(), "parent": parent, "command": describe(stat.pid) })
}

fn traffic(seen: &TrafficSeen) -> Value {
    let methods: Vec<Value> = seen.methods.iter().map(method).collect();
    json!({ "messages": seen.messages, "calls": seen.calls, "errors": seen.errors, "methods": methods })
}

fn method(seen: &MethodSeen) -> Value {
    json!({ "name": seen.name, "calls": seen.calls, "errors": seen.errors,
            "milliseconds": seen.time.as_secs_f64() * 1000.0 })
}
