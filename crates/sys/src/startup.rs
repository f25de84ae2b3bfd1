//! The first steps of a program that must find everything as its host left it.
//!
//! Before an ordinary `main`, the standard library sets SIGPIPE to ignored, installs handlers for SIGSEGV and SIGBUS, reads
//! the list of the program's mappings, and opens `/dev/null` on each of the descriptors 0 to 2 that is closed. A child must
//! get all of that as the host gave it, and every start would pay for it. So a program that is declared with
//! [`crate::program!`] starts without, and only the last of these is done here, since nothing else may get those numbers.

use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Declares the function that is the program. It returns the exit code.
#[macro_export]
macro_rules! program {
    ($function:path) => {
        /// Where the C library starts the program.
        #[unsafe(no_mangle)]
        extern "C" fn main(_: i32, _: *const *const u8) -> i32 {
            $crate::startup::run($function)
        }
    };
}

/// For [`crate::program!`].
pub fn run(program: fn() -> u8) -> i32 {
    for fd in 0..3 {
        // SAFETY: F_GETFD on any number only reads the descriptor table.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            // SAFETY: the path is a C string. The lowest free number is this one, since those below are open.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
    i32::from(program())
}

/// Whether the host started this process with `fd` (0, 1 or 2) closed.
#[must_use]
pub fn was_closed(fd: u8) -> bool {
    fd < 3 && CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// From now on all three are open, and meant to be.
pub(crate) fn nothing_was_closed() {
    CLOSED.store(0, Ordering::Relaxed);
}
