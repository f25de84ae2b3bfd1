//! One child for many owners: calls, handlers, the lives of the child, and what is left after thousands of leases.

#[path = "../apart/mod.rs"]
mod apart;
mod calls;
mod children;
mod garbage;
mod handlers;
mod leak;
mod lives;
mod races;
