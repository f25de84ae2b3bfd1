//! What counting costs a message, without the system calls that it takes beside: the time of a call and its answer through the session of
//! a supervised child and through the router of a shared one, with and without counters.
//!
//! `cargo run --release -p nostray-broker --example counting`

#![allow(clippy::print_stdout, reason = "it is a program for people")]

use std::time::{Duration, Instant};

use nostray_broker::{FromChild, FromSession, ReverseTo, Router, Routing, SessionId};
use nostray_registry::Traffic;
use nostray_supervise::{Generation, Moment, Policy, Protocol, Session, Settings, Verdict};

/// The allocator of `nostray`.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: nostray_sys::allocator::Allocator = nostray_sys::allocator::Allocator;

const CALLS: u32 = 200_000;
const PASSES: usize = 15;

fn main() {
    for (what, one_pass) in [("supervised", supervised as fn(bool) -> Duration), ("shared", shared)] {
        let mut ratios: Vec<(f64, f64)> = (0..PASSES)
            .map(|_| {
                let (without, with) = (one_pass(false), one_pass(true));
                let nanoseconds = (with.as_secs_f64() - without.as_secs_f64()) * 1e9 / f64::from(CALLS);
                (with.as_secs_f64() / without.as_secs_f64(), nanoseconds)
            })
            .collect();
        ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, nanoseconds) = ratios[PASSES / 2];
        let each = one_pass(true).as_nanos() / u128::from(CALLS);
        println!("{what:10}  {each} ns a call and its answer, of which counting {nanoseconds:.1} ns ({ratio:.3})");
    }
}

fn call(id: u32) -> Vec<u8> {
    let padding = "x".repeat(110);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","text":"{padding}"}}}}"#)
        .into()
}

fn answer(id: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{}"}}}}"#, "x".repeat(140)).into()
}

fn supervised(counts: bool) -> Duration {
    let settings =
        Settings { protocol: Protocol::JsonRpc, policy: Policy::default(), replay: Vec::new(), call_timeout: None };
    let mut session = Session::new(settings, None, false, 1);
    if counts {
        session.count_traffic(Traffic::new().expect("counters"));
    }
    let now = Moment::ZERO;
    session.begin(now);
    session.wake(now);
    session.effects();
    session.child_started(Generation(1), now);
    session.effects();
    let lines: Vec<_> = (1..=64).map(|id| (call(id), answer(&id.to_string()))).collect();
    // The first answer makes the child ready.
    session.host_says(&lines[0].0, &lines[0].0, now);
    session.child_says(&lines[0].1, now);
    session.effects();
    let began = Instant::now();
    for round in 0..CALLS as usize {
        let (call, answer) = &lines[round % lines.len()];
        assert_eq!(session.host_says(call, call, now), Verdict::Forward);
        assert_eq!(session.child_says(answer, now), Verdict::Forward);
    }
    began.elapsed()
}

fn shared(counts: bool) -> Duration {
    let routing =
        Routing { protocol: Protocol::JsonRpc, reverse: ReverseTo::Certain, route_by: Vec::new(), window: 1024 };
    let mut next = 0;
    let ids = Box::new(move || {
        next = next % 64 + 1;
        next
    });
    let mut router = Router::new(routing, ids);
    if counts {
        router.count_traffic(Traffic::new().expect("counters"));
    }
    let (session, now) = (SessionId(1), Moment::ZERO);
    router.join(session);
    let lines: Vec<_> = (1..=64).map(|id| (call(id), answer(&id.to_string()))).collect();
    let began = Instant::now();
    for round in 0..CALLS as usize {
        let (call, answer) = &lines[round % lines.len()];
        assert!(matches!(router.session_says(session, call, now), FromSession::ToChild(_)));
        assert!(matches!(router.child_says(answer, now), FromChild::To(..)));
    }
    began.elapsed()
}
