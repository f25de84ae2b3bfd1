//! What it costs, and what many children at once do to it.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nostray_sys::process::cpu_time;
use testkit::nostray;
use testkit::stage::Stage;
use testkit::tmux::Tmux;

use super::{end, line_of};
use crate::supervised;

#[test]
fn twenty_children_cost_less_than_a_twentieth_of_a_processor() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let callers: Vec<_> = (0..20).map(|number| supervised(&stage, &format!("number-{number}"))).collect();
    let top = terminal.runs_nostray("top");
    terminal.shows("20 children");
    let used = || Duration::from_nanos(cpu_time(top.stat.pid).expect("it runs"));
    let (begin, before) = (Instant::now(), used());
    // Time itself is measured here.
    std::thread::sleep(Duration::from_secs(6));
    let share = (used() - before).as_secs_f64() / begin.elapsed().as_secs_f64();
    assert!(share < 0.05, "{:.1} % of a processor", share * 100.0);
    assert!(share > 0.0, "it did not look");
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, callers);
}

/// Children that come and go as fast as this machine can start them.
#[test]
fn children_that_come_and_go_neither_crash_it_nor_take_away_the_lines_of_others() {
    let stage = Stage::new();
    let Some(terminal) = Tmux::start(&stage, 80, 24) else { return };
    let caller = supervised(&stage, "steady");
    let top = terminal.runs_nostray("top --interval 0.1");
    terminal.shows("steady");
    let (is_over, started) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let mut command = stage.scene.command(&nostray());
                    command.args(["run", "--label", "name=brief", "--", "true"]);
                    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    assert!(command.status().expect("run").success());
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let begin = Instant::now();
        while started.load(Ordering::Relaxed) < 300 || begin.elapsed() < Duration::from_secs(3) {
            let screen = terminal.screen();
            let is_whole = screen.starts_with("nostray top ") && line_of(&screen, "steady").is_some();
            if !is_whole {
                is_over.store(true, Ordering::Relaxed);
            }
            assert!(is_whole, "{screen}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    terminal.shows_all(&["1 session, 1 child", "nothing is left of it"]);
    assert!(top.is_alive());
    terminal.press(&["q"]);
    drop(terminal);
    end(&stage, vec![caller]);
}
