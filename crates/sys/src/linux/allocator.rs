//! The allocator of the program `nostray` where the C library is musl.
//!
//! musl's own asks the kernel for each large block anew: a line of one mebibyte took twenty times as long with it. This one takes as
//! long as glibc's, and starts faster than musl's (`cargo run --release -p nostray-rpc --example speed`). glibc's is loaded anyway.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::Dlmalloc;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// To be declared as the `#[global_allocator]` of a program that has one thread whenever it forks.
#[derive(Debug)]
pub struct Allocator;

/// So much less in use than there was, and it is worth giving back.
const SPARE: usize = 256 << 10;

struct Heap {
    blocks: Dlmalloc<Upwards>,
    /// How many bytes are in use, and the most there were since free memory was given back.
    used: usize,
    most: usize,
}

static HEAP: Mutex<Heap> =
    Mutex::new(Heap { blocks: Dlmalloc::new_with_allocator(Upwards { end: AtomicUsize::new(0) }), used: 0, most: 0 });

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
    let mut heap = heap();
    // SAFETY: the call only touches memory that the heap has and no block is in.
    unsafe { heap.blocks.trim(0) };
    heap.most = heap.used;
}

/// Whether [`release_free`] would give a good deal back. glibc's allocator sees to that itself.
#[must_use]
pub fn holds_spare_memory() -> bool {
    let heap = heap();
    heap.most - heap.used > SPARE
}

impl Heap {
    /// Counts a block, unless there was no memory for it.
    fn made(&mut self, block: *mut u8, size: usize) -> *mut u8 {
        if !block.is_null() {
            self.used += size;
            self.most = self.most.max(self.used);
        }
        block
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
        heap.used -= layout.size();
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let mut heap = heap();
        // SAFETY: as the caller has promised.
        let new = unsafe { heap.blocks.realloc(block, layout.size(), layout.align(), size) };
        if !new.is_null() {
            heap.used -= layout.size();
        }
        heap.made(new, size)
    }
}

/// The kernel's memory, each piece above the one before. A heap gives back what is free at its upper end, and the kernel puts each piece
/// below the one before if it is not asked for a place.
struct Upwards {
    /// Where the last piece ends; zero if there is none yet.
    end: AtomicUsize,
}

impl Upwards {
    /// So far below the kernel's own choice the first piece lies. No other memory is put there.
    const ROOM: usize = 64 << 30;

    fn map(at: usize, size: usize, flags: MapFlags) -> Option<*mut u8> {
        // SAFETY: no memory that is in use is replaced.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::without_provenance_mut(at),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | flags,
            )
        };
        mapped.ok().map(<*mut c_void>::cast)
    }

    fn unmap(&self, at: *mut u8, size: usize) -> bool {
        // SAFETY: the heap has had this memory from `alloc`, and has no block in it.
        let is_free = unsafe { munmap(at.cast(), size) }.is_ok();
        if is_free && at.addr() + size == self.end.load(Ordering::Relaxed) {
            self.end.store(at.addr(), Ordering::Relaxed);
        }
        is_free
    }
}

// SAFETY: what it gives is the kernel's memory, which is used for nothing else.
unsafe impl dlmalloc::Allocator for Upwards {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let end = match self.end.load(Ordering::Relaxed) {
            0 => Self::map(0, size, MapFlags::empty()).map_or(0, |above| {
                self.unmap(above, size);
                above.addr().saturating_sub(Self::ROOM)
            }),
            end => end,
        };
        // Where that place is taken, any other will do.
        let next = Self::map(end, size, MapFlags::FIXED_NOREPLACE).or_else(|| Self::map(0, size, MapFlags::empty()));
        let Some(piece) = next else { return (std::ptr::null_mut(), 0, 0) };
        self.end.store(piece.addr() + size, Ordering::Relaxed);
        (piece, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        // For blocks with memory of their own, of which this heap has none.
        std::ptr::null_mut()
    }

    fn free_part(&self, piece: *mut u8, old: usize, new: usize) -> bool {
        self.unmap(piece.wrapping_add(new), old - new)
    }

    fn free(&self, piece: *mut u8, size: usize) -> bool {
        self.unmap(piece, size)
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }
}
