//! What people and Prometheus look at: `nostray web`, `nostray metrics`.

mod metrics;
mod web;
