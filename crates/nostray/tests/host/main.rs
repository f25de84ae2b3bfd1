//! Whole programs: a realistic host in every way in which it ends, programs that are children themselves, and those that README.md shows.

#[path = "../apart/mod.rs"]
mod apart;
mod ends;
mod parent;
mod readme;
