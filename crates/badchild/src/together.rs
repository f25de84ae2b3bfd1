//! Runs work in parallel.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does all the work, a few pieces at a time: most of it is waiting.
///
/// # Panics
/// If a piece panics.
pub fn in_parallel<T: Send>(work: Vec<T>, one: impl Fn(T) + Sync) {
    so_many_at_once(6, work, one);
}

/// Does all the work, `count` pieces at a time, beginning with the last.
///
/// # Panics
/// If a piece panics.
pub fn so_many_at_once<T: Send>(count: usize, work: Vec<T>, one: impl Fn(T) + Sync) {
    let work = Mutex::new(work);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while let Some(piece) = { work.lock().expect("no panic under the lock").pop() } {
                    one(piece);
                }
            });
        }
    });
}

/// Sets the flag when it is dropped. A scope waits for its threads also when it panics, so the flag that they poll must be set on
/// every path.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
