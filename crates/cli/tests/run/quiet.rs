//! nostray is not in the data path: none of its processes runs while messages pass, nor while nothing happens.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use badchild::{Found, Scene, User, comes_true};
use testkit::{Own, own_processes, run_command};

/// How often a process has been scheduled on a CPU. A process that is not scheduled makes no system call.
fn times_run(found: &Found) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", found.stat.pid)).expect("is there");
    let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
    switches.map(|line| line.rsplit('\t').next().and_then(|n| n.parse::<u64>().ok()).expect("a number")).sum()
}

fn times_all_run(own: &Own) -> [u64; 3] {
    [&own.front, &own.spare, &own.guard].map(times_run)
}

/// Whether the process has finished the start, and waits for events.
fn has_settled(found: &Found) -> bool {
    let of = |name: &str| format!("/proc/{}/{name}", found.stat.pid);
    std::fs::read_link(of("fd/1")).is_ok_and(|to| to == std::path::Path::new("/dev/null"))
        && std::fs::read_to_string(of("status")).is_ok_and(|text| text.contains("State:\tS"))
}

#[test]
fn no_nostray_process_runs_while_ten_thousand_messages_pass_nor_while_idle() {
    for user in User::all() {
        let scene = Scene::new(user);
        let mut process = run_command(&scene, &["--eof-grace", "1m"], &["echo"]).spawn().expect("start");
        let mut input = process.stdin.take().expect("piped");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut exchange = |line: &str| {
            input.write_all(line.as_bytes()).expect("write");
            let mut back = String::new();
            output.read_line(&mut back).expect("read");
            assert_eq!(back, line);
        };
        exchange("first\n");
        let own = own_processes(&scene);
        // The keepers tidy up once, a moment after the start. Then they have nothing left to do.
        let mut last = times_all_run(&own);
        let mut same = 0;
        badchild::wait_until("the keepers have settled", || {
            let now = times_all_run(&own);
            let settled = [&own.front, &own.spare, &own.guard].into_iter().all(has_settled);
            same = if settled && now == last { same + 1 } else { 0 };
            last = now;
            same > 30
        });
        let message = format!("{}\n", "x".repeat(199));
        for _ in 0..10_000 {
            exchange(&message);
        }
        assert_eq!(times_all_run(&own), last, "front, spare or guard ran while messages passed");
        let woke = comes_true(Duration::from_secs(1), &mut || times_all_run(&own) != last);
        assert!(!woke, "front, spare or guard ran while nothing happened");
        drop(input);
        assert_eq!(process.wait().expect("wait").code(), Some(0));
        scene.expect_empty();
    }
}
