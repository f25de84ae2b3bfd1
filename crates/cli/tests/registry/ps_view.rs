//! What `nostray ps` shows: lines that fit the terminal, who uses each child, its tree, an order, and the object for scripts.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Output;

use badchild::{Host, badchild, wait_until};
use nostray_sys::proc::Stat;
use serde_json::{Value, json};
use testkit::many::{Many, text};
use testkit::nostray;
use testkit::screen::{Screen, without_colours};
use testkit::stage::{Caller, Stage};

const COLUMNS: u16 = 80;
const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// A host that is called so.
fn host_called(stage: &Stage, name: &str, how: &str, options: &[&str]) -> Host {
    let program = PathBuf::from(stage.file(name));
    if !program.exists() {
        symlink(badchild(), &program).expect("link");
    }
    let mut words = vec![nostray().display().to_string(), how.to_owned()];
    words.extend(options.iter().map(|word| (*word).to_owned()));
    words.push("--".to_owned());
    words.extend(stage.server(&[]));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut host = Host::start_as(&stage.scene, &program, &[], &words);
    host.say(HELLO);
    host
}

/// The entry of the child with this name.
fn called(many: &Many, name: &str) -> Value {
    let mut found: Vec<Value> = many.pens().into_iter().filter(|pen| pen["name"] == name).collect();
    if found.len() == 1 { found.remove(0) } else { Value::Null }
}

fn wait_for(many: &Many, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    wait_until(&format!("{name}: {what}"), || is_so(&called(many, name)));
    called(many, name)
}

/// The line of the child with this id.
fn row<'a>(table: &'a str, id: &Value) -> &'a str {
    let id = id.as_str().expect("an id");
    table.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("no {id} in:\n{table}"))
}

/// What stands in the row of this child below a heading: from the beginning of the heading, or, of a number, to its end.
fn cell(table: &str, id: &Value, heading: &str) -> String {
    let headings: Vec<char> = table.lines().next().expect("headings").chars().collect();
    let row: Vec<char> = row(table, id).chars().collect();
    let words: Vec<char> = heading.chars().collect();
    let start = headings.windows(words.len()).position(|part| part == words).expect("is there");
    let text = |part: &[char]| part.iter().collect::<String>();
    if ["MEM", "CPU", "AGE", "RST"].contains(&heading) {
        let to_end = text(&row[..(start + words.len()).min(row.len())]);
        return to_end.rsplit(' ').next().unwrap_or_default().to_owned();
    }
    text(&row[start..]).split("  ").next().unwrap_or_default().to_owned()
}

/// As many columns of a terminal as characters: nothing here is wide.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn end(many: &Many, callers: impl IntoIterator<Item = Caller>) {
    let stopped = many.nostray(&["stop", "--now", "--all"]);
    assert!(stopped.status.success(), "{stopped:?}");
    for mut caller in callers {
        caller.code();
    }
    many.expect_no_process();
}

/// Sessions of several hosts, a slot, sleep, a linger, restarts, a wide name and a command that no terminal has room for.
struct Crowd {
    many: Many,
    callers: Vec<Caller>,
    hosts: Vec<Host>,
    long_command: String,
}

impl Crowd {
    fn gather() -> Self {
        let many = Many::new();
        let stage = &many.stage;
        let mut callers = many.several(3, &["--key", "memory"]);
        callers[0].error("die", json!({}));
        callers[0].who();
        let hosts: Vec<Host> = ["claude", "claude", "hermes"]
            .map(|name| host_called(stage, name, "share", &["--key", "team", "--linger", "0s", "--session", name]))
            .into();
        wait_for(&many, "team", "is held by three", |pen| {
            pen["shared"]["leases"].as_array().map(Vec::len) == Some(3)
        });

        let mut slot = stage.start(&["--slot", "db"], &[]);
        slot.initialize();
        callers.push(slot);
        let mut sleeper = stage.start(&["--hibernate", "50ms", "--label", "name=sleeper"], &[]);
        sleeper.initialize();
        callers.push(sleeper);
        let mut last = many.share(&["--key", "kept", "--linger", "1h"], &[]);
        last.initialize();
        wait_for(&many, "kept", "is held", |pen| pen["used_by"].as_array().map(Vec::len) == Some(1));
        many.end(last);
        let mut fails = stage.start(&["--respawn", "--backoff", "1h..1h", "--label", "name=fails"], &[]);
        fails.initialize();
        // After its first crash it is restarted at once.
        for _ in 0..2 {
            fails.error("die", json!({}));
        }
        callers.push(fails);
        let wide = format!("name={}", "wide-name-".repeat(6));
        let mut words = vec![badchild().display().to_string(), "pause".to_owned()];
        words.extend((0..40).map(|number| format!("argument-{number}")));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        callers.push(stage.start_command(&["--label", &wide], &words));

        wait_for(&many, "memory", "was restarted", |pen| pen["state"] == "ready" && pen["restarts"] == 1);
        wait_for(&many, "memory", "is held by three", |pen| pen["used_by"].as_array().map(Vec::len) == Some(3));
        wait_for(&many, "team", "has its child", |pen| pen["state"] == "ready" && pen["processes"] == 1);
        wait_for(&many, "db", "has its child", |pen| pen["state"] == "ready" && pen["processes"] == 1);
        wait_for(&many, "sleeper", "sleeps", |pen| pen["state"] == "asleep" && pen["processes"] == 0);
        wait_for(&many, "kept", "lingers", |pen| pen["lingering"] == true);
        wait_for(&many, "fails", "waits", |pen| pen["state"] == "backing-off" && pen["processes"] == 0);
        wait_for(&many, &"wide-name-".repeat(6), "has its child", |pen| pen["processes"] == 1);
        Self { many, callers, hosts, long_command: words.join(" ") }
    }
}

