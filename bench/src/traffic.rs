//! What a way from a host to a server costs a message: the ways, and the kinds of traffic that they bear.

mod again;
mod busy;
pub(crate) mod echo;
mod lines;
mod load;
mod passes;
mod patience;
mod processor;
pub(crate) mod relay;
mod request;
mod session;
pub(crate) mod watch;

pub(crate) use again::{Insisted, REFUSED, UNHEARD};
pub(crate) use load::Load;
pub(crate) use passes::{Amount, End, Passes, Seen, measure, measure_leniently};
pub(crate) use patience::Limits;
pub(crate) use request::{Filling, Request};
pub(crate) use session::{INITIALIZE, Server, Session};

use crate::Failure;
use crate::report::Table;
use crate::stats::median;
use crate::variants::Variant;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// A way from a host to a server.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    open: Box<Open>,
}

type Open = dyn Fn(&Server) -> Result<Session, Failure> + Send + Sync;

impl Way {
    pub(crate) fn new(
        name: &'static str,
        open: impl Fn(&Server) -> Result<Session, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { name, open: Box::new(open) }
    }

    /// Opens a session.
    pub(crate) fn open(&self, server: &Server) -> Result<Session, Failure> {
        (self.open)(server)
    }

    /// With words in front of the server's own.
    pub(crate) fn through(variant: Variant) -> Self {
        Self::new(variant.name, move |server| Session::open(&variant, server))
    }
}

/// The server of this program, which is busy for so many milliseconds before it answers.
pub(crate) fn native(start_up: u32) -> Result<Server, Failure> {
    let name =
        if start_up == 0 { "the native echo".to_owned() } else { format!("the native echo, {start_up} ms to start") };
    let me = std::env::current_exe()?.into_os_string();
    Ok(Server { name, command: vec![me, "echo".into(), start_up.to_string().into()] })
}

fn load(size: usize, in_flight: usize, messages: usize) -> Load {
    Load { size, filling: Filling::Text, in_flight, messages, on_one_processor: false }
}

/// What a native server is sent.
pub(crate) fn native_loads() -> Vec<Load> {
    vec![
        load(200, 1, 1000),
        load(200, 16, 5000),
        load(200, 256, 20_000),
        load(64 * KIB, 1, 200),
        load(64 * KIB, 16, 500),
        load(64 * KIB, 256, 1500),
        load(MIB, 1, 30),
        load(MIB, 16, 100),
        load(MIB, 256, 600),
    ]
}

/// The short ones of them.
pub(crate) fn short_loads() -> Vec<Load> {
    native_loads().into_iter().filter(|load| load.size < KIB).collect()
}

/// The same in messages of 1 MiB that are full of structure.
pub(crate) fn dense_loads() -> Vec<Load> {
    let long = native_loads().into_iter().filter(|load| load.size == MIB);
    long.map(|load| Load { filling: Filling::Dense, ..load }).collect()
}

/// One short message at a time, with host, server and all processes between them on one processor.
pub(crate) fn together() -> Load {
    Load { on_one_processor: true, ..load(200, 1, 1000) }
}

/// What server-everything is sent.
pub(crate) fn everything_loads(quick: bool) -> Vec<Load> {
    let mut loads = vec![
        load(200, 1, 500),
        load(200, 16, 2000),
        load(200, 256, 5000),
        load(64 * KIB, 1, 100),
        load(64 * KIB, 16, 300),
        load(64 * KIB, 256, 800),
        load(MIB, 1, 20),
        load(MIB, 16, 40),
        load(MIB, 256, 300),
    ];
    loads.retain(|load| !quick || load.in_flight < 256);
    loads
}

/// Round trips on every way.
pub(crate) fn round_trips(ways: &[Way], server: &Server, all: &[Seen]) -> Table {
    let title = format!("Round trips with {}: p50 / p99, us", server.name);
    let names = ways.iter().map(|way| way.name);
    let mut table = Table::new(title, &["message", "in flight"].into_iter().chain(names).collect::<Vec<_>>());
    for seen in all {
        let cell = |passes: &Passes| {
            let (p50, p99) = (median(&passes.p50), median(&passes.p99));
            format!("{p50:.*} / {p99:.*}", digits(p50), digits(p99))
        };
        table.row(seen.name().into_iter().chain(seen.ways.iter().map(cell)));
    }
    table
}

/// A median with as many digits as say something.
pub(crate) fn middle(values: &[f64]) -> String {
    let value = median(values);
    format!("{value:.*}", digits(value))
}

/// As many as say something.
pub(crate) fn digits(value: f64) -> usize {
    match value.abs() {
        small if small < 10.0 => 2,
        medium if medium < 100.0 => 1,
        _ => 0,
    }
}
