//! Long random sessions, in which every request is answered once and made once.

use std::collections::{HashMap, HashSet, VecDeque};

use nostray_sys::random::Random;

use super::*;

/// Kills, sleeps, stops, cancels, batches and time-outs in any order: each request is answered exactly once, by a result or an
/// error, and is given to one child at most; a cancelled request is answered at most once.
#[test]
fn in_any_session_each_request_is_answered_once_and_made_once() {
    for seed in 0..400 {
        let mut dice = Random::new(seed);
        let call_timeout = (seed % 3 == 0).then_some(Duration::from_secs(2));
        let mut stage = Stage::new(Settings { call_timeout, ..settings() });
        stage.handshake(TOOLS);
        let (mut asked, mut cancelled) = (VecDeque::new(), HashSet::new());
        let mut given: HashMap<i64, HashSet<u64>> = HashMap::new();
        let mut next = 100;
        for _ in 0..300 {
            match dice.below(14) {
                0..=3 => {
                    stage.host_says(&format!(r#"{{"jsonrpc":"2.0","id":{next},"method":"tools/call"}}"#));
                    asked.push_back(next);
                    next += 1;
                }
                4 => {
                    let (a, b) = (next, next + 1);
                    stage.host_says(&format!(
                        r#"[{{"jsonrpc":"2.0","id":{a},"method":"x"}},{{"jsonrpc":"2.0","id":{b},"method":"y"}}]"#
                    ));
                    asked.extend([a, b]);
                    next += 2;
                }
                5 if !asked.is_empty() => {
                    let id = asked[dice.index(asked.len())];
                    stage.host_says(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                    ));
                    cancelled.insert(id);
                }
                6 if stage.alive.is_some() && stage.torn_down.is_none() => {
                    let generation = stage.alive.map_or(0, |generation| generation.0);
                    let unread = stage.dies_before_it_reads(dice.index(8));
                    // What it has not read was not given to it.
                    for id in ids(&unread) {
                        given.entry(id).or_default().remove(&generation);
                    }
                }
                6 if stage.alive.is_some() => stage.dies(),
                7 => stage.passes(Duration::from_millis(dice.below(4000))),
                8 if stage.torn_down.is_some() && stage.alive.is_some() => stage.dies(),
                9 if stage.alive.is_some() => {
                    stage.child_says(r#"{"jsonrpc":"2.0","id":0,"method":"roots/list"}"#);
                    stage.host_says(r#"{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}"#);
                }
                _ => answer_something(&mut stage, &mut dice),
            }
            let generation = stage.alive.map_or(0, |generation| generation.0);
            for id in ids(&stage.child) {
                if generation > 0 {
                    given.entry(id).or_default().insert(generation);
                }
            }
        }
        // The end: no child answers any more.
        if stage.alive.is_some() {
            stage.dies();
        }
        stage.session.stop(stage.now);
        stage.perform();
        if stage.alive.is_some() {
            stage.dies();
        }
        let mut answers: HashMap<i64, usize> = HashMap::new();
        let messages = stage.host.iter().flat_map(|m| m.as_array().cloned().unwrap_or_else(|| vec![m.clone()]));
        for id in messages.filter(|m| m["method"].is_null()).filter_map(|m| m["id"].as_i64()) {
            *answers.entry(id).or_default() += 1;
        }
        for id in 100..next {
            let count = answers.get(&id).copied().unwrap_or(0);
            let fine = count == 1 || (count == 0 && cancelled.contains(&id));
            assert!(fine, "seed {seed}: request {id} was answered {count} times");
            assert!(given.get(&id).is_none_or(|to| to.len() <= 1), "seed {seed}: request {id} was made twice");
        }
    }
}

/// The requests of the host's among these messages.
fn ids(messages: &[Value]) -> Vec<i64> {
    let messages = messages.iter().flat_map(|m| m.as_array().cloned().unwrap_or_else(|| vec![m.clone()]));
    let ids = messages.filter(|m| m["method"].is_string()).filter_map(|m| m["id"].as_i64());
    ids.filter(|id| (100..1_000_000).contains(id)).collect()
}

/// The child answers one of the requests that it has been given, perhaps a second time.
fn answer_something(stage: &mut Stage, dice: &mut Random) {
    if stage.alive.is_none() || stage.child.is_empty() {
        return;
    }
    let at = dice.index(stage.child.len());
    stage.read = stage.read.max(at + 1);
    let message = stage.child[at].clone();
    let messages = message.as_array().cloned().unwrap_or_else(|| vec![message]);
    for message in messages {
        if let (Some(id), true) = (message["id"].as_i64(), message["method"].is_string()) {
            let result = match message["method"].as_str() {
                Some("tools/list") => TOOLS,
                _ => r#"{"capabilities":{"tools":{}}}"#,
            };
            stage.answer(id, result);
        }
    }
}
