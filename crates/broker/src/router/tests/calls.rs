//! Calls and their answers.

use super::*;

#[test]
fn equal_ids_of_two_sessions_are_told_apart_and_come_back_as_they_were_written() {
    let mut stage = Stage::shared();
    let ids = ["1", "1.0", "\"1\"", "1e0", "-7", "\"\\u0041\"", "0", "123456789012345678901234567890"];
    let mut known = Vec::new();
    for id in ids {
        for session_id in [A, B] {
            known.push((session_id, id, stage.calls(session_id, id, "tools/call")));
        }
    }
    for (session_id, id, ours) in known.iter().rev() {
        stage.child_answers(ours, json!({ "for": session_id.0 }));
        let heard = stage.hears_raw(*session_id);
        let result = format!(r#""result":{{"for":{}}}"#, session_id.0);
        assert_eq!(heard.len(), 1);
        assert!(heard[0].contains(&format!(r#""id":{id}"#)) && heard[0].contains(&result), "{heard:?}");
    }
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn no_id_is_given_twice_even_to_different_children() {
    let mut stage = Stage::shared();
    let first = stage.calls(A, "1", "tools/call");
    stage.router.child_gone();
    stage.router.rejoin(A);
    let second = stage.calls(A, "1", "tools/call");
    assert_ne!(first, second);
    stage.child_answers(&first, json!("late"));
    assert!(stage.hears(A).is_empty());
    assert_eq!(stage.logged, ["an answer to nothing that is asked"]);
}

#[test]
fn what_is_not_changed_stays_as_the_bytes_it_came_in() {
    let mut stage = Stage::shared();
    stage.says(A, r#" { "params" : {"x": 1.50, "y":"\u00e9" } , "id":  "a b" ,"jsonrpc":"2.0", "method":"m"} "#);
    let told = std::mem::take(&mut stage.child);
    let ours: Value = serde_json::from_str(&told[0]).expect("JSON");
    let ours = ours["id"].clone();
    let expected =
        format!(r#" {{ "params" : {{"x": 1.50, "y":"\u00e9" }} , "id":  {ours} ,"jsonrpc":"2.0", "method":"m"}} "#);
    assert_eq!(told, [expected]);
    stage.child_says(&format!(r#"{{"result":{{"z":1.50}},"jsonrpc":"2.0","id":{ours}}}"#));
    assert_eq!(stage.hears_raw(A), [r#"{"result":{"z":1.50},"jsonrpc":"2.0","id":"a b"}"#]);
}

#[test]
fn long_lines_are_changed_in_every_layout() {
    let long = "y".repeat(100_000);
    let meta = r#""_meta":{"progressToken":"t"}"#;
    for params in [
        format!(r#"{{{meta},"name":"{long}"}}"#),
        format!(r#"{{"name":"{long}",{meta}}}"#),
        format!(r#"{{"name":"{long}",{meta},"z":[1]}}"#),
        format!(r#"{{"name":"{long}","arguments":{{{meta}}},{meta}}}"#),
    ] {
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{params}}}"#),
            format!(r#"{{"method":"tools/call","params":{params},"jsonrpc":"2.0","id":"mine"}}"#),
            format!(r#"{{"params":{params},"method":"tools/call","jsonrpc":"2.0","id":"mine"}}"#),
        ] {
            let mut stage = Stage::shared();
            stage.says(A, &line);
            let told = stage.child().pop().expect("a call");
            let ours = told["id"].clone();
            assert!(ours.is_i64());
            assert_eq!(told["params"]["_meta"]["progressToken"], ours);
            assert_eq!(told["params"]["name"], long);
            if let Some(inner) = told["params"].get("arguments") {
                assert_eq!(inner["_meta"]["progressToken"], "t");
            }
            stage.child_answers(&ours, json!({ "long": long }));
            let heard = stage.hears(A);
            assert_eq!((&heard[0]["id"], &heard[0]["result"]["long"]), (&json!("mine"), &json!(long)));
        }
    }
}

#[test]
fn progress_goes_to_the_calling_session_with_its_own_token() {
    let mut stage = Stage::shared();
    let mut known = Vec::new();
    for (session_id, token) in [(A, "1"), (B, "1.0"), (A, "\"x\"")] {
        stage.says(session_id, &call("5", "tools/call", &format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#)));
        let told = stage.child().pop().expect("a call");
        assert_eq!(told["params"]["_meta"]["progressToken"], told["id"]);
        known.push((session_id, token, told["id"].clone()));
    }
    for (session_id, token, ours) in &known {
        stage.child_says(&notify("notifications/progress", &format!(r#"{{"progressToken":{ours},"progress":1}}"#)));
        let heard = stage.hears_raw(*session_id);
        assert!(heard.len() == 1 && heard[0].contains(&format!(r#""progressToken":{token},"#)), "{heard:?}");
    }
    // An unknown token, the token of an ended call, and none.
    let ended = &known[0].2;
    stage.child_answers(ended, json!({}));
    stage.hears(A);
    for token in [&json!(999), ended, &json!("x"), &Value::Null] {
        stage.child_says(&notify("notifications/progress", &format!(r#"{{"progressToken":{token}}}"#)));
    }
    assert!(stage.hears(A).is_empty() && stage.hears(B).is_empty());
}

#[test]
fn a_call_without_a_progress_token_gets_no_progress_even_if_the_child_guesses_its_id() {
    let mut stage = Stage::shared();
    let ours = stage.calls(A, "1", "tools/call");
    stage.child_says(&notify("notifications/progress", &format!(r#"{{"progressToken":{ours}}}"#)));
    assert!(stage.hears(A).is_empty());
}

#[test]
fn what_is_no_token_is_left_alone() {
    let mut stage = Stage::shared();
    stage.says(A, &call("5", "tools/call", r#"{"_meta":{"progressToken":{"a":1}}}"#));
    assert_eq!(stage.child()[0]["params"]["_meta"]["progressToken"], json!({ "a": 1 }));
}

#[test]
fn a_cancel_reaches_the_call_that_the_session_means() {
    let mut stage = Stage::shared();
    let of_a = stage.calls(A, "1", "tools/call");
    let of_b = stage.calls(B, "1.0", "tools/call");
    stage.says(B, &notify("notifications/cancelled", r#"{"requestId":1,"reason":"enough"}"#));
    let told = stage.child();
    assert_eq!(told[0]["params"], json!({ "requestId": of_b, "reason": "enough" }));
    assert_eq!((stage.router.in_flight(A), stage.router.in_flight(B)), (1, 0));
    // Again, and for something that was never asked.
    stage.says(B, &notify("notifications/cancelled", r#"{"requestId":1}"#));
    stage.says(B, &notify("notifications/cancelled", r#"{"requestId":77}"#));
    stage.says(B, &notify("notifications/cancelled", r#"{}"#));
    assert!(stage.child().is_empty());
    stage.child_answers(&of_a, json!({}));
    assert!(!stage.router.is_busy(stage.now));
    // What comes all the same is passed on.
    stage.child_refuses(&of_b, 0);
    assert_eq!(stage.hears(B)[0]["id"], json!(1.0));
}

#[test]
fn cancelled_calls_that_are_never_answered_are_forgotten_in_the_end() {
    let mut stage = Stage::shared();
    let before = stage.router.footprint();
    for id in 0..2000 {
        stage.calls(A, &id.to_string(), "tools/call");
        stage.says(A, &notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#)));
        stage.child();
    }
    assert!(stage.router.footprint() <= before + 1024);
    assert!(!stage.router.is_busy(stage.now));
}

#[test]
fn a_handshake_is_not_cancelled() {
    let mut stage = Stage::new(routing());
    stage.says(A, &initialize("x", "2025-06-18", "{}"));
    stage.child();
    stage.says(A, &notify("notifications/cancelled", r#"{"requestId":"x"}"#));
    assert!(stage.child().is_empty());
}

#[test]
fn news_of_a_task_goes_to_the_session_that_started_it() {
    let mut stage = Stage::shared();
    let ours = stage.calls(B, "1", "tools/call");
    stage.child_answers(&ours, json!({ "task": { "taskId": "t1", "status": "working" } }));
    stage.hears(B);
    stage.child_says(&notify("notifications/tasks/status", r#"{"taskId":"t1","status":"completed"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (0, 1));
    stage.child_says(&notify("notifications/tasks/status", r#"{"taskId":"t2","status":"completed"}"#));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (1, 1));
    stage.leave(B);
    stage.child_says(&notify("notifications/tasks/status", r#"{"taskId":"t1","status":"completed"}"#));
    assert!(stage.hears(A).is_empty());
}

#[test]
fn what_a_child_says_of_itself_goes_to_all_sessions_that_have_spoken() {
    let mut stage = Stage::shared();
    stage.join(C);
    stage.child_says(&notify("notifications/tools/list_changed", "{}"));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len(), stage.hears(C).len()), (1, 1, 0));
    assert!(stage.child().is_empty());
}

#[test]
fn it_has_answered_when_it_has_and_a_new_one_has_not() {
    let mut stage = Stage::new(routing());
    assert!(!stage.router.has_answered());
    let ours = stage.calls(A, "1", "tools/list");
    stage.child_says(&notify("notifications/tools/list_changed", "{}"));
    assert!(!stage.router.has_answered());
    stage.child_refuses(&ours, -32601);
    assert!(stage.router.has_answered());
    stage.router.child_gone();
    assert!(!stage.router.has_answered());
}
