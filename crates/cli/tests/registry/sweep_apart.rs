//! The sweep that `run` starts in the background may take as long as the graces of the dead pens. No host waits for it.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Instant;

use badchild::{PATIENCE, Scene, User, badchild, wait_until};
use nostray_sys::Signal;
use testkit::{nostray, own_processes, run_command};

/// Leaves a dead pen whose tree ignores every signal and has a long grace.
fn leave_dead_pen(scene: &Scene) {
    let options = ["--no-sweep", "--eof-grace", "0s", "--term-grace", "2m"];
    let mut process = run_command(scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    let own = own_processes(scene);
    testkit::wait_until_on_record(scene, &own.guard);
    // Stop all keepers first, so that none acts on the death of another.
    [&own.front, &own.spare, &own.guard].iter().for_each(|found| found.send(Signal::STOP));
    // The outermost keeper first: the end of spare and guard continues a stopped front.
    [&own.front, &own.spare, &own.guard].iter().for_each(|found| found.send(Signal::KILL));
    process.wait().expect("reap");
    wait_until("the keepers are gone", || ![&own.front, &own.spare, &own.guard].iter().any(|found| found.is_alive()));
}

/// A host that reads stdout and stderr to their end waits for the command, not for the sweep in the background.
#[test]
fn a_sweep_does_not_hold_the_hosts_streams_open() {
    for managed in [false, true] {
        let scene = Scene::apart(User::Current);
        leave_dead_pen(&scene);
        let mut command = scene.command(&nostray());
        command.arg("run");
        if managed {
            command.args(["--respawn", "--", "cat"]);
        } else {
            command.arg("--").arg(badchild()).arg("echo");
        }
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        wait_until("the sweep runs", || scene.processes().iter().any(|found| found.stat.name == "nostray-sweep"));
        let began = Instant::now();
        drop(process.stdin.take());
        for stream in
            [&mut process.stdout.take().expect("piped") as &mut dyn Read, &mut process.stderr.take().expect("piped")]
        {
            stream.read_to_end(&mut Vec::new()).expect("read");
        }
        assert_eq!(process.wait().expect("reap").code(), Some(0), "managed: {managed}");
        assert!(began.elapsed() < PATIENCE, "managed: {managed}: took {:?}", began.elapsed());
        assert!(
            scene.processes().iter().any(|found| found.stat.name == "nostray-sweep"),
            "the sweep has ended already, so this test proves nothing"
        );
    }
}
