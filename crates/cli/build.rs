//! Links `nostray` at a fixed address. A position-independent program rewrites thousands of its own pointers when it
//! starts, in pages that front, spare and guard then each have to keep; that is time and memory in every `nostray run`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |key: &str, value: &str| std::env::var(key).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
