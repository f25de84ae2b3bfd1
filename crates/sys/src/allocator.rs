//! The allocator of the program `nostray` where the C library is musl.
//!
//! musl's own asks the kernel for each large block anew: a line of one mebibyte took twenty times as long with it. This one takes as
//! long as glibc's, and starts faster than musl's (`cargo run --release -p nostray-rpc --example speed`). glibc's is loaded anyway.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;

/// To be declared as the `#[global_allocator]` of a program that has one thread whenever it forks.
#[derive(Debug)]
pub struct Allocator;

static HEAP: Mutex<Dlmalloc> = Mutex::new(Dlmalloc::new());

fn heap() -> MutexGuard<'static, Dlmalloc> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives memory back that this program has freed: the allocator keeps it for the next time, which may never come.
pub fn release_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only touches the lists of the C library's allocator, under its own lock.
    unsafe {
        libc::malloc_trim(0)
    };
    // SAFETY: the call only touches memory that the heap has and no block is in, under the heap's lock.
    unsafe { heap().trim(0) };
}

// Not a part of each caller: that made the program a tenth larger.
// SAFETY: the calls go to one heap, under its lock, with the layouts with which its blocks were made.
unsafe impl GlobalAlloc for Allocator {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has promised.
        unsafe { heap().malloc(layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller has promised.
        unsafe { heap().calloc(layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller has promised.
        unsafe { heap().free(block, layout.size(), layout.align()) }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller has promised.
        unsafe { heap().realloc(block, layout.size(), layout.align(), size) }
    }
}
