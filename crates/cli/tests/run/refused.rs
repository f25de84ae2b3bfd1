//! nostray names a process that it may not signal, and does not wait for it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use badchild::{Folder, Scene, User, badchild, comes_true};
use nostray_sys::Signal;
use testkit::nostray;

#[test]
fn a_process_of_another_user_is_named_and_not_waited_for() {
    if !User::all().contains(&User::Nobody) {
        return; // only root can make a set-user-id program
    }
    let (scene, folder) = (Scene::new(User::Nobody), Folder::new("setuid"));
    let setuid = folder.path().join("setuid-badchild");
    assert!(std::process::Command::new("cp").arg(badchild()).arg(&setuid).status().expect("cp").success());
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).expect("chmod u+s");
    for inside in [vec![], vec!["sh", "-c", "\"$0\" become-root & cat", setuid.to_str().expect("text")]] {
        let mut command = scene.command(&nostray());
        command.args(["run", "--eof-grace", "100ms", "--term-grace", "100ms", "--"]);
        if inside.is_empty() {
            command.arg(&setuid).args(["become-root", "--token", "hunter2"]);
        } else {
            command.args(&inside);
        }
        // stderr is a file: a pipe would not end as long as the survivor lives.
        let words = folder.path().join("words");
        let stderr = std::fs::File::create(&words).expect("create");
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().expect("start");
        badchild::wait_until("the process is root", || {
            let found = scene.those_with("become-root");
            found
                .iter()
                .any(|f| nostray_sys::proc::user_of(f.stat.pid) == Some(0) && f.stat.name == "setuid-badchild")
        });
        drop(process.stdin.take());
        let mut status = None;
        assert!(
            comes_true(Duration::from_secs(20), &mut || {
                status = process.try_wait().expect("look");
                status.is_some()
            }),
            "nostray waits for a process that it may not signal"
        );
        let said = std::fs::read_to_string(&words).expect("read");
        assert!(said.contains("may not be signalled") && said.contains("become-root"), "said: {said}");
        assert!(!said.contains("hunter2"), "said: {said}");
        let left = scene.processes();
        assert_eq!(left.len(), 1, "only the process that may not be signalled is left: {left:#?}");
        for found in left {
            found.send(Signal::KILL);
        }
        scene.expect_empty();
    }
}
