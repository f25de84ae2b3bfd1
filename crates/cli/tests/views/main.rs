//! What nostray runs, as people and other programs see it: counted, live on a terminal, on a page, and as metrics.

mod counted;
mod metrics;
mod top;
mod web;
