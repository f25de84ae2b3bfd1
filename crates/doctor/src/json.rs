//! The report for programs. Its fields are documented in the help text of the command.

use serde_json::{Value, json};

use super::Findings;
use super::command_line;
use super::configs::{Config, Server, State};
use super::kill::Outcome;
use super::live::Copies;
use super::machine::Machine;
use super::places::{Condition, Place};
use super::program::Program;
use super::strays::{Confidence, Stray};

pub(super) fn text(findings: &Findings) -> String {
    let object = json!({
        "version": 1,
        "fine": findings.is_fine(),
        "program": program(&findings.programs.own),
        "in_path": findings.programs.in_path.iter().map(program).collect::<Value>(),
        "machine": machine(&findings.machine),
        "directories": findings.places.0.iter().map(place).collect::<Value>(),
        "strays": findings.strays.iter().map(stray).collect::<Value>(),
        "configs": findings.configs.iter().map(config).collect::<Value>(),
        "copies": findings.copies.iter().map(copies).collect::<Value>(),
    });
    format!("{object:#}\n")
}

fn program(program: &Program) -> Value {
    let (name, path) = (program.name.to_string_lossy(), program.path.to_string_lossy());
    json!({ "name": name, "path": path, "version": program.version, "origin": program.origin.word() })
}

fn machine(machine: &Machine) -> Value {
    let check = |check: &super::machine::Check| json!({ "name": check.name, "ok": check.ok, "detail": check.detail, "advice": check.advice });
    let checks: Value = machine.checks.iter().map(check).collect();
    json!({ "kernel": machine.kernel, "tier": machine.tier.name(), "checks": checks })
}

fn place(place: &Place) -> Value {
    let (state, detail, advice) = match &place.condition {
        Condition::Sound => ("ok", None, None),
        Condition::ToBeMade => ("absent", None, None),
        Condition::Impossible(why) => ("absent", Some(why), None),
        Condition::Bad { why, advice } => ("bad", Some(why), Some(advice)),
    };
    let path = place.path.to_string_lossy();
    json!({ "path": path, "purpose": place.purpose, "state": state, "detail": detail, "advice": advice })
}

fn stray((stray, outcome): &(Stray, Option<Outcome>)) -> Value {
    let confidence = match stray.confidence {
        Confidence::Certain => "certain",
        Confidence::Maybe => "maybe",
    };
    let mut object = json!({
        "pid": stray.identity.pid.as_raw_nonzero(),
        "start": stray.identity.start.0,
        "parent": stray.parent.as_ref().map(|(pid, _)| pid.as_raw_nonzero()),
        "parent_name": stray.parent.as_ref().map(|(_, name)| name),
        "command": command_line::masked(&stray.command),
        "age_seconds": stray.age.map(|age| age.as_secs()),
        "memory_bytes": stray.memory,
        "confidence": confidence,
        "evidence": stray.evidence,
        "remedy": stray.remedy(),
    });
    if let Some(outcome) = outcome {
        object["outcome"] = outcome.name().into();
    }
    object
}

fn copies(copies: &Copies) -> Value {
    json!({
        "host": copies.host,
        "host_pid": copies.host_pid.as_raw_nonzero(),
        "package": copies.package,
        "count": copies.count,
        "memory_bytes": copies.memory,
        "configured": copies.is_configured,
        "advice": copies.advice(),
    })
}

fn config(config: &Config) -> Value {
    let servers = config.servers.as_deref().unwrap_or_default();
    json!({
        "host": config.host.name,
        "path": config.path.to_string_lossy(),
        "error": config.servers.as_ref().err(),
        "servers": servers.iter().map(server).collect::<Value>(),
    })
}

fn server(server: &Server) -> Value {
    let (state, replacement) = match &server.state {
        State::Wrapped => ("wrapped", Value::Null),
        State::Disabled => ("disabled", Value::Null),
        State::Broken(_) => ("broken", Value::Null),
        State::Stuck(_) => ("stuck", Value::Null),
        State::Unwrapped(instead) => {
            ("unwrapped", json!({ "command": instead.command, "args": instead.args, "text": instead.text }))
        }
    };
    let detail = match &server.state {
        State::Broken(why) | State::Stuck(why) => Some(why),
        _ => None,
    };
    json!({
        "name": server.name,
        "project": server.project,
        "state": state,
        "detail": detail,
        "doubt": server.doubt.as_ref().map(|doubt| &doubt.why),
        "advice": server.doubt.as_ref().map(|doubt| &doubt.advice),
        "command": server.command,
        "replacement": replacement,
    })
}
