//! Registry, `ps`, `stop`, `log` and `sweep`.

use under_wine::{DEADLINE, Stage, kill, within};

fn text(stage: &Stage, words: &[&str]) -> String {
    String::from_utf8(stage.run("nostray.exe", words).stdout).expect("text")
}

/// The id of the pen of this stage, once it is ready.
fn id_of(stage: &Stage) -> String {
    let line = within(DEADLINE, || {
        let listed = text(stage, &["ps", "--session", &stage.token]);
        listed.lines().find(|line| line.contains(" ready ")).map(str::to_owned)
    });
    line.expect("is listed").split_whitespace().next().expect("an id").to_owned()
}

fn play(name: &str, options: &[&str]) -> (Stage, String) {
    let stage = Stage::new(name);
    let mut host = stage.host("waits", &stage.contained(options, "tree", &[]));
    std::thread::spawn(move || host.wait().ok());
    stage.told("child");
    let id = id_of(&stage);
    (stage, id)
}

#[test]
fn a_child_is_listed_and_stopped() {
    let (stage, id) = play("stop", &[]);
    let json = text(&stage, &["ps", "--json", "--session", &stage.token]);
    assert!(json.contains("\"tier\": \"job\"") && json.contains("\"state\": \"ready\""), "{json}");
    // The parent of one of the six has ended, so that no link leads to that one. There may be a `conhost` as well.
    let processes = json
        .lines()
        .find_map(|line| line.trim().strip_prefix("\"processes\": ")?.trim_end_matches(',').parse::<u32>().ok());
    assert!(processes.is_some_and(|count| count >= 5), "the tree: {json}");
    let stopped = stage.run("nostray.exe", &["stop", &id]);
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(String::from_utf8_lossy(&stopped.stdout).contains("stopped"), "{stopped:?}");
    stage.told("code");
    stage.time_until_empty();
    let log = text(&stage, &["log"]);
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(&id)).collect();
    assert!(lines.iter().any(|line| line.contains("it was asked to stop")), "{lines:#?}");
    assert!(lines.last().is_some_and(|line| line.contains("nothing is left of it")), "{lines:#?}");
    assert!(!text(&stage, &["ps"]).contains(&id));
}

#[test]
fn a_child_is_stopped_at_once() {
    let (stage, id) = play("stop-now", &["--term-grace", "1h"]);
    assert!(stage.run("nostray.exe", &["stop", "--now", &id]).status.success());
    stage.time_until_empty();
}

#[test]
fn a_child_is_found_by_its_label_and_counted() {
    let stage = Stage::new("label");
    let label = format!("task={}", stage.token);
    let mut host = stage.host("waits", &stage.contained(&["--label", &label], "sleep", &["labelled"]));
    std::thread::spawn(move || host.wait().ok());
    stage.told("labelled");
    let id = id_of(&stage);
    let json = text(&stage, &["ps", "--json", "--session", &stage.token]);
    assert!(json.contains(&format!("\"task\": \"{}\"", stage.token)), "{json}");
    let metrics = text(&stage, &["metrics"]);
    let memory = metrics.lines().find(|line| line.starts_with("nostray_child_memory_bytes") && line.contains(&id));
    let bytes = memory.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(bytes.is_some_and(|bytes| bytes > 0.0), "{metrics}");
    let file = stage.path("nostray.prom");
    assert!(stage.run("nostray.exe", &["metrics", "--output", &file]).status.success());
    let written = std::fs::read_to_string(stage.folder().join("nostray.prom")).expect("written");
    assert!(written.contains("nostray_children{state=\"ready\"}"), "{written}");
    let words = text(&stage, &["complete", "children"]);
    assert!(words.lines().any(|line| line.starts_with(&id)), "{words}");
    assert_eq!(stage.run("nostray.exe", &["stop", "--label", "task=another"]).status.code(), Some(1));
    assert!(stage.find(" sleep ").is_some(), "it has another label");
    assert!(stage.run("nostray.exe", &["stop", "--label", &label]).status.success());
    stage.time_until_empty();
}

