//! Bad children are bad: without nostray they survive. This is the left column of the table in README.md, and without it
//! every test that finds nobody left would show nothing.

use std::time::Duration;

use badchild::{Host, Scene, User, badchild, comes_true};
use nostray_sys::Signal;

const KINDS: [&str; 4] = ["plain", "term-ignoring", "setsid", "daemon"];

/// Starts a host over `badchild tree MANNER KIND`, lets something happen to it, and says who is left of child and
/// descendant once nothing changes any more.
fn survivors(options: &[&str], manner: &str, kind: &str, happen: impl Fn(&mut Host, &Scene)) -> Vec<&'static str> {
    let scene = Scene::new(User::Current);
    let program = badchild().display().to_string();
    let mut host = Host::start(&scene, options, &[&program, "tree", manner, kind]);
    host.ready();
    happen(&mut host, &scene);
    host.kill();
    let count = || {
        let left = scene.everybody();
        let has = |word: &str| left.iter().any(|found| found.command.contains(word));
        [("child", has(" tree ")), ("descendant", has(" member "))]
    };
    // Whoever ends because of this does so at once; half a second without a change is an age.
    let mut last = count();
    while comes_true(Duration::from_millis(500), &mut || count() != last) {
        last = count();
    }
    last.into_iter().filter(|(_, left)| *left).map(|(who, _)| who).collect()
}

#[test]
fn descendants_of_every_kind_survive_a_killed_host() {
    for kind in KINDS {
        assert_eq!(survivors(&[], "cooperative", kind, |host, _| host.kill()), ["descendant"], "{kind}");
    }
}

#[test]
fn a_server_that_ignores_the_end_of_its_input_survives_with_all_its_descendants() {
    for kind in KINDS {
        let left = survivors(&[], "stubborn", kind, |host, _| host.order("exit"));
        assert_eq!(left, ["child", "descendant"], "{kind}");
    }
}

#[test]
fn descendants_of_every_kind_survive_the_termination_of_their_parent() {
    for kind in KINDS {
        let left = survivors(&[], "cooperative", kind, |_, scene| {
            scene
                .those_with(" tree ")
                .iter()
                .filter(|f| !f.command.contains(" host "))
                .for_each(|f| f.send(Signal::TERM));
        });
        assert_eq!(left, ["descendant"], "{kind}");
    }
}

#[test]
fn everybody_survives_a_killed_host_while_another_process_holds_the_pipe() {
    for kind in KINDS {
        let left = survivors(&["--hold"], "cooperative", kind, |host, _| host.kill());
        assert_eq!(left, ["child", "descendant"], "{kind}");
    }
}

#[test]
fn all_but_plain_descendants_survive_a_closed_terminal() {
    for kind in KINDS {
        let left = survivors(&["--stdin", "terminal"], "cooperative", kind, |host, _| host.order("close"));
        let expected: &[&str] = if kind == "plain" { &[] } else { &["descendant"] };
        assert_eq!(left, expected, "{kind}");
    }
}
