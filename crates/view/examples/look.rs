//! How long a look at everything takes: once, and again and again as `nostray top` and `nostray web` do.

#![allow(clippy::print_stdout, reason = "it is a program for people")]

use std::time::{Duration, Instant};

use nostray_registry::census;
use nostray_view::Looker;

const LOOKS: usize = 10;

fn main() {
    let mut looker = Looker::default();
    let began = Instant::now();
    let children = looker.thorough(census());
    let sessions: usize = children.iter().map(nostray_view::Listed::sessions).sum();
    println!("{} children, {sessions} sessions", children.len());
    println!("thorough  {:6.1} ms", began.elapsed().as_secs_f64() * 1000.0);
    let mut looker = Looker::default();
    for look in 0..LOOKS {
        let began = Instant::now();
        let children = looker.quick();
        let memory: u64 = children.iter().map(|child| child.tally.memory).sum();
        println!("quick {look:2}  {:6.1} ms  {memory} bytes", began.elapsed().as_secs_f64() * 1000.0);
        std::thread::sleep(Duration::from_millis(200));
    }
}
