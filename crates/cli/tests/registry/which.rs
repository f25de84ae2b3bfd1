//! An id, the beginning of an id, a key, a slot, a session or a name: each command takes all of them, and says what exists if it
//! does not find one.

use std::process::Output;

use badchild::wait_until;
use testkit::stage::Stage;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn ids(stage: &Stage, words: &[&str]) -> Vec<String> {
    let output = stage.nostray(&[&["ps", "-q"], words].concat());
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// A shared child with a key and two sessions, a child with a slot, and one with a label for a name.
#[test]
fn every_word_that_names_a_child_is_accepted_everywhere() {
    let stage = Stage::new();
    let mut first = stage.shared(&["--key", "memory", "--session", "chat-1"], &[]);
    let mut second = stage.shared(&["--key", "memory", "--session", "chat-2"], &[]);
    let mut slotted = stage.start(&["--slot", "db", "--respawn", "--session", "chat-3"], &[]);
    slotted.initialize();
    let mut labelled = stage.start(&["--respawn", "--label", "name=bridge"], &[]);
    labelled.initialize();
    wait_until("all are on record", || stage.states() == ["ready"; 3] && ids(&stage, &["memory"]).len() == 1);
    let [shared_id, slotted_id, labelled_id] = ["memory", "db", "bridge"].map(|word| ids(&stage, &[word])[0].clone());
    for (word, id) in
        [("chat-1", &shared_id), ("chat-2", &shared_id), ("chat-3", &slotted_id), (&labelled_id[..4], &labelled_id)]
    {
        assert_eq!(ids(&stage, &[word]), [id.as_str()], "{word}");
    }
    for word in ["memory", "chat-1", "db", "chat-3", "bridge", &shared_id[..4]] {
        let output = stage.nostray(&["log", word]);
        assert!(output.status.success() && said(&output).contains("started"), "{word}: {output:?}");
        let output = stage.nostray(&["restart", word]);
        assert!(output.status.success() && said(&output).contains(" runs"), "{word}: {output:?}");
    }
    let output = stage.nostray(&["slot", "show", &slotted_id]);
    assert!(said(&output).contains("slot db: "), "{output:?}");
    // A session of a shared child is ended alone.
    let output = stage.nostray(&["stop", "chat-1"]);
    assert!(output.status.success() && said(&output).contains("session chat-1"), "{output:?}");
    first.code();
    second.who();
    for (word, caller) in [("memory", &mut second), ("db", &mut slotted), ("bridge", &mut labelled)] {
        let output = stage.nostray(&["stop", word]);
        assert!(output.status.success() && said(&output).contains("stopped"), "{word}: {output:?}");
        caller.code();
    }
    stage.scene.expect_empty();
    // The journal still knows them.
    for word in ["chat-1", "chat-3", &labelled_id] {
        let output = stage.nostray(&["log", word]);
        assert!(output.status.success() && said(&output).contains("started"), "{word}: {output:?}");
    }
}

#[test]
fn a_word_that_names_nothing_is_an_error_that_says_what_exists() {
    let stage = Stage::new();
    for words in [&["stop", "nosuch"][..], &["restart", "nosuch"], &["ps", "nosuch"], &["log", "nosuch"]] {
        let output = stage.nostray(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(said(&output).contains("nothing runs under nostray"), "{words:?}: {output:?}");
    }
    let mut caller = stage.start(&["--respawn", "--session", "chat-17", "--label", "name=bridge"], &[]);
    caller.initialize();
    wait_until("it is on record", || stage.states() == ["ready"]);
    let id = ids(&stage, &[])[0].clone();
    for words in [
        &["stop", "nosuch"][..],
        &["restart", "nosuch"],
        &["ps", "nosuch"],
        &["ps", "--json", "nosuch"],
        &["log", "nosuch"],
        &["log", "nosuch", "--output"],
    ] {
        let output = stage.nostray(words);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{words:?}: {output:?}");
        let said = said(&output);
        for part in ["'nosuch'", &id, "bridge", "chat-17"] {
            assert!(said.contains(part), "{words:?}: '{part}' is not in {said}");
        }
    }
    for words in
        [&["stop", "--session", "nosuch"][..], &["ps", "--session", "nosuch"], &["log", "--session", "nosuch"]]
    {
        let output = stage.nostray(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        assert!(said(&output).contains("session 'nosuch'; there are chat-17"), "{words:?}: {output:?}");
    }
    // Scripts know that a selection may be empty.
    assert_eq!(stage.nostray(&["ps", "--json", "--session", "nosuch"]).status.code(), Some(0));
    let output = stage.nostray(&["slot", "show", "nosuch"]);
    assert!(said(&output).contains("there is no slot nosuch"), "{output:?}");
    caller.close();
    caller.code();
    stage.scene.expect_empty();
}

/// Two children with the same name may have nothing to do with each other, so neither is ended by it.
#[test]
fn a_name_that_two_children_have_ends_neither() {
    let stage = Stage::new();
    let mut callers = ["a", "b"].map(|session| {
        let mut caller = stage.start(&["--respawn", "--session", session, "--label", "name=twin"], &[]);
        caller.initialize();
        caller
    });
    wait_until("both are on record", || stage.states() == ["ready"; 2]);
    assert_eq!(ids(&stage, &["twin"]).len(), 2, "what only shows something shows both");
    for command in ["stop", "restart"] {
        let output = stage.nostray(&[command, "twin"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said(&output).contains("2 children are called 'twin': "), "{output:?}");
    }
    for caller in &mut callers {
        caller.who();
        caller.close();
        caller.code();
    }
    stage.scene.expect_empty();
}
