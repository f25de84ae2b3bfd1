//! A process that waits gives back the pages that only its start needed. A program of its own: other tests would bring
//! pages back.

use std::time::Duration;

use nostray_sys::{memory, poll};

/// Of this program's own code, in KiB.
fn resident() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("smaps");
    let program = std::env::current_exe().expect("a program").display().to_string();
    let mut lines = maps.lines().skip_while(|line| !(line.contains("r-xp") && line.ends_with(&program)));
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).expect("code");
    rss.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_wait_gives_back_what_is_not_needed_in_it_and_the_program_goes_on() {
    let before = resident();
    memory::release_program_pages_at_next_wait();
    poll::wait(&[], Some(Duration::ZERO)).expect("look");
    let only_looked = resident();
    assert!(only_looked >= before, "{only_looked} of {before} KiB are left to one who does not wait");
    poll::wait(&[], Some(Duration::from_millis(1))).expect("wait");
    let waited = resident();
    assert!(waited < before, "{waited} of {before} KiB are left");
}
