//! Bad children are bad: without nostray they survive. This is the left column of the table "What survives" in docs/run.md,
//! and without it a test that finds no process left would prove nothing.

use std::time::Duration;

use badchild::{Host, Scene, User, badchild, comes_true};
use nostray_sys::Signal;

const KINDS: [&str; 4] = ["plain", "term-ignoring", "setsid", "daemon"];

/// Starts a host over `badchild tree MANNER KIND`, lets something happen to it, and expects these of child and descendant to be
/// left, and to stay.
fn expect_survivors(
    expected: &[&str],
    options: &[&str],
    manner: &str,
    kind: &str,
    happen: impl Fn(&mut Host, &Scene),
) {
    let scene = Scene::new(User::Current);
    let program = badchild().display().to_string();
    let mut host = Host::start(&scene, options, &[&program, "tree", manner, kind]);
    host.ready();
    happen(&mut host, &scene);
    host.kill();
    let left = || -> Vec<&str> {
        let left = scene.processes();
        let has = |word: &str| left.iter().any(|found| found.command.contains(word));
        [("child", has(" tree ")), ("descendant", has(" member "))]
            .into_iter()
            .filter(|(_, left)| *left)
            .map(|(who, _)| who)
            .collect()
    };
    // A busy machine may take long to get there. A process that is still there half a second later does not end by the
    // event.
    comes_true(Duration::from_secs(20), &mut || left() == expected);
    comes_true(Duration::from_millis(500), &mut || left() != expected);
    assert_eq!(left(), expected, "{kind}");
}

#[test]
fn descendants_of_every_kind_survive_a_killed_host() {
    for kind in KINDS {
        expect_survivors(&["descendant"], &[], "cooperative", kind, |host, _| host.kill());
    }
}

#[test]
fn a_server_that_ignores_the_end_of_its_input_survives_with_all_its_descendants() {
    for kind in KINDS {
        expect_survivors(&["child", "descendant"], &[], "stubborn", kind, |host, _| host.order("exit"));
    }
}

#[test]
fn descendants_of_every_kind_survive_the_termination_of_their_parent() {
    for kind in KINDS {
        expect_survivors(&["descendant"], &[], "cooperative", kind, |_, scene| {
            scene
                .those_with(" tree ")
                .iter()
                .filter(|f| !f.command.contains(" host "))
                .for_each(|f| f.send(Signal::TERM));
        });
    }
}

#[test]
fn child_and_descendants_survive_a_killed_host_while_another_process_holds_the_pipe() {
    for kind in KINDS {
        expect_survivors(&["child", "descendant"], &["--hold"], "cooperative", kind, |host, _| host.kill());
    }
}

#[test]
fn all_but_plain_descendants_survive_a_closed_terminal() {
    for kind in KINDS {
        let expected: &[&str] = if kind == "plain" { &[] } else { &["descendant"] };
        expect_survivors(expected, &["--stdin", "terminal"], "cooperative", kind, |host, _| host.order("close"));
    }
}
