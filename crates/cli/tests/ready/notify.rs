//! `--ready-notify`: a child reports that it is ready, its status, that it is stopping, and that it needs more time.

use std::process::Stdio;
use std::time::{Duration, Instant};

use badchild::{Scene, User, wait_until};
use testkit::puppet::{Puppet, now};
use testkit::stage::Stage;

const WAYS: [&[&str]; 2] = [&[], &["--isolate", "pid"]];

fn start(options: &[&str]) -> Puppet {
    Puppet::start(&[&["--ready-notify"], options].concat())
}

#[test]
fn a_child_reports_that_it_is_ready_and_its_status() {
    for user in User::all() {
        for way in WAYS {
            let options = [&["--ready-notify"], way].concat();
            let mut puppet = Puppet::start_on(Stage::for_user(user), &options, |command| {
                command.env("NOTIFY_SOCKET", "/run/systemd/notify"); // the child must not get the host's socket
            });
            puppet.does("assert os.environ['NOTIFY_SOCKET'].startswith('@nostray-notify-')");
            assert!(puppet.shown()["status"].is_null());
            puppet.does(r"notify('STATUS=warming \x1bup\n')");
            wait_until("the status is shown", || puppet.shown()["status"] == "warming up");
            assert_eq!(puppet.state(), "starting");
            let before = now();
            puppet.does(r"notify('MAINPID=%d\nREADY=1\nSTATUS=serving\nERRNO=2' % os.getpid())");
            assert!(puppet.wait_for("ready") >= before);
            wait_until("the status is shown", || puppet.shown()["status"] == "serving");
            puppet.does("notify('READY=1')");
            puppet.does("notify('STATUS=')");
            wait_until("the status is taken back", || puppet.shown()["status"].is_null());
            assert_eq!(puppet.times_ready(), 1, "{:?}", puppet.story());
            puppet.end();
        }
    }
}

#[test]
fn garbage_does_no_harm() {
    let mut puppet = start(&[]);
    for garbage in [
        r"b''",
        r"b'\0' * 100",
        r"os.urandom(4000)",
        r"b'READY=1\n' + b'x' * 100_000",
        r"b'READY=0\nREADY=\nREADY\n=\nready=1\nEXTEND_TIMEOUT_USEC=banana'",
    ] {
        puppet.does(&format!("notify({garbage})"));
    }
    // The guard closes descriptors that come with a message, and survives a flood.
    puppet.does("s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:]); kept.append(s)");
    puppet.does("[socket.send_fds(kept[0], [b'FDSTORE=1'], [0, 1, 2]) for _ in range(100)]");
    let files = || std::fs::read_dir(format!("/proc/{}/fd", puppet.guard().stat.pid)).expect("is there").count();
    let before = files();
    puppet.does("[kept[0].send(b'STATUS=%d' % n) for n in range(2000)]");
    wait_until("the last status is shown", || puppet.shown()["status"] == "1999");
    let files = || std::fs::read_dir(format!("/proc/{}/fd", puppet.guard().stat.pid)).expect("is there").count();
    wait_until("the descriptors are closed", || files() <= before);
    assert_eq!(puppet.state(), "starting");
    puppet.does("notify('READY=1')");
    puppet.wait_for("ready");
    puppet.end();
}

#[test]
fn messages_of_another_user_are_ignored() {
    if User::all().len() == 1 {
        return; // only root can become another user
    }
    let mut puppet = start(&[]);
    let name = format!("nostray-notify-{}", puppet.shown()["id"].as_str().expect("an id"));
    let script = "import socket, sys\n\
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
        s.connect('\\0' + sys.argv[1])\n\
        s.send(b'READY=1\\nSTATUS=lies')";
    let other = Scene::new(User::Nobody);
    let mut sender = other.command("python3".as_ref());
    let sent = sender.args(["-c", script, &name]).stdin(Stdio::null()).output().expect("run python3");
    assert!(sent.status.success(), "{sent:?}");
    // Messages stay in order: when the guard has read this one, it has read the other user's.
    puppet.does("notify('STATUS=true')");
    wait_until("the status is shown", || puppet.shown()["status"] == "true");
    assert_eq!(puppet.state(), "starting");
    puppet.end();
}

#[test]
fn a_child_reports_that_it_is_stopping() {
    let mut puppet = start(&[]);
    puppet.does("notify('READY=1')");
    puppet.wait_for("ready");
    let before = now();
    puppet.does("notify('STOPPING=1')");
    assert!(puppet.wait_for("stopping") >= before);
    assert_eq!(puppet.shown()["reason"], "the child says that it is stopping");
    // The journal entry follows the record with a short delay.
    let expected = "stopping: the child says that it is stopping";
    wait_until("the journal has the reason", || puppet.story().last().is_some_and(|line| line == expected));
    puppet.end();
}

