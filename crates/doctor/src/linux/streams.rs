//! The streams between a host and its child.

use nostray_sys::other_end::{OtherEnd, Stream};
use nostray_sys::process::Pid;

/// Whether a process talks with another one over stdin and stdout.
pub(crate) fn are_held(pid: Pid) -> Option<bool> {
    let is_held = |stream| matches!(OtherEnd::of(pid, stream), OtherEnd::Held(_));
    Some(is_held(Stream::Input) && is_held(Stream::Output))
}
