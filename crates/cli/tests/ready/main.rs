//! When a child counts as ready: the `--ready-...` definitions, what the child itself reports, and its stderr on the
//! way to the host.

mod definitions;
mod notify;
mod stderr;
