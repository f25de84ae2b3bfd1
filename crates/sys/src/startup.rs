//! What the host handed over, recorded before Rust's runtime changes it.
//!
//! Before `main`, the standard library sets SIGPIPE to ignored and opens `/dev/null` on each of the
//! descriptors 0 to 2 that is closed. A child must get both as the host gave them, so a constructor that
//! runs earlier takes note.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);
/// One bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

#[used]
// SAFETY: the section holds pointers to C functions which the loader calls once before `main`; ours takes
// no arguments that it reads, and calls only functions that need no initialised runtime.
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    // SAFETY: all-zero is a valid `sigaction`, and the call only writes into it.
    let ignored = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
    };
    SIGPIPE_WAS_IGNORED.store(ignored, Ordering::Relaxed);
    let mut closed = 0;
    for fd in 0..3 {
        // SAFETY: F_GETFD on any number only reads the descriptor table.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            closed |= 1 << fd;
        }
    }
    CLOSED.store(closed, Ordering::Relaxed);
}

/// Whether the host started this process with SIGPIPE ignored.
#[must_use]
pub fn sigpipe_was_ignored() -> bool {
    SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed)
}

/// Whether the host started this process with `fd` (0, 1 or 2) closed.
#[must_use]
pub fn was_closed(fd: u8) -> bool {
    fd < 3 && CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}
