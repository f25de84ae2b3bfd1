//! What the child gets of its host, and the host of its child: streams, handles, directory, environment, exit code.

use under_wine::Stage;

fn code_of(stage: &Stage, command: &[String]) -> String {
    let mut host = stage.host("waits", command);
    let code = stage.told("code");
    host.wait().expect("ended");
    std::fs::remove_file(stage.folder().join("code")).expect("removed");
    code
}

#[test]
fn exit_codes_have_all_32_bits() {
    let stage = Stage::new("codes");
    for code in ["0", "1", "125", "255", "256", "65536", "2147483648", "3221225786", "4294967295"] {
        assert_eq!(code_of(&stage, &stage.contained(&[], "exit", &[code])), code);
    }
    assert_eq!(code_of(&stage, &stage.contained(&[], "crash", &[])), "3221225477", "an access violation");
}

#[test]
fn a_command_that_is_not_there() {
    let stage = Stage::new("missing");
    let words = ["run", "--", "no-such-program-at-all", &stage.token];
    let said = stage.run("nostray.exe", &words);
    assert_eq!(said.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&said.stderr).contains("not found"), "{said:?}");
    std::fs::write(stage.folder().join("text.exe"), "no program").expect("written");
    let said = stage.run("nostray.exe", &["run", "--", &stage.path("text.exe"), &stage.token]);
    assert_eq!(said.status.code(), Some(126), "{said:?}");
}

#[test]
fn what_is_not_there_yet_says_so() {
    let stage = Stage::new("elsewhere");
    for (words, code) in [
        (&["share", "--", "x"][..], 125),
        (&["top"][..], 2),
        (&["run", "--respawn", "--", "x"][..], 125),
        (&["run", "--ready-port", "80", "--", "x"][..], 125),
        (&["run", "--hibernate=5m", "--", "x"][..], 125),
        (&["run", "--slot", "x", "--if-taken", "share", "--", "x"][..], 125),
        (&["run", "--slot=x", "--if-taken=share", "--", "x"][..], 125),
    ] {
        let said = stage.run("nostray.exe", words);
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(text.contains("not there yet on Windows") && text.contains("`run`"), "{words:?}: {text}");
        assert_eq!(said.status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn streams_are_the_hosts_own() {
    let stage = Stage::new("talks");
    let mut host = stage.host("talks", &stage.contained(&[], "echo", &[]));
    assert_eq!(stage.told("said"), "hello then the end");
    assert_eq!(stage.told("code"), "3");
    host.wait().expect("ended");
}

#[test]
fn a_child_that_closes_its_output_is_seen_to_do_so() {
    let stage = Stage::new("reads");
    let mut host = stage.host("reads", &stage.contained(&["--eof-grace", "0s"], "mute", &[]));
    assert_eq!(stage.told("said"), "the end", "nostray does not hold it open");
    assert!(stage.find(" mute ").is_some(), "and the child lives");
    stage.go();
    host.wait().expect("ended");
    stage.time_until_empty();
}

#[test]
fn no_other_handle_is_inherited() {
    let stage = Stage::new("handles");
    // A control: without nostray, the child sets the event of its host.
    assert_eq!(event_after(&stage, &stage.badchild("set", &[])), ("1".to_owned(), "0".to_owned()));
    let (event, _) = event_after(&stage, &stage.contained(&[], "set", &[]));
    assert_eq!(event, "0", "the handle is not the child's");
}

fn event_after(stage: &Stage, command: &[String]) -> (String, String) {
    let mut host = stage.host("handle", command);
    let code = stage.told("code");
    host.wait().expect("ended");
    let event = stage.told("event");
    ["event", "code"].iter().for_each(|name| std::fs::remove_file(stage.folder().join(name)).expect("removed"));
    (event, code)
}

#[test]
fn the_directory_is_the_hosts() {
    let stage = Stage::new("where");
    let mut words = stage.contained(&[], "where", &[]);
    words.remove(0);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    assert!(stage.run("nostray.exe", &words).status.success());
    assert_eq!(stage.told("directory"), as_seen(&stage));
    // Without a variable and without --argv0, for the test below.
    assert_eq!(stage.told("variable"), "");
    assert!(stage.told("called").ends_with("badchild.exe"));
}

#[test]
fn the_environment_and_the_name_arrive() {
    let stage = Stage::new("environment");
    let mut words = stage.contained(&["--argv0", "another name"], "where", &[]);
    words.remove(0);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let value = "a  b;c=d & e";
    assert!(stage.run_with(&[("NOSTRAY_TEST", value)], "nostray.exe", &words).status.success());
    assert_eq!(stage.told("variable"), value);
    assert_eq!(stage.told("called"), "another name");
}

#[test]
fn what_happens_is_appended_to_the_log_file() {
    let stage = Stage::new("log-file");
    std::fs::write(stage.folder().join("what.log"), "before\n").expect("written");
    let path = stage.path("what.log");
    assert_eq!(code_of(&stage, &stage.contained(&["--log-file", &path], "exit", &["4"])), "4");
    let log = std::fs::read_to_string(stage.folder().join("what.log")).expect("read");
    for line in ["before\n", "started", "exited with 4", "nothing is left of the tree"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

fn as_seen(stage: &Stage) -> String {
    stage.path("").trim_end_matches('\\').to_owned()
}
