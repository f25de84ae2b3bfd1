//! A name that at most one live tree holds.

use under_wine::{Stage, kill};

const NAME: &str = "under-wine";

fn hold(stage: &Stage, child: &str) {
    let name = format!("{NAME}-{}", stage.token);
    let mut host = stage.host("waits", &stage.contained(&["--slot", &name], "sleep", &[child]));
    std::thread::spawn(move || host.wait().ok());
}

#[test]
fn a_slot_is_held_by_one_and_the_next_one_waits() {
    let stage = Stage::new("slots");
    let name = format!("{NAME}-{}", stage.token);
    hold(&stage, "first");
    stage.told("first");
    let said = stage.run("nostray.exe", &["run", "--slot", &name, "--if-taken", "fail", "--", "cmd", "/c", "exit 0"]);
    assert_eq!(said.status.code(), Some(75), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("is taken by"), "{said:?}");
    let words = ["run", "--slot", &name, "--wait-timeout", "300ms", "--", "cmd", "/c", "exit 0"];
    assert_eq!(stage.run("nostray.exe", &words).status.code(), Some(75));
    hold(&stage, "second");
    hold(&stage, "third");
    // Killed from outside: its tree is gone before the next one starts, and of the two that wait, one gets the slot.
    for _ in 0..2 {
        let running: Vec<_> =
            ["first", "second", "third"].into_iter().filter(|child| stage.has_told(child)).collect();
        assert_eq!(running.len(), 1, "{running:?}");
        let child = stage.find(&format!(" sleep {} ", stage.token)).map(|_| running[0]).expect("runs");
        let front = stage.seen().into_iter().find(|seen| {
            seen.line.contains("nostray.exe") && !seen.line.contains(" host ") && seen.line.ends_with(child)
        });
        std::fs::remove_file(stage.folder().join(child)).expect("removed");
        kill(front.expect("a front").pid);
        let next = under_wine::within(under_wine::DEADLINE, || {
            ["first", "second", "third"].into_iter().find(|other| stage.has_told(other))
        });
        assert!(next.is_some_and(|next| next != child), "{next:?}");
    }
    stage.seen().iter().for_each(|seen| kill(seen.pid));
    stage.time_until_empty();
}