#[test]
fn every_line_fits_a_terminal_of_80_columns_and_only_states_are_coloured_there() {
    let crowd = Crowd::gather();
    let (many, stage) = (&crowd.many, &crowd.many.stage);
    let shown = Screen::shows(stage, COLUMNS, &[], &["ps"]);
    let (table, coloured) = without_colours(&shown);
    assert_eq!(table.lines().count(), 8, "{table}");
    assert!(widest(&table) <= COLUMNS.into(), "{}:\n{table}", widest(&table));
    let headings: Vec<&str> = table.lines().next().expect("a heading").split_whitespace().collect();
    assert_eq!(headings, ["ID", "NAME", "STATE", "USED", "BY", "MEM", "CPU", "AGE", "RST", "COMMAND"]);
    let mut states = coloured.clone();
    states.sort_unstable();
    assert_eq!(states, ["asleep", "backing-off", "lingering", "ready", "ready", "ready", "ready"], "{shown:?}");

    let cell = |name: &str, heading: &str| cell(&table, &called(many, name)["id"], heading);
    assert_eq!(["NAME", "STATE", "USED BY"].map(|heading| cell("team", heading)), ["team", "ready", "claude ×2 +1"]);
    assert!(cell("memory", "USED BY").ends_with(" ×3") && cell("memory", "RST") == "1", "{table}");
    assert_eq!(["STATE", "USED BY", "RST"].map(|heading| cell("kept", heading)), ["lingering", "-", ""], "{table}");
    assert!(cell("kept", "MEM").ends_with(['K', 'M']) && cell("kept", "CPU").ends_with('%'), "{table}");
    for name in ["sleeper", "fails"] {
        assert_eq!(["MEM", "CPU"].map(|heading| cell(name, heading)), ["-", "-"], "zeros:\n{table}");
        assert!(cell(name, "AGE").ends_with(['s', 'm']), "{table}");
    }
    // The long command and the long name show both ends.
    let long = row(&table, &called(many, &"wide-name-".repeat(6))["id"]);
    assert!(long.ends_with("-39") && long.matches('…').count() >= 2, "{table}");
    assert!(!table.contains("nostray"), "a process of nostray's own is no user:\n{table}");

    for (variables, words) in [
        (&[("NO_COLOR", "1")][..], &["ps"][..]),
        (&[("TERM", "dumb")], &["ps"]),
        (&[("NO_COLOR", "1")], &["ps", "--tree"]),
    ] {
        let plain = Screen::shows(stage, COLUMNS, variables, words);
        assert!(!plain.contains('\x1b'), "{variables:?}: {plain:?}");
        assert!(widest(&plain) <= COLUMNS.into(), "{variables:?} {words:?}:\n{plain}");
    }
    assert!(
        row(&Screen::shows(stage, 100, &[("NO_COLOR", "1")], &["ps"]), &called(many, "team")["id"])
            .contains("  claude ×2, hermes  ")
    );
    // Narrower than all columns together.
    for columns in [60, 40, 10] {
        let shown = Screen::shows(stage, columns, &[("NO_COLOR", "1")], &["ps", "--tree"]);
        assert!(widest(&shown) <= columns.into(), "{columns}:\n{shown}");
    }
    let piped = text(&many.nostray(&["ps"]));
    assert!(!piped.contains('\x1b') && piped.contains(&crowd.long_command), "nothing is cut:\n{piped}");
    let narrow = with_columns(stage, "70", &["ps"]);
    assert!(widest(&narrow) <= 70 && narrow.contains('…'), "{narrow}");

    let (wide, _) = without_colours(&Screen::shows(stage, COLUMNS, &[], &["ps", "--wide"]));
    assert!(wide.contains(&crowd.long_command) && wide.contains(&"wide-name-".repeat(6)), "{wide}");
    for heading in ["FOR", "SESSION", "SLOT", "HOST", "PROCS", "FILES", "TIME", "RESTARTS", "TIER"] {
        assert!(wide.lines().next().expect("a heading").contains(heading), "{heading}:\n{wide}");
    }
    // In the order in which they came, which is that of two hosts that were started at the same time.
    let sessions = ["  claude, hermes  ", "  hermes, claude  "];
    let team = row(&wide, &called(many, "team")["id"]);
    assert!(sessions.iter().any(|sessions| team.contains(sessions)), "its sessions:\n{wide}");
    let roomy = Screen::shows(stage, 200, &[("NO_COLOR", "1")], &["ps"]);
    assert!(row(&roomy, &called(many, "memory")["id"]).contains("  s0, s1, s2  "), "its sessions:\n{roomy}");
    drop(crowd.hosts);
    end(many, crowd.callers);
}

