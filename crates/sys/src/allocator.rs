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

/// What is larger is a line or a buffer, for which the next one needs the same room.
const LARGE: usize = 64 << 10;

/// So much less in small blocks than there was, and the room is given back.
const SLACK: usize = 256 << 10;

struct Heap {
    blocks: Dlmalloc,
    /// How many bytes are in small blocks now, and the most there were since room was given back.
    small: usize,
    most: usize,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap { blocks: Dlmalloc::new(), small: 0, most: 0 });

fn heap() -> MutexGuard<'static, Heap> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives memory back that this program has freed: the allocator keeps it for the next time, which may never come.
pub fn release_free() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only touches the lists of the C library's allocator, under its own lock.
    unsafe {
        libc::malloc_trim(0)
    };
    heap().release();
}

impl Heap {
    fn release(&mut self) {
        // SAFETY: the call only touches memory that the heap has and no block is in.
        unsafe { self.blocks.trim(0) };
        self.most = self.small;
    }

    /// Counts a block, unless there was no memory for it.
    fn made(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        if size < LARGE && !block.is_null() {
            self.small += size;
            self.most = self.most.max(self.small);
        }
        block
    }

    fn freed(&mut self, size: usize) {
        if size < LARGE {
            self.small -= size;
            if self.most - self.small > SLACK {
                self.release();
            }
        }
    }
}

// Not a part of each caller: that made the program a tenth larger.
// SAFETY: the calls go to one heap, under its lock, with the layouts with which its blocks were made.
unsafe impl GlobalAlloc for Allocator {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut heap = heap();
        // SAFETY: as the caller has promised.
        let new = unsafe { heap.blocks.malloc(layout.size(), layout.align()) };
        heap.made(new, layout.size())
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let mut heap = heap();
        // SAFETY: as the caller has promised.
        let new = unsafe { heap.blocks.calloc(layout.size(), layout.align()) };
        heap.made(new, layout.size())
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let mut heap = heap();
        // SAFETY: as the caller has promised.
        unsafe { heap.blocks.free(block, layout.size(), layout.align()) };
        heap.freed(layout.size());
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut heap = heap();
        // SAFETY: as the caller has promised.
        let new = unsafe { heap.blocks.realloc(block, layout.size(), layout.align(), size) };
        if !new.is_null() {
            heap.freed(layout.size());
        }
        heap.made(new, size)
    }
}
