//! Lines that are no message, or a malformed one: the front keeps, drops or answers each, and reads on.

use badchild::{Folder, wait_until};
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage, shorten};

fn begun(stage: &Stage, options: &[&str]) -> Caller {
    let mut caller = stage.start(options, &[]);
    caller.initialize();
    caller
}

/// Makes the server print this text instead of an answer, and returns the id of that call.
fn print(caller: &mut Caller, text: &str) -> u64 {
    caller.ask("print", json!({ "text": text, "silent": true }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn output_that_is_no_message_does_not_reach_the_host_and_is_kept_in_the_log() {
    let stage = Stage::new();
    let mut caller = stage.start(&["--respawn"], &["--banner", "Welcome to server v1.2"]);
    caller.initialize();
    let garbage = [
        "[INFO] listening",
        "null",
        "true",
        "42",
        "\"text\"",
        "[]",
        "[1,2]",
        "[null]",
        "{}",
        "{\"level\":\"info\",\"msg\":\"object\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":1}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,",
        "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":\"nobody has asked\"}",
        "{broken",
        "{\"jsonrpc\":\"2.0\",\"method\":\"x\"} trailing",
        "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"x\"}",
        "\u{1b}[32mgreen\u{1b}[0m",
        "nul \0 byte",
    ];
    for line in garbage {
        assert_eq!(caller.result("print", json!({ "text": format!("{line}\n") })), json!({}), "after {line:?}");
    }
    for blank in ["\n", "\r\n", "  \n", "\n\n\n"] {
        caller.result("print", json!({ "text": blank }));
    }
    caller.result("print", json!({ "hex": hex(b"not \xff\xfe UTF-8\n") }));
    assert_eq!(caller.unasked(), Vec::<Value>::new(), "the host must get none of these lines");
    let printed = stage.printed();
    assert!(printed.contains("Welcome to server v1.2"), "{printed}");
    for line in garbage {
        let shown = nostray_sys::text::escaped(line).into_owned();
        assert!(printed.contains(&shown), "{shown} is not in:\n{printed}");
    }
    assert!(printed.contains("UTF-8"), "{printed}");
    assert_eq!(printed.lines().count(), garbage.len() + 2, "one line of the log for each:\n{printed}");
    assert_eq!(stage.lives().len(), 1);
    let id = String::from_utf8_lossy(&stage.nostray(&["ps", "-q"]).stdout).trim().to_owned();
    caller.end(&stage);
    let kept = stage.nostray(&["log", &id, "--output"]);
    assert!(kept.status.success());
    assert!(String::from_utf8_lossy(&kept.stdout).contains("Welcome"), "the log must outlive the pen: {kept:?}");
}

/// A child that logs to stdout for months does not fill the disk.
#[test]
fn the_kept_output_is_bounded() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    let line = format!("{}\n", "log ".repeat(500));
    caller.result("print", json!({ "text": line, "times": 2000 }));
    caller.who();
    let folder = stage.scene.runtime().join("nostray");
    let sizes = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").metadata());
    let size: u64 = sizes.map(|found| found.expect("metadata").len()).sum();
    assert!((1000..2 << 20).contains(&size), "{size} bytes");
    caller.end(&stage);
}

#[test]
fn half_a_line_waits_for_its_other_half_and_dies_with_its_child() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn", "--backoff", "1ms..5ms"]);
    let first = print(&mut caller, "{\"jsonrpc\":\"2.0\",\"id\":$id,\"res");
    wait_until("the child has read the call", || {
        stage.lives()[0].methods().last().is_some_and(|last| last == "print")
    });
    let second = print(&mut caller, &format!("ult\":\"joined\"}}\n{{\"jsonrpc\":\"2.0\",\"id\":{}}}\n", 99));
    assert_eq!(caller.answer(first)["result"], "joined");
    caller.tell("notifications/cancelled", Some(json!({ "requestId": second })));

    // The second half of this line never comes. The next child's first line must not be taken for it.
    let half = print(&mut caller, "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"half");
    let dying = caller.ask("die", json!({}));
    for id in [half, dying] {
        assert_eq!(caller.answer(id)["error"]["code"], -32000);
    }
    caller.who();
    assert!(stage.printed().contains("\"half"), "{}", stage.printed());
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// Only a newline ends a line, whether the bytes come one at a time, in pieces of any length, or many lines at once.
#[test]
fn lines_are_cut_at_newlines_however_the_bytes_arrive() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    let line = br#"{"jsonrpc":"2.0","id":"slowly","method":"echo","params":{"a":"b"}}"#;
    for byte in line.iter().chain(b"\n") {
        caller.write(&[*byte]);
    }
    assert_eq!(caller.answer("slowly")["result"], json!({ "a": "b" }));
    let mut many = Vec::new();
    for n in 0..2000 {
        many.extend(
            format!("{{\"jsonrpc\":\"2.0\",\"id\":\"m{n}\",\"method\":\"echo\",\"params\":[{n}]}}\n").bytes(),
        );
    }
    for piece in many.chunks(4097) {
        caller.write(piece);
    }
    for n in 0..2000 {
        let line = caller.next_line();
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"m{n}\",\"result\":[{n}]}}\n");
        assert_eq!(String::from_utf8_lossy(&line), expected);
    }
    caller.end(&stage);
}