fn with_columns(stage: &Stage, columns: &str, words: &[&str]) -> String {
    let mut command = stage.scene.command(&nostray());
    let output: Output = command.args(words).env("COLUMNS", columns).output().expect("run");
    text(&output)
}

#[test]
fn users_are_the_hosts_of_the_fronts_under_their_own_names() {
    let many = Many::new();
    let stage = &many.stage;
    let team = ["--key", "team", "--linger", "0s"];
    let hosts = [
        host_called(stage, "claude", "share", &[&team[..], &["--session", "chat-1"]].concat()),
        // What an interpreter runs is its first argument, here the word `host`.
        host_called(stage, "node", "share", &team),
        host_called(stage, "an-agent-with-a-long-name", "run", &["--label", "name=own", "--session", "chat-2"]),
    ];
    let shared = wait_for(&many, "team", "is used by two", |pen| pen["used_by"].as_array().map(Vec::len) == Some(2));
    let mut used_by = shared["used_by"].as_array().cloned().expect("a list");
    used_by.sort_by_key(|one| one["program"].to_string());
    let pid = |host: &Host| host.pid().as_raw_nonzero().get();
    let expected = json!([
        { "program": "claude", "pid": pid(&hosts[0]), "session": "chat-1" },
        { "program": "host", "pid": pid(&hosts[1]), "session": null },
    ]);
    assert_eq!(Value::from(used_by), expected);
    let own = wait_for(&many, "own", "has its host", |pen| pen["state"] == "ready");
    let user = json!([{ "program": "an-agent-with-a-long-name", "pid": pid(&hosts[2]), "session": "chat-2" }]);
    assert_eq!(own["used_by"], user);
    drop(hosts);
    many.expect_no_process();
}

