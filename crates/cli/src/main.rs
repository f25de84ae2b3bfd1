//! `nostray`: no stray processes. Each command has a file of its own, or a crate (`doctor`, `demo`, `top`, `web`); this file tells them apart.

#![cfg_attr(all(not(test), target_os = "linux"), no_main)]

mod command_line;
mod completions;
mod log;
mod man;
mod metrics;
mod misspelt;
mod ps;
mod selection;
mod slot;
mod stop;
mod sweep;
mod which;
mod wrap;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

// What is per platform has the same names on each, so the rest of this crate does not ask where it is.
#[cfg(target_os = "linux")]
use linux::{
    args, broker, following, hold, leases, managed, program_may_vanish, ready, restart, share, slot_hold, slotted,
    status, wait, warm, watch,
};
#[cfg(windows)]
use windows::{args, following, leases, program_may_vanish, slot_hold, watch};

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: nostray_sys::allocator::Allocator = nostray_sys::allocator::Allocator;

#[cfg(all(not(test), target_os = "linux"))]
nostray_sys::program!(linux::program);
#[cfg(all(not(test), windows))]
nostray_sys::program!(windows::program);
