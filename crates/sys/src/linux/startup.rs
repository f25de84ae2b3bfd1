//! The first steps of a program that must find everything as its host left it.
//!
//! Before an ordinary `main`, the standard library sets SIGPIPE to ignored, installs handlers for SIGSEGV and SIGBUS, reads
//! the list of the program's mappings, and opens `/dev/null` on each of the descriptors 0 to 2 that is closed. A child must
//! get all of that as the host gave it, and every start would pay for it. So a program that is declared with
//! [`crate::program!`] starts without, and only the last of these is done here, since nothing else may get those numbers.

use std::ffi::{CStr, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// One bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Declares the function that is the program. It gets the arguments (only glibc gives them to a standard library that has not started
/// the program) and returns the exit code. Gives the program [functions for memory](crate::memory_functions) where the C library's are slow.
#[macro_export]
macro_rules! program {
    ($function:path) => {
        #[cfg(all(target_arch = "x86_64", target_env = "musl"))]
        $crate::use_memory_functions!();

        /// Where the C library starts the program.
        #[unsafe(no_mangle)]
        extern "C" fn main(count: i32, arguments: *const *mut u8) -> i32 {
            // SAFETY: these are what the C library gives to a program.
            unsafe { $crate::startup::run($function, count, arguments) }
        }
    };
}

/// Declares a function that the C library calls before `main`, and so before the standard library and any async runtime begin their work.
/// To be written once, in the crate of the program.
#[macro_export]
macro_rules! before_main {
    ($function:path) => {
        const _: () = {
            extern "C" fn before_main() {
                $function();
            }
            // SAFETY: the section is a list of pointers to functions, each of which the C library calls once, in the only thread.
            #[used]
            #[unsafe(link_section = ".init_array")]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
}

/// The memory in which the kernel has put the program's arguments.
static ARGUMENTS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// For [`crate::program!`].
///
/// # Safety
/// Count and arguments are the arguments with which the C library has called `main`.
pub unsafe fn run(program: fn(Vec<OsString>) -> u8, count: i32, arguments: *const *mut u8) -> i32 {
    // SAFETY: there are `count` pointers, each to a C string, which stay until the program ends.
    let words: Vec<&CStr> = unsafe {
        let pointers = std::slice::from_raw_parts(arguments, usize::try_from(count).unwrap_or(0));
        pointers.iter().map(|pointer| CStr::from_ptr(pointer.cast())).collect()
    };
    if let (Some(first), Some(last)) = (words.first(), words.last()) {
        // SAFETY: there is at least one pointer.
        ARGUMENTS.store(unsafe { *arguments }, Ordering::Relaxed);
        let end = last.as_ptr().addr() + last.count_bytes() + 1;
        LENGTH.store(end.saturating_sub(first.as_ptr().addr()), Ordering::Relaxed);
    }
    for fd in 0..3 {
        // SAFETY: F_GETFD on any number only reads the descriptor table.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            // SAFETY: the path is a C string. The lowest free number is this one, since those below are open.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
    i32::from(program(words.into_iter().map(|word| OsStr::from_bytes(word.to_bytes()).to_owned()).collect()))
}

/// From now on `ps` shows `title` for this process, as far as there is room, in place of the command line. **For a process with one
/// thread that has read its arguments and never reads them again**: they are gone.
///
/// The kernel shows the memory in which it has put the arguments. If the last byte of that is not zero, it takes the first string in it
/// for a title. So two pages at most are written, however long the command line is. A text, and nothing that has yet to be formatted: a
/// process that was just forked would have to touch the pages for that.
pub fn set_title(title: &str) {
    let Some((first, length)) = arguments() else { return };
    let Some(room) = length.checked_sub(2) else { return };
    // SAFETY: the kernel puts the arguments one behind the other into memory of this process that can be written to. There is one
    // thread, and it reads them no more.
    let area = unsafe { std::slice::from_raw_parts_mut(first, length) };
    // What does not fit is left out.
    let written = title.len().min(room);
    area[..written].copy_from_slice(&title.as_bytes()[..written]);
    area[written] = 0;
    area[length - 1] = 1;
}

/// Where the arguments are, and how many bytes. A program that was not declared with [`crate::program!`] asks the kernel.
fn arguments() -> Option<(*mut u8, usize)> {
    let (first, length) = (ARGUMENTS.load(Ordering::Relaxed), LENGTH.load(Ordering::Relaxed));
    if !first.is_null() {
        return Some((first, length));
    }
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may have spaces and parentheses. Behind it, the third field follows; `arg_start` is the 48th.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().skip(48 - 3);
    let mut address = || fields.next()?.parse::<usize>().ok().filter(|address| *address > 0);
    let (first, end) = (address()?, address()?);
    Some((std::ptr::with_exposed_provenance_mut(first), end.checked_sub(first)?))
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