#[test]
fn a_tree_is_indented_from_the_left_with_holders_keepers_and_members() {
    let many = Many::new();
    let mut callers = many.several(2, &["--key", "memory"]);
    // Two branches with a leaf each: a list by level would show a leaf below the wrong branch.
    let script = "sh -c 'sleep 1001 & wait' & sh -c 'sleep 1002 & wait' & wait";
    callers.push(many.stage.start_command(&["--label", "name=branches"], &["sh", "-c", script]));
    wait_for(&many, "branches", "is complete", |pen| pen["processes"] == 5);
    wait_for(&many, "memory", "is held", |pen| {
        pen["used_by"].as_array().map(Vec::len) == Some(2) && pen["processes"] == 1 && pen["guard"].is_object()
    });
    let tree = many.says(&["ps", "--tree"]);
    let below = |name: &str| -> Vec<String> {
        let id = called(&many, name)["id"].as_str().expect("an id").to_owned();
        let lines = tree.lines().skip_while(|line| !line.starts_with(&id)).skip(1);
        lines.take_while(|line| line.starts_with("  ")).map(str::to_owned).collect()
    };
    let pid = |pen: &Value, who: &str| pen[who]["pid"].to_string();

    let (pen, lines) = (called(&many, "branches"), below("branches"));
    assert_eq!(lines.len(), 2 + 5, "{tree}");
    assert!(
        lines[0].starts_with("  held by ") && lines[0].contains(&format!(" {} for ", std::process::id())),
        "{tree}"
    );
    let keepers =
        format!("  kept by front {}, spare {}, guard {}", pid(&pen, "front"), pid(&pen, "spare"), pid(&pen, "guard"));
    assert_eq!(lines[1], keepers, "{tree}");
    // Each member is below its parent, by two blanks more.
    let mut above: Vec<String> = Vec::new();
    for line in &lines[2..] {
        let blanks = line.len() - line.trim_start().len();
        let words: Vec<&str> = line.split_whitespace().collect();
        let stat = Stat::of(badchild::pid(words[0].parse().expect("a pid"))).expect("is there");
        assert!(words[1].ends_with(['K', 'M']), "its memory: {line}");
        assert!(["sh", "sleep"].contains(&words[2]), "its command: {line}");
        assert!(blanks >= 2 && blanks % 2 == 0, "{tree}");
        above.truncate(blanks / 2 - 1);
        assert_eq!(above.len(), blanks / 2 - 1, "a level is left out:\n{tree}");
        let parent = above.last().cloned().unwrap_or_else(|| pid(&pen, "guard"));
        assert_eq!(stat.parent.map(|parent| parent.to_string()), Some(parent), "{line} in:\n{tree}");
        above.push(words[0].to_owned());
    }
    assert_eq!(lines[2..].iter().map(|line| line.len() - line.trim_start().len()).max(), Some(6), "{tree}");

    let (pen, lines) = (called(&many, "memory"), below("memory"));
    assert_eq!(lines.len(), 2 + 1 + 1, "{tree}");
    for (number, caller) in callers[..2].iter().enumerate() {
        let end = format!(", session s{number}, front {}", caller.process.id());
        assert!(
            lines[..2].iter().any(|line| line.starts_with("  held by ") && line.ends_with(&end)),
            "{end}:\n{tree}"
        );
    }
    assert!(lines[2].starts_with(&format!("  kept by steward {}, spare ", pid(&pen, "front"))), "{tree}");
    assert!(lines[3].trim_start().starts_with(&pid(&pen, "child")), "{tree}");
    end(&many, callers);
}

#[test]
fn children_are_sorted_as_asked() {
    let many = Many::new();
    let mut callers: Vec<Caller> = Vec::new();
    for (name, options) in
        [("zebra", &["--respawn"][..]), ("ant", &["--hibernate", "50ms"]), ("mule", &[]), ("bee", &["--respawn"])]
    {
        let mut caller = many.stage.start(&[options, &["--label", &format!("name={name}")]].concat(), &[]);
        caller.initialize();
        callers.push(caller);
    }
    for _ in 0..3 {
        callers[2].result("fork", json!({ "kind": "plain" }));
    }
    callers[3].error("die", json!({}));
    callers[3].who();
    wait_for(&many, "ant", "sleeps", |pen| pen["state"] == "asleep" && pen["processes"] == 0);
    wait_for(&many, "bee", "was restarted", |pen| pen["restarts"] == 1 && pen["state"] == "ready");
    wait_for(&many, "mule", "is complete", |pen| pen["processes"] == 4);
    wait_for(&many, "zebra", "is ready", |pen| pen["state"] == "ready");
    let sorted = |key: &[&str]| -> Vec<Value> {
        let shown = many.says(&[&["ps", "--json"], key].concat());
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        shown["pens"].as_array().cloned().expect("a list")
    };
    let names = |pens: &[Value]| -> Vec<String> {
        pens.iter().map(|pen| pen["name"].as_str().expect("a name").to_owned()).collect()
    };
    let is_falling = |pens: &[Value], field: &str| {
        let numbers: Vec<f64> = pens.iter().map(|pen| pen[field].as_f64().unwrap_or(-1.0)).collect();
        assert!(numbers.is_sorted_by(|a, b| a >= b), "{field}: {numbers:?}");
    };
    assert_eq!(names(&sorted(&[])), ["zebra", "ant", "mule", "bee"], "in the order of their start");
    assert_eq!(names(&sorted(&["--sort", "started"])), ["zebra", "ant", "mule", "bee"]);
    assert_eq!(names(&sorted(&["--sort", "age"])), ["bee", "mule", "ant", "zebra"]);
    assert_eq!(names(&sorted(&["--sort", "name"])), ["ant", "bee", "mule", "zebra"]);
    assert_eq!(names(&sorted(&["--sort", "state"])), ["zebra", "mule", "bee", "ant"]);
    assert_eq!(names(&sorted(&["--sort", "restarts"]))[0], "bee");
    let by_memory = sorted(&["--sort", "memory"]);
    is_falling(&by_memory, "memory");
    assert_eq!((names(&by_memory)[0].as_str(), names(&by_memory)[3].as_str()), ("mule", "ant"));
    is_falling(&sorted(&["--sort", "cpu"]), "cpu_percent");
    // The table and the ids have the same order.
    let table = many.says(&["ps", "--sort", "name"]);
    let second: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(second, ["ant", "bee", "mule", "zebra"], "{table}");
    let ids: Vec<String> = many.says(&["ps", "-q", "--sort", "memory"]).lines().map(str::to_owned).collect();
    assert_eq!(
        (&ids[0], &ids[3]),
        (
            &called(&many, "mule")["id"].as_str().expect("an id").to_owned(),
            &called(&many, "ant")["id"].as_str().expect("an id").to_owned()
        )
    );
    let wrong = many.nostray(&["ps", "--sort", "size"]);
    assert_eq!(wrong.status.code(), Some(2));
    end(&many, callers);
}

