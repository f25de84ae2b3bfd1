//! How `nostray` is linked, so that a `nostray run` costs little time and memory.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| std::env::var(key).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        // At a fixed address: a position-independent program rewrites thousands of its own pointers when it starts, in pages
        // that front, spare and guard then each have to keep.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        // With the unwinder, which only a backtrace needs, inside: as a library it is mapped in every start and every fork, and
        // asks the processor for its features once more, which in a virtual machine is slow.
        println!("cargo:rustc-link-lib=static=gcc_eh");
    }
}
