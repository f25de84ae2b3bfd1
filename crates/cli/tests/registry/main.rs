//! Records of pens, the commands with which an operator reads them and stops pens, and the sweep of what dead owners
//! left.

mod causes;
mod log;
mod operators;
mod ps_view;
mod ps_watch;
mod records;
mod sweep;
mod sweep_apart;
mod which;
