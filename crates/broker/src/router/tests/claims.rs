//! Handshakes, eras, and who cannot share a child.

use super::*;

fn hello(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": { "name": "s" } })
}

#[test]
fn a_handshake_is_made_once_and_each_session_gets_the_answer() {
    let mut stage = Stage::new(routing());
    stage.says(A, &initialize("a", "2025-06-18", r#"{"roots":{},"sampling":{"x":1}}"#));
    let told = stage.child();
    assert_eq!(told.len(), 1);
    // While it is in flight, and in another order.
    stage.says(B, &initialize("b", "2025-06-18", r#"{"sampling":{"x":1},"roots":{}}"#));
    stage.says(B, &notify("notifications/initialized", "{}"));
    stage.says(B, &call("7", "tools/list", "{}"));
    assert!(stage.child().is_empty() && stage.hears(B).is_empty());
    stage.child_answers(&told[0]["id"], hello("2025-06-18"));
    assert_eq!(stage.hears(A)[0], json!({ "jsonrpc": "2.0", "id": "a", "result": hello("2025-06-18") }));
    assert_eq!(stage.hears(B)[0], json!({ "jsonrpc": "2.0", "id": "b", "result": hello("2025-06-18") }));
    let told = stage.child();
    assert_eq!(told[0]["method"], "notifications/initialized");
    assert_eq!(told[1]["method"], "tools/list");
    // Only the first goes to the child.
    stage.says(A, &notify("notifications/initialized", "{}"));
    assert!(stage.child().is_empty());
    // Afterwards.
    stage.join(C);
    stage.says(C, &initialize("c", "2025-06-18", r#"{"sampling":{"x":1},"roots":{}}"#));
    assert_eq!(stage.hears(C)[0]["result"], hello("2025-06-18"));
    assert!(stage.child().is_empty());
    assert_eq!(stage.router.variant().as_deref(), Some(r#"2025-06-18 {"roots":{},"sampling":{"x":1}}"#));
}

#[test]
fn if_a_handshake_fails_the_next_one_may_try() {
    let mut stage = Stage::new(routing());
    stage.says(A, &initialize("a", "2025-06-18", "{}"));
    stage.says(B, &initialize("b", "2025-06-18", "{}"));
    let told = stage.child();
    assert_eq!(told.len(), 1);
    stage.child_refuses(&told[0]["id"], -32603);
    assert_eq!(stage.hears(A)[0]["error"]["code"], -32603);
    assert!(stage.hears(B).is_empty());
    let told = stage.child();
    assert_eq!(told[0]["method"], "initialize");
    stage.child_answers(&told[0]["id"], hello("2025-06-18"));
    assert_eq!(stage.hears(B)[0]["id"], "b");
}

#[test]
fn a_handshake_counts_even_if_its_session_has_left() {
    let mut stage = Stage::new(routing());
    stage.says(A, &initialize("a", "2025-06-18", "{}"));
    stage.says(B, &initialize("b", "2025-06-18", "{}"));
    let told = stage.child();
    stage.leave(A);
    assert!(stage.child().is_empty());
    stage.child_answers(&told[0]["id"], hello("2025-06-18"));
    assert_eq!(stage.hears(B)[0]["result"], hello("2025-06-18"));
}

#[test]
fn a_session_that_waits_for_a_handshake_may_cancel_it() {
    let mut stage = Stage::new(routing());
    stage.says(A, &initialize("a", "2025-06-18", "{}"));
    let told = stage.child();
    stage.says(B, &initialize("b", "2025-06-18", "{}"));
    stage.says(B, &notify("notifications/cancelled", r#"{"requestId":"b"}"#));
    stage.child_answers(&told[0]["id"], hello("2025-06-18"));
    assert!(stage.hears(B).is_empty() && stage.child().is_empty());
}

#[test]
fn another_version_other_capabilities_or_another_era_need_another_child() {
    let cases = [
        (
            initialize("c", "2025-03-26", "{}"),
            "2025-03-26 {}",
            "it speaks 2025-03-26 and the shared child was told 2025-06-18",
        ),
        (
            initialize("c", "2025-06-18", r#"{"b":{},"a":{}}"#),
            r#"2025-06-18 {"a":{},"b":{}}"#,
            "its capabilities are not those that the shared child was told",
        ),
        (
            modern("1", "tools/list", ""),
            "modern",
            "it speaks without a handshake, as newer clients do, and the shared child was told 2025-06-18",
        ),
    ];
    for (line, variant, why) in cases {
        let mut stage = Stage::shared();
        stage.join(C);
        stage.says(C, &line);
        assert_eq!(stage.elsewhere, [(C, variant.to_owned(), why.to_owned())]);
        // All that it says from then on is for that one, too.
        stage.says(C, &call("9", "tools/list", "{}"));
        assert_eq!(stage.elsewhere.len(), 2);
        assert!(stage.child().is_empty() && stage.hears(C).is_empty());
        // The next child may be one for it.
        stage.router.child_gone();
        stage.router.rejoin(C);
        stage.says(C, &line);
        assert_eq!(stage.child().len(), 1);
    }
}

#[test]
fn a_session_that_waited_to_see_what_a_child_is_told_is_sent_elsewhere_with_all_it_has_said() {
    let mut router = Router::new(routing(), counted());
    router.join(A);
    router.join(B);
    let first = initialize("a", "2025-06-18", "{}");
    assert!(matches!(router.session_says(A, first.as_bytes(), Moment::ZERO), FromSession::ToChild(_)));
    let second = initialize("b", "2025-03-26", "{}");
    let third = notify("notifications/initialized", "{}");
    assert_eq!(router.session_says(B, second.as_bytes(), Moment::ZERO), FromSession::Swallow);
    assert_eq!(router.session_says(B, third.as_bytes(), Moment::ZERO), FromSession::Swallow);
    assert!(!router.has_effects());
    router.child_says(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Moment::ZERO);
    let [Effect::Elsewhere { session_id, variant, lines, .. }] = &router.effects()[..] else {
        panic!("it is sent away")
    };
    assert_eq!((*session_id, variant.as_str()), (B, "2025-03-26 {}"));
    assert_eq!(String::from_utf8_lossy(lines), format!("{second}\n{third}\n"));
    assert!(!router.is_busy(Moment::ZERO));
}

#[test]
fn the_newer_era_needs_no_handshake_and_every_session_may_speak_it() {
    let mut stage = Stage::new(routing());
    stage.says(A, &modern("1", "tools/list", ""));
    stage.says(B, &modern("1", "server/discover", ""));
    let told = stage.child();
    assert_eq!(told.len(), 2);
    stage.join(C);
    stage.says(C, &initialize("c", "2025-06-18", "{}"));
    assert!(stage.child().is_empty());
    stage.child_answers(&told[1]["id"], json!({ "supportedVersions": [] }));
    assert_eq!(stage.elsewhere.len(), 1);
    assert_eq!(stage.router.variant().as_deref(), Some("modern"));
    stage.child_answers(&told[0]["id"], json!({ "tools": [] }));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len(), stage.hears(C).len()), (1, 1, 0));
}

#[test]
fn a_server_that_does_not_know_the_newer_era_is_asked_for_it_once() {
    let mut stage = Stage::new(routing());
    stage.says(A, &modern("1", "server/discover", ""));
    let told = stage.child();
    stage.says(B, &initialize("b", "2025-06-18", "{}"));
    assert!(stage.child().is_empty());
    stage.child_refuses(&told[0]["id"], -32601);
    let refused = stage.hears(A);
    // Now B's handshake may go, and A gets it too.
    let told = stage.child();
    assert_eq!(told[0]["method"], "initialize");
    stage.says(A, &initialize("a", "2025-06-18", "{}"));
    stage.child_answers(&told[0]["id"], hello("2025-06-18"));
    assert_eq!((stage.hears(A).len(), stage.hears(B).len()), (1, 1));
    stage.join(C);
    stage.says(C, &modern("1", "server/discover", ""));
    assert_eq!(stage.hears(C), refused);
    assert!(stage.child().is_empty() && stage.elsewhere.is_empty());
}

#[test]
fn a_server_that_knows_another_version_is_asked_again() {
    let mut stage = Stage::new(routing());
    stage.says(A, &modern("1", "server/discover", ""));
    let told = stage.child();
    stage.child_refuses(&told[0]["id"], -32022);
    stage.says(B, &modern("1", "server/discover", ""));
    assert_eq!(stage.child().len(), 1);
}

#[test]
fn a_client_that_gives_up_on_the_newer_era_makes_its_handshake() {
    // Without an answer, with a cancel or without.
    for cancel in [true, false] {
        let mut stage = Stage::new(routing());
        stage.says(A, &modern("1", "server/discover", ""));
        stage.child();
        if cancel {
            stage.says(A, &notify("notifications/cancelled", r#"{"requestId":1}"#));
            assert_eq!(stage.child().len(), 1);
        }
        stage.says(A, &initialize("a", "2025-06-18", "{}"));
        let told = stage.child();
        assert_eq!(told[0]["method"], "initialize");
        stage.child_answers(&told[0]["id"], hello("2025-06-18"));
        assert_eq!(stage.hears(A).len(), 1);
        assert_eq!(stage.router.variant().as_deref(), Some("2025-06-18 {}"));
    }
}

#[test]
fn the_claim_of_a_session_that_leaves_stays() {
    let mut stage = Stage::new(routing());
    stage.says(A, &modern("1", "tools/call", ""));
    stage.says(B, &initialize("b", "2025-06-18", "{}"));
    stage.child();
    stage.leave(A);
    assert_eq!(stage.elsewhere.len(), 1);
}

#[test]
fn a_call_without_any_handshake_claims_nothing() {
    let mut stage = Stage::new(routing());
    let ours = stage.calls(A, "1", "tools/list");
    stage.child_answers(&ours, json!({}));
    assert_eq!(stage.router.variant(), None);
    stage.says(B, &modern("1", "tools/list", ""));
    assert_eq!(stage.child().len(), 1);
    stage.calls(A, "2", "tools/list");
}