#[test]
fn a_line_of_64_mebibytes_passes_both_ways() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    // With its frame, this line has exactly the maximum length.
    let id = caller.ask("print", json!({ "text": "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"", "silent": true }));
    let frame = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"\"}}").len();
    let length = (64 << 20) - frame;
    caller.ask("print", json!({ "text": "z", "times": length, "silent": true }));
    caller.ask("print", json!({ "text": "\"}\n", "silent": true }));
    let line = caller.next_line();
    assert_eq!(line.len(), (64 << 20) + 1, "{}", shorten(&line));
    assert!(line.ends_with(b"zzz\"}\n") && line[frame..frame + length - 4].iter().all(|byte| *byte == b'z'));

    let long = "w".repeat((64 << 20) - 100);
    caller.write(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7777,\"method\":\"echo\",\"params\":[\"{long}\"]}}\n").as_bytes(),
    );
    let line = caller.next_line();
    assert_eq!(line.len(), long.len() + "{\"jsonrpc\":\"2.0\",\"id\":7777,\"result\":[\"\"]}\n".len());
    caller.who();
    caller.end(&stage);
}

#[test]
fn a_longer_line_is_answered_with_an_error_and_the_reader_lives_on() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--max-line", "64K"]);
    for _ in 0..3 {
        // An answer.
        let error = caller.error("big", json!({ "bytes": 100_000 }));
        assert_eq!(error["code"], -32603);
        assert!(error["message"].as_str().is_some_and(|text| text.contains("--max-line")), "{error}");
        // A request.
        let error = caller.error("echo", json!({ "text": "x".repeat(100_000) }));
        assert_eq!(error["code"], -32600);
        assert!(error["message"].as_str().is_some_and(|text| text.contains("--max-line")), "{error}");
        // A notification gets no answer.
        caller.tell("notifications/long", Some(json!({ "text": "x".repeat(100_000) })));
        caller.result("notify", json!({ "method": "short" }));
        caller.notified("short");
        caller.ask("print", json!({ "text": "0123456789", "times": 10_000, "silent": true }));
        caller.result("print", json!({ "text": "\n" }));
        // A line just below the limit passes.
        let room = "x".repeat(65_000);
        assert_eq!(caller.result("echo", json!([room])), json!([room]));
    }
    let heard = stage.lives()[0].heard.clone();
    assert_eq!(heard.iter().filter(|line| line.contains("notifications/long")).count(), 0);
    assert_eq!(heard.iter().filter(|line| line.contains("\"echo\"")).count(), 3);
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// The same for requests of the child to its host.
#[test]
fn a_longer_line_about_a_request_of_the_childs_is_answered_too() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--max-line", "64K"]);
    // A request of the child is too long: the child gets an error.
    let text = "{\"jsonrpc\":\"2.0\",\"id\":\"c1\",\"method\":\"sampling/createMessage\",\"params\":\"";
    print(&mut caller, text);
    caller.ask("print", json!({ "text": "0123456789", "times": 10_000, "silent": true }));
    print(&mut caller, "\"}\n");
    let answers = |caller: &mut Caller, expected: Value| {
        wait_until("the child has its answer", || caller.who()["answers"] == expected);
    };
    answers(&mut caller, json!(["c1"]));
    assert!(stage.lives()[0].heard.iter().any(|line| line.contains("-32600") && line.contains("c1")));
    // An answer of the host is too long: the child gets an error, or it would wait for ever.
    caller.result("ask", json!({ "id": "c2", "method": "sampling/createMessage", "no_wait": true }));
    caller.notified("sampling/createMessage");
    caller.send(&json!({ "jsonrpc": "2.0", "id": "c2", "result": { "text": "x".repeat(100_000) } }));
    answers(&mut caller, json!(["c1", "c2"]));
    assert!(stage.lives()[0].heard.iter().any(|line| line.contains("-32603") && line.contains("c2")));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

