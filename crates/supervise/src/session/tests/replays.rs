//! `--replay session.open=session.close@params.id`.

use super::*;
use crate::memory::MAX_REMEMBERED;

fn stage() -> Stage {
    let replay = vec!["open=close@params.id".parse().expect("a rule")];
    Stage::new(Settings { protocol: Protocol::JsonRpc, replay, ..settings() })
}

fn request(id: usize, method: &str, key: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"id":{key}}}}}"#)
}

fn notification(method: &str, key: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"id":{key}}}}}"#)
}

/// A child is started, and answers what it is told before it hears anything else; this is what it was told.
fn next_child(stage: &mut Stage) -> Vec<(String, u64)> {
    stage.passes(Duration::from_secs(5));
    let mut answered = 0;
    while let Some(told) = stage.child.get(answered) {
        answered += 1;
        if let Some(id) = told["id"].as_i64() {
            stage.answer(id, "{}");
        }
    }
    let said = |message: &Value| {
        (message["method"].as_str().expect("a method").to_owned(), message["params"]["id"].as_u64().expect("a key"))
    };
    stage.child.iter().map(said).collect()
}

fn opens(keys: &[u64]) -> Vec<(String, u64)> {
    keys.iter().map(|key| ("open".to_owned(), *key)).collect()
}

#[test]
fn what_the_child_has_agreed_to_open_and_not_to_close_is_open() {
    let mut stage = stage();
    for (id, method, key) in [(1, "open", 1), (2, "open", 2), (3, "open", 3), (4, "open", 4), (5, "close", 4)] {
        stage.host_says(&request(id, method, key));
    }
    stage.host_says(&request(6, "close", 1));
    stage.host_says(&request(7, "close", 2));
    // It answers in an order of its own: what is closed is closed.
    for id in [5, 4, 1, 2, 6] {
        stage.answer(id, "{}");
    }
    stage.child_says(r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"it is in use"}}"#);
    stage.child_says(r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}"#);
    stage.dies();
    assert_eq!(next_child(&mut stage), opens(&[2]));
    // Again, with a request that the child had not answered.
    stage.host_says(&request(8, "open", 5));
    stage.host_says(&request(9, "open", 2));
    stage.answer(9, "{}");
    stage.dies();
    assert_eq!(next_child(&mut stage), opens(&[2]));
}

#[test]
fn notifications_open_and_close_in_their_order_also_while_there_is_no_child() {
    let mut stage = stage();
    for (method, key) in [("open", 1), ("open", 2), ("close", 1), ("open", 3)] {
        stage.host_says(&notification(method, key));
    }
    // What it has not read is told once.
    stage.dies_before_it_reads(1);
    for (method, key) in [("close", 2), ("open", 2), ("close", 3)] {
        stage.host_says(&notification(method, key));
    }
    let mut expected = opens(&[2, 3]);
    expected.extend([("close", 2), ("open", 2), ("close", 3)].map(|(method, key)| (method.to_owned(), key)));
    assert_eq!(next_child(&mut stage), expected);
    stage.dies();
    stage.host_says(&request(1, "other", 9));
    assert_eq!(next_child(&mut stage), [opens(&[2]), vec![("other".to_owned(), 9)]].concat());
}

#[test]
fn one_more_than_can_be_kept_is_an_error_and_does_not_reach_the_child() {
    let mut stage = stage();
    for key in 0..MAX_REMEMBERED {
        stage.host_says(&request(key, "open", key));
        // Requests in flight count as well.
        if key < MAX_REMEMBERED - 2 {
            stage.answer(i64::try_from(key).expect("small"), "{}");
        }
    }
    stage.host.clear();
    stage.child.clear();
    stage.host_says(&request(5000, "open", 5000));
    stage.host_says(&notification("open", 5000));
    stage.host_says(&format!("[{},{}]", request(5001, "open", 5000), request(5002, "other", 1)));
    assert!(stage.child.is_empty(), "{:?}", stage.child);
    assert_eq!((&stage.host[0]["id"], &stage.host[1]["id"]), (&json!(5000), &Value::Null));
    assert_eq!((&stage.host[2][0]["id"], &stage.host[2][1]["id"]), (&json!(5001), &json!(5002)));
    let why = stage.host[0]["error"]["message"].as_str().expect("why");
    assert!(why.contains("1024 are open") && why.contains("--replay"), "{why}");
    // What is open may be opened again, and what is closed makes room.
    stage.host_says(&request(5003, "open", 7));
    stage.host_says(&notification("close", 8));
    stage.host_says(&notification("open", 5000));
    assert_eq!(stage.told(), ["open", "close", "open"]);
}