#[test]
fn nothing_there_is_said_with_what_to_do() {
    let many = Many::new();
    let said = many.says(&["ps"]);
    let expected = "Nothing runs under nostray. `nostray wrap` puts it in front of the servers of your hosts; `nostray run` starts one.\n";
    assert_eq!(said, expected);
    let shown = Screen::shows(&many.stage, COLUMNS, &[], &["ps"]);
    assert!(widest(&shown) <= COLUMNS.into(), "{shown}");
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(many.pens(), Vec::<Value>::new());
    let quiet = many.nostray(&["ps", "-q"]);
    assert_eq!((quiet.status.code(), text(&quiet).as_str()), (Some(1), ""));

    let mut caller = many.stage.start(&["--session", "a"], &[]);
    caller.initialize();
    let other = many.nostray(&["ps", "--session", "b"]);
    assert_eq!((other.status.code(), text(&other).as_str()), (Some(1), ""));
    assert!(many.says(&["ps", "--label", "k=v"]).starts_with("No child matches."));
    assert!(many.says(&["ps", "--session", "a"]).starts_with("ID "));
    end(&many, [caller]);
}

#[test]
fn scripts_find_every_field_that_they_know_and_the_new_ones() {
    let many = Many::new();
    let mut caller = many.begun(&["--key", "memory", "--session", "chat-1", "--linger", "1h"]);
    caller.who();
    let pen = wait_for(&many, "memory", "is ready", |pen| {
        pen["state"] == "ready" && pen["processes"] == 1 && pen["used_by"].as_array().map(Vec::len) == Some(1)
    });
    let old = [
        "id",
        "state",
        "reason",
        "generation",
        "restarts",
        "shared",
        "slot",
        "status",
        "candidates",
        "since",
        "started",
        "command",
        "cwd",
        "session",
        "labels",
        "host",
        "front",
        "spare",
        "guard",
        "child",
        "tier",
        "eof_grace",
        "term_grace",
        "processes",
        "memory",
        "open_files",
        "cpu",
        "tree",
    ];
    let new = ["name", "used_by", "lingering", "cpu_percent"];
    for field in old.iter().chain(&new) {
        assert!(pen.get(field).is_some(), "{field} is not in {pen:#}");
    }
    let help = many.says(&["ps", "--help"]);
    for field in new {
        assert!(help.contains(field), "{field} is not in the help text:\n{help}");
    }
    assert_eq!(pen["lingering"], false);
    assert!(pen["cpu_percent"].is_number() && pen["cpu"].is_number(), "{pen:#}");
    assert_eq!(pen["used_by"][0]["pid"], std::process::id());
    assert_eq!(pen["used_by"][0]["session"], "chat-1");
    many.end(caller);
    let kept = wait_for(&many, "memory", "lingers", |pen| pen["lingering"] == true);
    assert_eq!(
        (&kept["state"], &kept["used_by"]),
        (&json!("ready"), &json!([])),
        "its state stays as scripts know it"
    );
    let mut sleeper = many.stage.start(&["--hibernate", "50ms", "--label", "name=sleeper"], &[]);
    sleeper.initialize();
    let pen = wait_for(&many, "sleeper", "sleeps", |pen| pen["state"] == "asleep" && pen["processes"] == 0);
    assert_eq!((&pen["cpu_percent"], &pen["memory"], &pen["lingering"]), (&Value::Null, &json!(0), &json!(false)));
    end(&many, [sleeper]);
}
