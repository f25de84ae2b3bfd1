//! The views that refresh, on what real children do.

mod top;
