//! A sweep that a run does beside its own work may take as long as the dead were promised; nobody has to wait for it.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Instant;

use badchild::{PATIENCE, Scene, User, badchild, wait_until};
use nostray_sys::Signal;
use testkit::{nostray, own_processes, run_command};

/// A dead pen whose tree ignores everything, and was promised time.
fn leave_dead_pen(scene: &Scene) {
    let options = ["--no-sweep", "--eof-grace", "0s", "--term-grace", "2m"];
    let mut process = run_command(scene, &options, &["tree", "stubborn", "setsid"]).spawn().expect("start");
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut String::new()).expect("ready");
    let own = own_processes(scene);
    testkit::wait_until_on_record(scene, &own.guard);
    // Stopped first, so that none of them acts on the death of another.
    [&own.front, &own.spare, &own.guard].iter().for_each(|found| found.send(Signal::STOP));
    // The outermost first: the end of spare and guard continues a front that is stopped.
    [&own.front, &own.spare, &own.guard].iter().for_each(|found| found.send(Signal::KILL));
    process.wait().expect("reap");
    wait_until("they are gone", || ![&own.front, &own.spare, &own.guard].iter().any(|found| found.is_alive()));
}

/// Whoever waits for the end of a command's output and errors waits for the command, and not for the sweep beside it.
#[test]
fn a_sweep_holds_nothing_that_somebody_waits_for() {
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
        wait_until("it sweeps", || scene.processes().iter().any(|found| found.stat.name == "nostray-sweep"));
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
            "it has ended already, and this test shows nothing"
        );
    }
}
