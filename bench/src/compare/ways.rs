//! The ways from a host to a server on which a server may be started again, and those on which it may not.

use std::process::Stdio;

use super::Ground;
use crate::Failure;
use crate::gateways::Gateway;
use crate::share;
use crate::traffic::{Server, Way};
use crate::variants::{Started, Variant, nostray};

/// The names that others look for.
pub(super) const DIRECT: &str = "direct";
pub(super) const RUN: &str = "nostray run";
pub(super) const RESPAWN: &str = "nostray run --respawn";
pub(super) const SHARE: &str = "nostray share";

/// A way, and whether it is nostray's.
pub(super) struct Contender {
    pub(super) way: Way,
    pub(super) ours: bool,
    /// Starts it for a server without a word to it, with what has to be there for it.
    pub(super) start: Box<Start>,
}

type Start = dyn Fn(&Server) -> Result<(Started, Option<Started>), Failure> + Send + Sync;

impl Contender {
    fn through(variant: Variant, ours: bool) -> Self {
        let same = variant.clone();
        let start = move |server: &Server| Ok((same.start_saying(&server.command, Stdio::null())?, None));
        Self { way: Way::through(variant), ours, start: Box::new(start) }
    }

    /// A contender whose server is the child of a listener, which has to be there before the host's process.
    fn listening(
        way: Way,
        listen: impl Fn(&Server) -> Result<(Started, Variant), Failure> + Send + Sync + 'static,
    ) -> Self {
        let start = move |server: &Server| {
            let (listener, caller) = listen(server)?;
            Ok((caller.start_saying(&[], Stdio::null())?, Some(listener)))
        };
        Self { way, ours: false, start: Box::new(start) }
    }

    pub(super) fn name(&self) -> &'static str {
        self.way.name
    }
}

/// All of them.
pub(super) fn all(ground: &Ground) -> Vec<Contender> {
    let ours = |name, words: &[&str]| Contender::through(nostray(&ground.programs, name, words), true);
    let direct = Contender::through(Variant::other(DIRECT, [""; 0]), false);
    let nostrays = [
        ours(RUN, &["run"]),
        ours(RESPAWN, &["run", "--respawn"]),
        // Nothing is to be there any more when the session has gone.
        ours(SHARE, share::ways::SHARE),
    ];
    let mux = ground.peers.mux.as_ref().ok().map(|mux| {
        let same = mux.clone();
        Contender::listening(mux.clone().way(), move |server| same.start(server))
    });
    let gateways = Gateway::all(&ground.peers).into_iter().map(|gateway| {
        let same = gateway.clone();
        Contender::listening(gateway.way(), move |server| same.start(server))
    });
    std::iter::once(direct).chain(nostrays).chain(mux).chain(gateways).collect()
}
