//! Whether a process has children. A program of its own: other tests would have some meanwhile.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use nostray_sys::poll::{self, Until};
use nostray_sys::process::has_children;
use nostray_sys::{Pid, Pidfd};

#[test]
fn a_process_has_a_child_from_its_start_until_it_was_reaped() {
    assert!(!has_children());
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("start");
    assert!(has_children(), "it runs");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a number");
    let handle = Pidfd::open(pid).expect("a handle");
    drop(child.stdin.take());
    let ended = poll::wait(&[(handle.as_fd(), Until::Readable)], Some(Duration::from_secs(20))).expect("wait");
    assert_eq!(ended, [true]);
    assert!(has_children(), "it has ended, and was not reaped");
    child.wait().expect("reap");
    assert!(!has_children());
}