#[test]
fn bytes_inside_a_message_are_not_touched() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    // From the child.
    let lines = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"text\":\"line\u{2028}separator\u{2029}\u{85}\u{b}\u{c}\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"crlf\"}\r\n",
        " {\t\"params\" : { \"_meta\" :{ \"x\":1.0e+5,\"x\":2 } } ,\"extra\":[ ],\"method\":\"odd\\u002fname\" , \"jsonrpc\":\"2.0\" } \n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"what?\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"method\":\"unknown/request\",\"params\":[1,2.50,{}]}\n",
        "[{\"jsonrpc\":\"2.0\",\"method\":\"b\"}, {\"jsonrpc\":\"2.0\",\"id\":\"r2\",\"method\":\"c\"}]\n",
    ];
    for line in lines {
        caller.ask("print", json!({ "text": line, "silent": true }));
        assert_eq!(String::from_utf8_lossy(&caller.next_line()), line);
    }
    // From the host.
    let lines = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"text\":\"line\u{2028}separator\u{2029}\u{85}\"}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"crlf\"}\r\n",
        " {\t\"params\" : { \"_meta\" :{ \"x\":1.0e+5,\"x\":2 } } ,\"extra\":[ ],\"method\":\"odd\\u002fname\" , \"jsonrpc\":\"2.0\" } \n",
        "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"null id\"}\n",
        "{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":{\"asked\" : \"for this\"}}\n",
        "no JSON at all\n",
        "[ ]\n",
    ];
    for line in lines {
        caller.write(line.as_bytes());
    }
    caller.who();
    let heard = stage.lives()[0].heard.clone();
    for line in lines {
        let text = line.trim_end_matches('\n');
        assert!(heard.iter().any(|heard| heard == text), "{text:?} is not in {heard:#?}");
    }
    caller.end(&stage);
}

#[test]
fn ids_keep_their_type_and_their_digits() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    let ids = [
        "1",
        "\"1\"",
        "-7",
        "0",
        "\"\"",
        "9007199254740993",
        "\"a\\u0041\\n\"",
        "\"\u{1f600}\"",
        "12345678901234567890",
    ];
    for id in ids {
        caller
            .write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"echo\",\"params\":[ 1 ]}}\n").as_bytes());
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":[ 1 ]}}\n");
        assert_eq!(String::from_utf8_lossy(&caller.next_line()), expected);
    }
    // The same in errors that the front makes.
    for id in ids {
        caller.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"hang\"}}\n").as_bytes());
    }
    caller.ask("die", json!({}));
    for id in ids {
        let line = caller.next_line();
        let answer: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(answer["id"], serde_json::from_str::<Value>(id).expect("JSON"), "{}", shorten(&line));
        assert_eq!(answer["error"]["code"], -32000);
    }
    caller.who();
    caller.end(&stage);
}

#[test]
fn an_answer_that_is_not_utf8_is_an_error_for_the_waiting_call() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    let bytes = [b"{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":\"", &b"\xff\xc3\x28"[..], b"\"}\n"].concat();
    let error = caller.error("print", json!({ "hex": hex(&bytes), "silent": true }));
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().is_some_and(|text| text.contains("UTF-8")), "{error}");
    // A line of the host that is not UTF-8 goes to the child, which answers it.
    caller.write(b"{\"jsonrpc\":\"2.0\",\"id\":1234,\"method\":\"echo\",\"params\":\"\xff\"}\n");
    let answer = caller.wait_for("the child's own error", |message| message["error"]["code"] == -32700);
    assert!(answer["id"].is_null());
    caller.who();
    caller.end(&stage);
}

#[test]
fn deep_nesting_passes_both_ways() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    for depth in [10_usize, 1_000, 100_000] {
        let id = caller.ask("deep", json!({ "depth": depth }));
        let line = caller.next_line();
        let expected =
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{}{}}}\n", "[".repeat(depth), "]".repeat(depth));
        assert!(line == expected.as_bytes(), "{}", shorten(&line));
    }
    // Nested objects, in which a reader would look for members.
    let nested = format!("{}1{}", "{\"id\":".repeat(50_000), "}".repeat(50_000));
    caller.write(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"deep\",\"params\":{nested}}}\n").as_bytes());
    caller.who();
    assert!(stage.lives()[0].heard.iter().any(|line| line.starts_with("{\"jsonrpc\":\"2.0\",\"method\":\"deep\"")));
    caller.end(&stage);
}