#[test]
fn a_known_reason_is_not_replaced_by_the_childs_report() {
    let mut puppet = start(&[]);
    puppet.does("import atexit; atexit.register(lambda: notify('STOPPING=1'))");
    puppet.caller.close();
    assert_eq!(puppet.caller.code(), 0);
    puppet.stage.scene.expect_empty();
    let story = puppet.story();
    assert!(story.iter().any(|line| line == "stopping: stdin was closed"), "{story:?}");
    assert!(!story.iter().any(|line| line.contains("says that")), "{story:?}");
}

/// A sleep is right here: it is time that is tested.
#[test]
fn a_child_that_asks_for_more_time_to_be_ready_gets_it() {
    let mut puppet = start(&["--ready-timeout", "8s"]);
    let started = Instant::now();
    puppet.does("notify('EXTEND_TIMEOUT_USEC=30000000')");
    std::thread::sleep(Duration::from_millis(8500).saturating_sub(started.elapsed()));
    assert_eq!(puppet.state(), "starting");
    puppet.does("notify('READY=1')");
    puppet.wait_for("ready");
    puppet.end();
}

#[test]
fn a_request_for_less_time_does_not_shorten_the_ready_timeout() {
    let started = Instant::now();
    let mut puppet = start(&["--ready-timeout", "8s"]);
    puppet.does("notify('EXTEND_TIMEOUT_USEC=1')");
    assert_eq!(puppet.caller.code(), 143);
    assert!(started.elapsed() >= Duration::from_secs(8));
    assert!(puppet.caller.errors().contains("it did not send READY=1"), "{}", puppet.caller.errors());
    puppet.stage.scene.expect_empty();
}

/// The child needs longer than its graces to flush. It asks for more time step by step, and uses it.
#[test]
fn a_child_that_asks_for_more_time_to_end_gets_it() {
    let code = "exec('def end(*_):\\n for n in range(8):\\n  notify(\"EXTEND_TIMEOUT_USEC=5000000\")\\n  time.sleep(0.7)\\n \
                open(\"flushed\", \"w\").close()\\n os._exit(9)\\nsignal.signal(signal.SIGTERM, end)')";
    for way in WAYS {
        let mut puppet = start(&[&["--eof-grace", "100ms", "--term-grace", "4s"], way].concat());
        puppet.does(code);
        puppet.does("notify('READY=1')");
        assert!(puppet.stage.nostray(&["stop", "--all"]).status.success());
        assert_eq!(puppet.caller.code(), 9, "{:?}", puppet.story());
        assert!(puppet.stage.folder.path().join("flushed").exists());
        puppet.stage.scene.expect_empty();
    }
}

#[test]
fn stop_now_does_not_wait_for_a_child_that_asked_for_more_time() {
    let mut puppet = start(&["--eof-grace", "100ms", "--term-grace", "10s"]);
    let code = "exec('def end(*_):\\n notify(\"EXTEND_TIMEOUT_USEC=3600000000\")\\n say(\"asked\")\\nsignal.signal(signal.SIGTERM, end)')";
    puppet.does(code);
    puppet.caller.process.stdin.take();
    let front = puppet.stage.own().into_iter().find(|found| found.stat.name == "nostray").expect("a front");
    front.send(nostray_sys::Signal::TERM);
    wait_until("the child has asked for more time", || puppet.caller.errors().contains("asked"));
    let output = puppet.stage.nostray(&["stop", "--now", "--all"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(puppet.caller.code(), 137, "{:?}", puppet.story());
    puppet.stage.scene.expect_empty();
}

#[test]
fn the_report_of_a_supervised_child_is_shown() {
    let script = "
import json, os, socket, sys
for line in sys.stdin:
    call = json.loads(line)
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:])
    s.send(call['params'].encode())
    print(json.dumps({'jsonrpc': '2.0', 'id': call['id'], 'result': {}}), flush=True)
";
    let stage = Stage::new();
    let options = ["--respawn", "--protocol", "jsonrpc", "--ready-notify"];
    let mut caller = stage.start_command(&options, &["python3", "-c", script]);
    let shown = || {
        let output = stage.nostray(&["ps", "--json"]);
        let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (shown["pens"][0]["state"].clone(), shown["pens"][0]["status"].clone())
    };
    caller.result("tell", "STATUS=loading".into());
    wait_until("the report is shown", || shown() == ("starting".into(), "loading".into()));
    caller.result("tell", "READY=1\nSTATUS=up".into());
    wait_until("the report is shown", || shown() == ("ready".into(), "up".into()));
    caller.result("tell", "STOPPING=1".into());
    wait_until("the report is shown", || shown().0 == "stopping");
    caller.end(&stage);
}
