//! What nostray costs.
fn main() {}