#[test]
fn batches_pass_both_ways_and_are_answered_as_one_when_the_child_dies() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn", "--backoff", "1ms..5ms"]);
    let batch = r#"[{"jsonrpc":"2.0","id":"b1","method":"echo","params":[1]}, {"jsonrpc":"2.0","method":"told"},
        {"jsonrpc":"2.0","id":"b2","method":"echo","params":[2]}]"#
        .replace('\n', " ");
    caller.write(format!("{batch}\n").as_bytes());
    let answer: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
    assert_eq!(
        answer,
        json!([{ "jsonrpc": "2.0", "id": "b1", "result": [1] }, { "jsonrpc": "2.0", "id": "b2", "result": [2] }])
    );
    assert!(stage.lives()[0].heard.contains(&batch), "the child must read the batch unchanged");

    // Two calls in one batch and one alone: the front answers the batch with a batch, and the single call alone.
    caller.write(b"[{\"jsonrpc\":\"2.0\",\"id\":\"h1\",\"method\":\"hang\"},{\"jsonrpc\":\"2.0\",\"id\":\"h2\",\"method\":\"hang\"}]\n");
    let alone = caller.ask("die", json!({}));
    let group: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
    let ids: Vec<_> = group.as_array().expect("a batch").iter().map(|error| error["id"].clone()).collect();
    assert_eq!(ids, ["h1", "h2"]);
    assert!(group.as_array().expect("a batch").iter().all(|error| error["error"]["code"] == -32000));
    assert_eq!(caller.answer(alone)["error"]["code"], -32000);

    // A batch that comes while no child is there waits as a whole.
    caller.write(b"[{\"jsonrpc\":\"2.0\",\"id\":\"w1\",\"method\":\"echo\",\"params\":[]},{\"jsonrpc\":\"2.0\",\"id\":\"w2\",\"method\":\"who\"}]\n");
    let waited = caller.wait_for("a batch", Value::is_array);
    assert_eq!(waited[0], json!({ "jsonrpc": "2.0", "id": "w1", "result": [] }));
    assert_eq!(waited[1]["result"]["heard"], json!(["initialize", "notifications/initialized", "echo", "who"]));

    // The front removes an answer to no call from the child's batch, and passes the rest on.
    let hang = caller.ask("hang", json!({}));
    let text = format!(
        "[{{\"jsonrpc\":\"2.0\",\"id\":\"nobody\",\"result\":1}},{{\"jsonrpc\":\"2.0\",\"id\":{hang},\"result\":2}}]\n"
    );
    caller.ask("print", json!({ "text": text, "silent": true }));
    let rest: Value = serde_json::from_slice(&caller.next_line()).expect("JSON");
    assert_eq!(rest, json!([{ "jsonrpc": "2.0", "id": hang, "result": 2 }]));
    caller.end(&stage);
}

/// Settings inside a batch count as well (2025-03-26).
#[test]
fn settings_in_a_batch_are_replayed_to_the_next_child() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn", "--backoff", "1ms..5ms"]);
    caller.write(
        b"[{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"logging/setLevel\",\"params\":{\"level\":\"alert\"}},\
          {\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"resources/subscribe\",\"params\":{\"uri\":\"test://a\"}}]\n",
    );
    caller.wait_for("a batch", Value::is_array);
    caller.error("die", json!({}));
    let told = caller.who();
    assert_eq!(told["level"], "alert");
    assert_eq!(told["subscriptions"], json!(["test://a"]));
    caller.end(&stage);
}

/// The child's stderr passes to the host unchanged. When the child dies, the error for a call quotes its last lines.
#[test]
fn the_childs_stderr_passes_and_its_last_lines_are_kept() {
    let stage = Stage::new();
    let mut caller = begun(&stage, &["--respawn"]);
    caller.result("stderr", json!({ "text": "one line\nand \u{1b}[31mred\u{1b}[0m" }));
    wait_until("the lines reach the host", || caller.errors().contains("one line\nand \u{1b}[31mred\u{1b}[0m\n"));
    for n in 0..100 {
        caller.result("stderr", json!({ "text": format!("line {n}") }));
    }
    let error = caller.error("die", json!({}));
    let lines = error["data"]["nostray"]["stderr"].as_array().expect("lines").clone();
    assert_eq!(lines.len(), 20);
    assert_eq!((lines[0].as_str(), lines[19].as_str()), (Some("line 80"), Some("line 99")));
    caller.who();
    // The next child's error quotes only its own lines.
    let error = caller.error("die", json!({ "text": "mine" }));
    assert_eq!(error["data"]["nostray"]["stderr"], json!(["mine"]));
    caller.who();
    caller.end(&stage);
}

