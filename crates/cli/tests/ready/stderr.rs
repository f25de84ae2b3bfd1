//! `--ready-line`: the child's stderr passes through the guard. Neither host nor child sees a difference.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use badchild::{Found, Scene, User, pid, wait_until};
use nostray_sys::Signal;
use testkit::puppet::{Puppet, wait_until_quiet};
use testkit::stage::Stage;
use testkit::{nostray, own_processes};

const WAYS: [&[&str]; 2] = [&[], &["--isolate", "pid"]];

/// `nostray run --ready-line up OPTIONS -- python3 -c SCRIPT`, all of whose streams are pipes.
fn start(scene: &Scene, options: &[&str], script: &str) -> Child {
    let mut command = scene.command(&nostray());
    command.args(["run", "--ready-line", "up"]).args(options).args(["--", "python3", "-c", script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start nostray")
}

/// Random bytes with lines of many lengths; the same seed gives the same bytes.
const NOISE: &str = "import os, random, sys\nnoise = random.Random(SEED).randbytes(SIZE)\n";

fn noise(size: usize) -> String {
    NOISE.replace("SEED", "7").replace("SIZE", &size.to_string())
}

/// The same bytes, as Python makes them.
fn expected(size: usize) -> Vec<u8> {
    let script = format!("{}os.write(1, b'') or sys.stdout.buffer.write(noise)", noise(size));
    Command::new("python3").args(["-c", &script]).output().expect("run python3").stdout
}

/// A sleep is right here: reading late is what is tested.
#[test]
fn every_byte_of_a_burst_arrives_although_the_host_reads_late() {
    const SIZE: usize = 10 << 20;
    let expected = expected(SIZE);
    for user in User::all() {
        for way in WAYS {
            let scene = Scene::new(user);
            let script = format!("{}sys.stderr.buffer.write(noise); sys.stderr.flush(); os._exit(3)", noise(SIZE));
            let mut process = start(&scene, way, &script);
            // Long enough for a child that does not wait for its reader to end. The test gets no event while the child
            // waits.
            std::thread::sleep(Duration::from_millis(700));
            assert!(
                process.try_wait().expect("wait").is_none(),
                "the child must wait: it writes more than the pipes hold"
            );
            let mut got = Vec::new();
            process.stderr.take().expect("piped").read_to_end(&mut got).expect("read");
            assert_eq!(process.wait().expect("wait").code(), Some(3));
            assert!(got == expected, "{} bytes, not {}", got.len(), expected.len());
            scene.expect_empty();
        }
    }
}

/// More than the host's pipe holds, and less than both pipes hold: the child can end before the host has read it.
#[test]
fn output_that_a_child_wrote_before_it_ended_arrives_before_the_front_ends() {
    const SIZE: usize = 100_000;
    let expected = expected(SIZE);
    for way in WAYS {
        let stage = Stage::new();
        let script = format!("{}sys.stderr.buffer.write(noise); sys.stderr.flush(); os._exit(4)", noise(SIZE));
        let mut process = start(&stage.scene, way, &script);
        wait_until("the guard has seen the child's end", || stage.journal().contains("the child exited with code 4"));
        assert!(process.try_wait().expect("wait").is_none(), "the front must not end before the host has read");
        let mut got = Vec::new();
        process.stderr.take().expect("piped").read_to_end(&mut got).expect("read");
        assert_eq!(process.wait().expect("wait").code(), Some(4));
        assert!(got == expected, "{} bytes", got.len());
        stage.scene.expect_empty();
    }
}

#[test]
fn a_host_that_closes_stdin_and_does_not_read_stderr_ends_the_tree() {
    for way in WAYS {
        let scene = Scene::new(User::Current);
        let script = format!("{}sys.stderr.buffer.write(noise); sys.stderr.flush()", noise(1 << 20));
        let options = [way, &["--eof-grace", "200ms", "--term-grace", "200ms"]].concat();
        let mut process = start(&scene, &options, &script);
        wait_until("the child runs", || !scene.those_with("randbytes").is_empty());
        drop(process.stdin.take());
        // The host holds its end of stderr, and reads nothing.
        let mut code = None;
        wait_until("the front ends", || {
            code = process.try_wait().expect("wait");
            code.is_some()
        });
        scene.expect_empty();
    }
}

#[test]
fn a_host_that_never_reads_and_then_dies_leaves_no_process() {
    const HOST: &str = "import subprocess, sys, time\n\
        process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stderr=subprocess.PIPE)\n\
        print(process.pid, flush=True)\n\
        time.sleep(1000)";
    for way in WAYS {
        let scene = Scene::new(User::Current);
        let mut host = scene.command("python3".as_ref());
        host.args(["-c", HOST]).arg(nostray()).args(["run", "--ready-line", "up"]).args(way);
        host.args(["--eof-grace", "100ms", "--term-grace", "200ms", "--", "sh", "-c", "yes noise >&2"]);
        let mut host = host.stdout(Stdio::piped()).spawn().expect("start");
        let mut line = String::new();
        BufReader::new(host.stdout.take().expect("piped")).read_line(&mut line).expect("read");
        let front = Found::by_pid(pid(line.trim().parse().expect("a number"))).expect("is there");
        wait_until("there is a guard", || guard_of(&scene).is_some());
        wait_until_quiet(&guard_of(&scene).expect("is there"));
        assert!(front.is_alive());
        host.kill().expect("kill");
        host.wait().expect("wait");
        scene.expect_empty();
    }
}

fn guard_of(scene: &Scene) -> Option<Found> {
    scene.processes().into_iter().find(|found| found.stat.name == "nostray-guard")
}

/// The host's stderr is a pipe or a terminal that no process reads.
#[test]
fn a_pen_whose_host_does_not_read_can_be_stopped() {
    let (reader, writer) = std::io::pipe().expect("pipe");
    let (terminal, name) = badchild::open_terminal().expect("a terminal");
    let slave = std::fs::File::options().write(true).open(name).expect("open");
    for stderr in [Stdio::from(writer), Stdio::from(slave)] {
        let mut puppet = Puppet::start_on(Stage::new(), &["--ready-line", "up"], |command| {
            command.stderr(stderr);
        });
        let flood = "threading.Thread(target=lambda: [say('x' * 1000) for _ in range(10**9)], daemon=True).start()";
        puppet.does(flood);
        puppet.wait_until_quiet();
        assert_eq!(puppet.state(), "starting");
        let output = puppet.stage.nostray(&["stop", "--all"]);
        assert!(output.status.success(), "{output:?}");
        puppet.caller.code();
        puppet.stage.scene.expect_empty();
    }
    drop((reader, terminal));
}

#[test]
fn stderr_that_is_a_terminal_gets_every_byte() {
    let (terminal, name) = badchild::open_terminal().expect("a terminal");
    let slave = std::fs::File::options().write(true).open(name).expect("open");
    let mut puppet = Puppet::start_on(Stage::new(), &["--ready-line", "up"], |command| {
        command.stderr(slave);
    });
    puppet.begins(r"say('y' * 300_000); say('\nup\n')");
    let (mut terminal, mut got) = (std::fs::File::from(terminal), Vec::new());
    let mut buffer = [0; 4096];
    while !got.ends_with(b"up\r\n") {
        let count = terminal.read(&mut buffer).expect("read");
        got.extend(&buffer[..count]);
    }
    assert_eq!(got.len(), 300_000 + "\r\nup\r\n".len());
    puppet.has_done_it();
    puppet.wait_for("ready");
    puppet.end();
}

#[test]
fn the_spare_or_front_that_takes_over_from_a_killed_guard_passes_stderr_on() {
    let script = "import os, signal, sys, time\n\
        def end(*_):\n    os.write(2, b'x' * 50_000 + b'bye\\n')\n    os._exit(5)\n\
        signal.signal(signal.SIGTERM, end)\n\
        os.write(2, b'hello\\n')\n\
        while True: time.sleep(1000)";
    for also_spare in [false, true] {
        let scene = Scene::new(User::Current);
        let mut process = start(&scene, &[], script);
        let mut stderr = BufReader::new(process.stderr.take().expect("piped"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("read");
        assert_eq!(line, "hello\n");
        let own = own_processes(&scene);
        if also_spare {
            own.spare.send(Signal::STOP); // so that it does not take over before it is killed, too
            own.guard.send(Signal::KILL);
            own.spare.send(Signal::KILL);
        } else {
            own.guard.send(Signal::KILL);
        }
        let mut rest = String::new();
        stderr.read_to_string(&mut rest).expect("read");
        assert!(rest.contains("the guard was killed"), "{rest}");
        assert!(rest.contains(&"x".repeat(50_000)) && rest.contains("bye\n"), "{} bytes", rest.len());
        process.wait().expect("wait");
        scene.expect_empty();
    }
}

#[test]
fn a_host_that_closes_its_end_of_stderr_does_not_end_the_child() {
    let mut puppet = Puppet::start_on(Stage::new(), &["--ready-line", "up"], |command| {
        let (reader, writer) = std::io::pipe().expect("pipe");
        drop(reader);
        command.stderr(writer);
    });
    puppet.does(r"say('nobody reads this\n' * 100_000)");
    assert_eq!(puppet.state(), "starting");
    puppet.does(r"say('up\n')");
    puppet.wait_for("ready");
    puppet.end();
}

#[test]
fn a_host_without_stderr_has_a_child_that_can_be_ready() {
    let scene = Scene::new(User::Current);
    let script = format!(
        "exec 2>&-; exec {} run --ready-line up -- sh -c 'echo up >&2 && echo written; read x'",
        nostray().display()
    );
    let mut command = scene.command("sh".as_ref());
    let mut process =
        command.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "written\n");
    drop(process.stdin.take());
    process.wait().expect("wait");
    scene.expect_empty();
}

#[test]
fn stderr_that_is_a_file_is_appended_to() {
    let stage = Stage::new();
    let path = stage.file("errors");
    std::fs::write(&path, "before\n").expect("write");
    let file = std::fs::File::options().append(true).open(&path).expect("open");
    let mut puppet = Puppet::start_on(stage, &["--ready-line", "up"], |command| {
        command.stderr(file);
    });
    puppet.does(r"say('x' * 200_000); say('\nup\n')");
    puppet.wait_for("ready");
    let text = std::fs::read_to_string(path).expect("read");
    assert_eq!(text, format!("before\n{}\nup\n", "x".repeat(200_000)));
    puppet.end();
}
