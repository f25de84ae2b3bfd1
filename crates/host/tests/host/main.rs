//! Whole programs: a realistic host in every way in which it ends, programs that are children themselves, and the
//! program in docs/library.md.

#[path = "../apart/mod.rs"]
mod apart;
#[cfg(feature = "supervisor")]
mod ends;
#[cfg(feature = "supervisor")]
mod guard_macro;
mod parent;
#[cfg(feature = "supervisor")]
mod readme;