#[test]
fn completions_and_man_pages_are_printed_and_written() {
    let stage = Stage::new("pages");
    for (shell, head) in [("bash", "complete -"), ("zsh", "#compdef nostray"), ("fish", "complete -c nostray")] {
        let script = text(&stage, &["completions", shell]);
        assert!(script.contains(head) && script.contains("doctor"), "{shell}: {script}");
    }
    assert!(text(&stage, &["man"]).contains(".TH NOSTRAY 1"));
    assert!(text(&stage, &["man", "slot", "list"]).contains(".TH NOSTRAY-SLOT-LIST 1"));
    let folder = stage.folder().join("man");
    std::fs::create_dir(&folder).expect("made");
    assert!(stage.run("nostray.exe", &["man", "--dir", &stage.path("man")]).status.success());
    for page in ["nostray.1", "nostray-run.1", "nostray-doctor.1", "nostray-slot-release.1"] {
        assert!(folder.join(page).is_file(), "{page}");
    }
}

#[test]
fn a_stop_of_nothing_is_a_failure() {
    let stage = Stage::new("stop-nothing");
    assert_eq!(stage.run("nostray.exe", &["stop", "zzzzzzzz"]).status.code(), Some(1));
}

#[test]
fn the_record_of_a_killed_front_is_swept_and_nothing_is_left() {
    let (stage, id) = play("sweep", &[]);
    let front =
        stage.seen().into_iter().find(|seen| seen.line.contains("nostray.exe") && !seen.line.contains(" host "));
    kill(front.expect("the front").pid);
    stage.time_until_empty();
    // Another start may have swept it already, in a test beside this one.
    text(&stage, &["sweep"]);
    assert!(!text(&stage, &["ps"]).contains(&id));
    let log = text(&stage, &["log"]);
    assert!(log.lines().any(|line| line.contains(&id) && line.contains("swept")), "{log}");
}

#[test]
fn a_live_pen_is_not_swept() {
    let (stage, id) = play("sweep-live", &[]);
    text(&stage, &["sweep"]);
    assert!(stage.find(" tree ").is_some());
    assert!(stage.run("nostray.exe", &["stop", "--now", &id]).status.success());
    stage.time_until_empty();
}

/// A record of a pen whose front was killed long ago, and a stranger that has the child's number since.
#[test]
fn a_stranger_that_has_the_number_of_a_dead_child_is_not_touched() {
    let stage = Stage::new("sweep-stranger");
    let words = stage.badchild("sleep", &["stranger"]);
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let mut stranger = stage.start("badchild.exe", &words);
    let number = stage.told("stranger");
    let local = stage.path("local");
    let variables = [("LOCALAPPDATA", local.as_str())];
    // The folder is made by the program, which trusts no other one; the record is a real one with other numbers.
    std::fs::create_dir(stage.folder().join("local")).expect("made");
    let run = |words: &[&str]| stage.run_with(&variables, "nostray.exe", words);
    assert!(run(&["run", "--no-sweep", "--", "cmd", "/c", "exit 0"]).status.success());
    let folder = stage.folder().join("local/nostray");
    let process = |start: u64| format!("{{\"pid\":{number},\"start\":{start}}}");
    let record = |id: &str| {
        format!(
            "{{\"version\":1,\"id\":\"{id}\",\"state\":{{\"name\":\"ready\"}},\"since\":1,\"started\":1,\"command\":[\"x\"],\
             \"cwd\":\"x\",\"session\":null,\"labels\":{{}},\"boot\":\"windows\",\"pid_namespace\":0,\"host\":null,\"front\":{front},\
             \"spare\":null,\"guard\":null,\"child\":{child},\"ancestors\":[],\"sid\":0,\"tier\":\"job\",\"cgroup\":null,\
             \"eof_grace\":0,\"term_grace\":0,\"queued\":true}}\n",
            front = process(1),
            child = process(2),
        )
    };
    for (id, words) in [
        ("aaaaaaa1", &["sweep"][..]),
        ("aaaaaaa2", &["stop", "--now", "aaaaaaa2"]),
        ("aaaaaaa3", &["stop", "--all", "--now"]),
    ] {
        let path = folder.join(format!("{id}.json"));
        std::fs::write(&path, record(id)).expect("written");
        std::fs::write(folder.join(format!("{id}.lock")), "").expect("written");
        let said = run(words);
        assert!(stranger.try_wait().expect("known").is_none(), "{words:?} hit a stranger: {said:?}");
        run(&["sweep"]);
        assert!(!path.exists(), "the record was read, and is gone: {words:?} {said:?}");
    }
    assert!(stranger.try_wait().expect("known").is_none() && stage.find(" stranger").is_some());
    stage.terminate(&number);
    stranger.wait().expect("ended");
    stage.time_until_empty();
}
