//! Giving back memory that a process which only waits does not need.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// Whether the next wait is to give program pages back.
static WANTED: AtomicBool = AtomicBool::new(false);

/// At the next wait for events, drops this process's hold on the pages of programs and libraries that it only reads, most of
/// which only starting up has touched. They stay in the page cache and come back by themselves when they are needed, which
/// for a guard is at the end of its tree. The stack below the wait is dropped, too: deeper calls have used it, and have returned.
///
/// Not at once: the kernel maps sixteen pages around each page that is touched, so the code between here and the wait
/// would bring most of them back.
pub fn release_program_pages_at_next_wait() {
    WANTED.store(true, Ordering::Relaxed);
}

/// For a caller that is about to wait. Part of its caller, so that the code that goes on from here is on the same page.
#[inline(always)]
pub(crate) fn before_waiting(timeout: Option<Duration>) {
    // A caller that does not wait goes on to work, and needs its pages.
    if timeout == Some(Duration::ZERO) || !WANTED.swap(false, Ordering::Relaxed) {
        return;
    }
    release_unused_stack();
    let segments = Segments::of_this_process();
    for &(start, length) in &segments.found[..segments.count] {
        // SAFETY: a segment without the write flag is mapped from its file and was never written, so dropping a page of it
        // loses nothing: the next access reads the same bytes. (What the loader itself relocates lies in segments that
        // have the flag, also where it is taken away later.)
        unsafe { madvise(start, length, Advice::LinuxDontNeed) }.ok();
    }
}

/// How far below the wait the stack may have been used. More than that is only not given back.
const STACK: usize = 1 << 20;

/// Not a part of its caller: everything that is in use lies above this function's frame.
#[inline(never)]
fn release_unused_stack() {
    let here = 0_u8;
    let here = std::ptr::from_ref(std::hint::black_box(&here)).addr();
    // The kernel puts these bytes above the first frame of a program's first stack. Below another thread's stack there may be anything.
    // SAFETY: reads what the kernel has told the C library.
    let top = usize::try_from(unsafe { libc::getauxval(libc::AT_RANDOM) }).unwrap_or(0);
    if top.checked_sub(here).is_none_or(|used| used > STACK) {
        return;
    }
    let page = rustix::param::page_size();
    // A page is left for the frames of the call itself.
    let end = here / page * page - page;
    // SAFETY: the kernel keeps a gap of 128 MiB below a first stack, so there is nothing but the stack here; and no frame below this one
    // is in use.
    unsafe { madvise(std::ptr::without_provenance_mut(end - STACK), STACK, Advice::LinuxDontNeed) }.ok();
}

/// Where the program and its libraries are mapped read-only: start and length in bytes. All of them are looked up before the
/// first is dropped, and nothing is allocated, for the same reason for which it is done last of all.
struct Segments {
    /// The program's own come first. What is left out of so many is only not given back.
    found: [(*mut c_void, usize); 16],
    count: usize,
}

impl Segments {
    #[inline(never)]
    fn of_this_process() -> Self {
        let mut segments = Self { found: [(std::ptr::null_mut(), 0); 16], count: 0 };
        // SAFETY: the callback has the signature that is asked for, and the pointer is to what it expects, alive during the call.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut segments).cast()) };
        segments
    }
}

/// Called for the program and for each library that it has loaded.
unsafe extern "C" fn add(object: *mut libc::dl_phdr_info, _size: usize, segments: *mut c_void) -> libc::c_int {
    // SAFETY: the loader passes a description that is valid during the call, with as many headers as it says, and the pointer
    // that `of_this_process` gave.
    let (base, headers, segments) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object.dlpi_addr, headers, &mut *segments.cast::<Segments>())
    };
    let page = rustix::param::page_size() as u64;
    for header in headers {
        let start = (base + header.p_vaddr).next_multiple_of(page);
        let end = (base + header.p_vaddr + header.p_memsz) / page * page;
        let is_read_only = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0;
        if let Some(free) = segments.found.get_mut(segments.count).filter(|_| is_read_only && start < end) {
            *free = (start as *mut c_void, (end - start) as usize);
            segments.count += 1;
        }
    }
    0
}
