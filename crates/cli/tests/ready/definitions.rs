//! `--ready-...`: a child is ready when its definition is met and not before, and an idle child that is ready costs
//! nothing.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use badchild::{Folder, User, wait_until};
use serde_json::json;
use testkit::nostray;
use testkit::puppet::{Puppet, now};
use testkit::stage::Stage;

/// With and without a pid namespace.
const WAYS: [&[&str]; 2] = [&[], &["--isolate", "pid"]];

fn with<'a>(options: &[&'a str], way: &[&'a str]) -> Vec<&'a str> {
    [options, way].concat()
}

/// The number of processes `sleep SECONDS` in the tree.
fn sleepers(puppet: &Puppet, seconds: u32) -> usize {
    let command = format!("sleep {seconds}");
    puppet.stage.trees().iter().filter(|found| found.command == command).count()
}

#[test]
fn without_a_definition_a_child_is_ready_as_soon_as_it_is_started() {
    let puppet = Puppet::start(&[]);
    puppet.wait_for("ready");
    puppet.is_told_ready_once();
    puppet.end();
}

#[test]
fn a_line_on_stderr_that_matches_makes_the_child_ready() {
    for user in User::all() {
        for way in WAYS {
            let options = with(&["--ready-line", r"^listening on \d+$"], way);
            let mut puppet = Puppet::start_on(Stage::for_user(user), &options, |_| {});
            puppet.does(r"say('not listening on 80\n'); say('listening on 8')");
            // The guard has examined what it has passed on.
            wait_until("the line arrives", || puppet.caller.errors().ends_with("listening on 8"));
            assert_eq!(puppet.state(), "starting");
            let before = now();
            puppet.does(r"say('0\n')");
            assert!(puppet.wait_for("ready") >= before);
            puppet.does(r"say('listening on 81\n')");
            wait_until("the line arrives", || puppet.caller.errors().ends_with("81\n"));
            assert_eq!(puppet.times_ready(), 1, "{:?}", puppet.story());
            puppet.end();
        }
    }
}

#[test]
fn a_port_on_which_a_process_of_the_tree_listens_makes_the_child_ready_and_a_strangers_port_does_not() {
    for user in User::all() {
        for way in WAYS {
            let stranger = TcpListener::bind("127.0.0.1:0").expect("listen");
            let port = stranger.local_addr().expect("is bound").port().to_string();
            let options = with(&["--ready-port", &port], way);
            let mut puppet = Puppet::start_on(Stage::for_user(user), &options, |_| {});
            puppet.wait_for_looks();
            assert_eq!(puppet.state(), "starting", "the stranger's port must not count");
            let before = now();
            // A descendant listens, in a session of its own.
            puppet.does(&format!(
                r"exec('if os.fork() == 0:\n os.setsid()\n kept.append(socket.create_server((\'127.0.0.2\', {port})))\n time.sleep(1000)')"
            ));
            assert!(puppet.wait_for("ready") >= before);
            drop(stranger);
            puppet.end();
        }
    }
}

#[test]
fn a_port_counts_only_on_the_given_address() {
    // Reserve the port on an address that the puppet does not use, so that no other process gets the same port.
    let reserved = TcpListener::bind("127.0.0.1:0").expect("listen");
    let free = reserved.local_addr().expect("is bound").port();
    let mut puppet = Puppet::start(&["--ready-port", &format!("127.0.0.3:{free}")]);
    puppet.does(&format!("kept.append(socket.create_server(('127.0.0.2', {free})))"));
    puppet.wait_for_looks();
    assert_eq!(puppet.state(), "starting", "a port on another address must not count");
    puppet.does(&format!("kept.append(socket.create_server(('127.0.0.3', {free})))"));
    puppet.wait_for("ready");
    puppet.end();
    if TcpListener::bind(("::1", free)).is_ok() {
        let mut puppet = Puppet::start(&["--ready-port", &format!("[::1]:{free}")]);
        puppet.does(&format!("kept.append(socket.create_server(('::1', {free}), family=socket.AF_INET6))"));
        puppet.wait_for("ready");
        puppet.end();
    }
}

#[test]
fn a_new_file_makes_the_child_ready_and_a_file_of_an_earlier_run_does_not() {
    for way in WAYS {
        let stage = Stage::new();
        std::fs::write(stage.file("pid"), "stale").expect("write");
        let mut puppet = Puppet::start_on(stage, &with(&["--ready-file", "pid"], way), |_| {});
        puppet.wait_for_looks();
        assert_eq!(puppet.state(), "starting", "a stale file must not count");
        puppet.does("os.remove('pid')");
        puppet.wait_for_looks();
        assert_eq!(puppet.state(), "starting", "there is no file");
        let before = now();
        puppet.does("open('pid', 'w').close()");
        assert!(puppet.wait_for("ready") >= before);
        puppet.end();
    }
}

#[test]
fn a_command_that_succeeds_inside_the_tree_makes_the_child_ready() {
    for user in User::all() {
        for way in WAYS {
            // The command runs in the child's directory, with the mark in its environment, without input and without
            // other descriptors.
            let command = "test -e up && test -n \"$NOSTRAY_PEN\" && test \"$(readlink /proc/self/fd/0)\" = /dev/null \
                           && test -z \"$(ls /proc/self/fd | grep -v '^[0-3]$')\"";
            let options = with(&["--ready-cmd", command], way);
            let mut puppet = Puppet::start_on(Stage::for_user(user), &options, |_| {});
            puppet.wait_for_looks();
            assert_eq!(puppet.state(), "starting");
            let before = now();
            puppet.does("open('up', 'w').close()");
            assert!(puppet.wait_for("ready") >= before);
            puppet.is_told_ready_once();
            puppet.end();
        }
    }
}

#[test]
fn a_ready_command_that_hangs_ends_with_the_child_and_does_not_change_its_exit_code() {
    for way in WAYS {
        let mut puppet = Puppet::start(&with(&["--ready-cmd", "sleep 1000; true"], way));
        wait_until("the command hangs", || sleepers(&puppet, 1000) == 1);
        let started = Instant::now();
        puppet.begins("os._exit(7)");
        assert_eq!(puppet.caller.code(), 7, "{}", puppet.caller.errors());
        puppet.stage.scene.expect_empty();
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let story = puppet.story();
        assert!(!story.iter().any(|line| line.starts_with("ready") || line.starts_with("stopping")), "{story:?}");
    }
}

#[test]
fn a_ready_command_that_hangs_is_killed_after_a_while_and_tried_again() {
    let puppet = Puppet::start(&["--ready-cmd", "echo x >> tries; trap '' TERM; sleep 1000; true"]);
    let tries = puppet.stage.folder.path().join("tries");
    wait_until("the command is tried again", || std::fs::read(&tries).is_ok_and(|tries| tries.len() >= 4));
    assert!(sleepers(&puppet, 1000) <= 1, "a process of the first try is left: {:#?}", puppet.stage.trees());
    puppet.end();
}

#[test]
fn processes_that_a_ready_command_leaves_behind_end_with_it() {
    for way in WAYS {
        let command = "echo x >> tries; sleep 1001 & setsid sleep 1001 & (setsid setsid sleep 1001 &) ; exit 1";
        let puppet = Puppet::start(&with(&["--ready-cmd", command], way));
        let tries = puppet.stage.folder.path().join("tries");
        wait_until("the command is tried often", || std::fs::read(&tries).is_ok_and(|tries| tries.len() >= 12));
        assert!(sleepers(&puppet, 1001) <= 3, "a process of an earlier try is left: {:#?}", puppet.stage.trees());
        puppet.end();
    }
}

#[test]
fn a_guard_that_is_killed_while_a_ready_command_runs_leaves_no_process() {
    for way in WAYS {
        let mut puppet = Puppet::start(&with(&["--ready-cmd", "trap '' TERM; sleep 1002; true"], way));
        wait_until("the command runs", || sleepers(&puppet, 1002) == 1);
        puppet.guard().send(nostray_sys::Signal::KILL);
        puppet.caller.code();
        puppet.stage.scene.expect_empty();
    }
}

/// A sleep is right here: it is time that is tested.
#[test]
fn once_the_child_is_ready_the_guard_stops_polling() {
    let reserved = TcpListener::bind("127.0.0.1:0").expect("listen");
    let free = reserved.local_addr().expect("is bound").port().to_string();
    for options in
        [["--ready-line", "up"], ["--ready-port", &free], ["--ready-file", "up"], ["--ready-cmd", "test -e up"]]
    {
        let mut puppet = Puppet::start(&options);
        puppet.does(&format!(
            "say('up\\n'); open('up', 'w').close(); kept.append(socket.create_server(('127.0.0.2', {free})))"
        ));
        puppet.wait_for("ready");
        // Wait until the guard has finished the start.
        puppet.wait_until_quiet();
        // A sleep is right here: only time shows that the guard does not wake up.
        let before = puppet.naps();
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(puppet.naps(), before, "{options:?}");
        puppet.end();
    }
}

#[test]
fn a_child_that_is_not_ready_in_time_is_ended_and_the_cause_is_told() {
    for (options, cause) in [
        (&["--ready-line", "up"][..], "no line on its stderr matched 'up'"),
        (&["--ready-port", "localhost:1"], "nobody of its tree listened on localhost:1"),
        (&["--ready-file", "never"], "there was no new file "),
        (&["--ready-cmd", "exit 3"], "the command 'exit 3' did not succeed"),
        (&["--ready-notify"], "it did not send READY=1"),
    ] {
        for way in WAYS {
            let started = Instant::now();
            let stage = Stage::new();
            let options = with(&with(options, &["--ready-timeout", "400ms", "--term-grace", "20s"]), way);
            let mut caller = stage.start_command(&options, &["sleep", "1004"]);
            // By SIGTERM, since the child's stdin is open.
            assert_eq!(caller.code(), 143, "{}", caller.errors());
            assert!(started.elapsed() >= Duration::from_millis(400));
            let said = caller.errors();
            assert!(said.contains(&format!("nostray: it was not ready within 400ms: {cause}")), "{said}");
            stage.scene.expect_empty();
            assert!(stage.journal().contains("stopping: it was not ready within 400ms"), "{}", stage.journal());
        }
    }
}

/// A sleep is right here: it is time that is tested.
#[test]
fn a_child_that_is_ready_in_time_is_not_ended() {
    let mut puppet = Puppet::start(&["--ready-file", "up", "--ready-timeout", "8s"]);
    puppet.does("open('up', 'w').close()");
    puppet.wait_for("ready");
    std::thread::sleep(Duration::from_secs(8));
    assert_eq!(puppet.state(), "ready");
    puppet.end();
}

#[test]
fn commands_that_fail_do_not_keep_an_idle_tree_alive() {
    let mut puppet = Puppet::start(&["--ready-cmd", "sleep 0.3; false", "--idle-timeout", "3s"]);
    assert_eq!(puppet.caller.code(), 143);
    assert!(puppet.caller.errors().contains("idle for 3s"), "{}", puppet.caller.errors());
    puppet.stage.scene.expect_empty();
}

#[test]
fn a_supervised_child_answers_while_it_is_not_ready_yet() {
    for way in WAYS {
        let stage = Stage::new();
        let file = stage.file("up");
        let mut caller = stage.start(&with(&["--respawn", "--ready-file", &file], way), &[]);
        caller.initialize();
        caller.who();
        assert_eq!(stage.states(), ["starting"]);
        std::fs::write(&file, "").expect("write");
        wait_until("the child is ready", || stage.states() == ["ready"]);
        // For the next life the file is stale. Find the server by its token: in a pid namespace the record has another
        // pid.
        let servers = stage.servers();
        assert_eq!(servers.len(), 1, "{servers:#?}");
        servers[0].send(nostray_sys::Signal::KILL);
        wait_until("the next child has started", || stage.lives().len() == 2);
        caller.who();
        assert_eq!(stage.states(), ["starting"], "{}", stage.journal());
        std::fs::remove_file(&file).expect("remove");
        std::fs::write(&file, "").expect("write");
        wait_until("the child is ready again", || stage.states() == ["ready"]);
        caller.end(&stage);
    }
}

#[test]
fn a_supervised_child_that_is_not_ready_in_time_has_crashed() {
    let stage = Stage::new();
    let file = stage.file("never");
    let options = ["--respawn", "--backoff", "10ms..10ms", "--ready-file", &file, "--ready-timeout", "5s"];
    let mut caller = stage.start(&options, &[]);
    caller.initialize();
    let id = caller.ask("hang", json!({}));
    let answer = caller.answer(id);
    assert!(answer["error"].to_string().contains("--ready-timeout"), "{answer}");
    wait_until("the child is restarted", || stage.lives().len() >= 2);
    assert!(stage.journal().contains("it was not ready within 5s"), "{}", stage.journal());
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

const ANSWERS: &str = "
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    if call['method'] == 'say':
        print(call['params'], file=sys.stderr, flush=True)
    print(json.dumps({'jsonrpc': '2.0', 'id': call['id'], 'result': {}}), flush=True)
";

#[test]
fn a_line_of_a_supervised_child_counts_and_reaches_the_host() {
    let stage = Stage::new();
    let options = ["--respawn", "--protocol", "jsonrpc", "--ready-line", "^up$"];
    let mut caller = stage.start_command(&options, &["python3", "-c", ANSWERS]);
    caller.result("say", json!("warming"));
    wait_until("the line arrives", || caller.errors().contains("warming\n"));
    assert_eq!(stage.states(), ["starting"]);
    caller.result("say", json!("up"));
    wait_until("the child is ready", || stage.states() == ["ready"]);
    wait_until("the line arrives", || caller.errors().ends_with("up\n"));
    caller.end(&stage);
}

#[test]
fn without_a_definition_ready_timeout_limits_the_first_answer_of_a_supervised_child() {
    let stage = Stage::new();
    let options = ["--respawn", "--max-failures", "1/1m", "--ready-timeout", "300ms", "--protocol", "jsonrpc"];
    let mut caller = stage.start_command(&options, &["sleep", "1003"]);
    let answer = caller.call("anything", json!({}));
    assert!(answer["error"].to_string().contains("start"), "{answer}");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn wrong_options_start_no_child_and_say_what_to_do() {
    let folder = Folder::new("wrong");
    for (options, hint) in [
        (&["--ready-line", "listening on ("][..], "not a regular expression"),
        (&["--ready-port", "0"], "from 1 to 65535"),
        (&["--ready-port", "70000"], "from 1 to 65535"),
        (&["--ready-port", "example.org:80"], "names are not looked up"),
        (&["--ready-line", "x", "--ready-file", "y"], "cannot be used with"),
        (&["--ready-notify", "--ready-cmd", "true"], "cannot be used with"),
        (&["--ready-timeout", "5s"], "--ready-line"),
        (&["--ready-timeout", "0s", "--ready-notify"], "more than zero"),
    ] {
        let mut command = Command::new(nostray());
        command.arg("run").args(options).args(["--", "touch", "started"]).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{options:?}: {said}");
        assert!(said.contains(hint) && !said.contains("panic"), "{options:?}: {said}");
    }
    assert!(!folder.path().join("started").exists());
}
