//! nostray on Windows, proved under Wine (or on a Windows machine) by `ci/windows`.

mod configurations;
mod containment;
mod doctor;
mod operators;
mod passing;
mod quoting;
mod races;
mod slots;