/// Without a directory for records, the front drops output that is no message, and the session goes on.
#[test]
fn without_a_directory_for_records_garbage_is_dropped() {
    let (stage, folder) = (Stage::new(), Folder::new("no-place"));
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("write");
    let mut caller = stage.start_in(&["--respawn"], &["--banner", "hello"], |command| {
        command.env("XDG_RUNTIME_DIR", &file).env("HOME", "/dev/null").env_remove("XDG_STATE_HOME");
    });
    caller.initialize();
    wait_until("the front has warned", || caller.errors().contains("not on record"));
    assert_eq!(caller.unasked(), Vec::<Value>::new());
    caller.end(&stage);
}

/// A typical Python server: it also ends lines at a bare CR, and of two members with one name it takes the last.
const PYTHON: &str = r#"
import json, sys
for line in sys.stdin:
    if not line.strip():
        continue
    try:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {}}}
    except ValueError:
        answer = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}}
    print(json.dumps(answer), flush=True)
"#;

/// Lines that JSON readers understand in different ways, each with the ids that its answer may have; null where a
/// reader finds no id.
fn disputed() -> Vec<(String, Vec<Value>)> {
    let padding = "x".repeat(2048);
    let null = Value::Null;
    vec![
        (
            r#"{"jsonrpc":"2.0","id":101,"id":102,"method":"ping"}"#.to_owned(),
            vec![json!(101), json!(102), null.clone()],
        ),
        (r#"{"jsonrpc":"2.0","\u0069d":103,"method":"ping"}"#.to_owned(), vec![json!(103)]),
        (
            r#"{"jsonrpc":"2.0","id":104,"\u0069d":105,"method":"ping"}"#.to_owned(),
            vec![json!(104), json!(105), null.clone()],
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":106,"method":"ping","params":{{"text":"{padding}"}},"id":107}}"#),
            vec![json!(106), json!(107), null.clone()],
        ),
        (r#"{"jsonrpc":"2.0","id":108,"method":"ping","method":"tools/list"}"#.to_owned(), vec![json!(108), null]),
        ("{\"jsonrpc\":\"2.0\",\r\"id\":109,\r\"method\":\"ping\"}".to_owned(), vec![json!(109)]),
    ]
}

/// With each kind of reader in the server, no request hangs, and none is answered twice.
#[test]
fn every_request_is_answered_once_however_it_is_written() {
    let has_python =
        std::process::Command::new("python3").arg("-c").arg("").status().is_ok_and(|done| done.success());
    for server in ["badchild", "badchild --last-wins", "python3"] {
        let stage = Stage::new();
        // A request that stays in flight would keep the child awake.
        let options = ["--respawn", "--hibernate", "1s"];
        let mut caller = match server {
            "python3" if !has_python => continue,
            "python3" => stage.start_command(&options, &["python3", "-c", PYTHON]),
            _ => stage.start(&options, &server.split(' ').skip(1).collect::<Vec<_>>()),
        };
        caller.initialize();
        let mut failures = Vec::new();
        for (line, ids) in disputed() {
            caller.write(format!("{line}\n").as_bytes());
            let after = caller.ask("ping", json!({}));
            caller.answer(after);
            let answers = caller.unasked();
            let fits = |answer: &Value| ids.contains(&answer["id"]) && answer["method"].is_null();
            if !(answers.len() == 1 && fits(&answers[0])) {
                failures.push(format!("{server}: {} was answered with {answers:?}", &line[..line.len().min(80)]));
            }
        }
        // Two requests in flight with the same id get two answers.
        for _ in 0..2 {
            caller.write(b"{\"jsonrpc\":\"2.0\",\"id\":110,\"method\":\"ping\"}\n");
        }
        caller.answer(110);
        caller.answer(110);
        assert!(failures.is_empty(), "{failures:#?}");
        stage.wait_until_asleep();
        assert_eq!(caller.unasked(), Vec::<Value>::new());
        caller.close();
        caller.code();
        stage.scene.expect_empty();
    }
}
