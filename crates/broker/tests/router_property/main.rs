//! Long random lives of one router: sessions that come and go, use the same ids and tokens, cancel, subscribe and answer, and a child
//! that answers, asks, tells and dies. Every message bears the number of the session that it belongs to, so the test
//! sees a message that reaches another session.
//!
//! `ROUTER_SEED=n` plays one case and prints what is said in it; `ROUTER_CASES=n` plays so many.
#![allow(clippy::print_stderr, reason = "to look for an error one has to see what was said")]

mod child;
mod host;
mod luck;
mod world;

use world::World;

/// Says which case it was, if it fails.
struct Case(u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was ROUTER_SEED={}", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn every_message_reaches_the_session_it_belongs_to_and_no_other() {
    if let Some(seed) = number("ROUTER_SEED") {
        World::new(seed, true).live();
        return;
    }
    let mut seen = world::Seen::default();
    // Without optimisation one takes ten times as long.
    let cases = if cfg!(debug_assertions) { 500 } else { 5000 };
    for seed in 0..number("ROUTER_CASES").unwrap_or(cases) {
        let _case = Case(seed);
        seen += World::new(seed, false).live();
    }
    eprintln!("{seen:?}");
    seen.is_enough();
}
