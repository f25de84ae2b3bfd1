//! Who stands between a host and a server, one session or many.

use super::Ground;
use crate::Failure;
use crate::crowd::Entrance;
use crate::gateways::Gateway;
use crate::managed::ways;
use crate::share::ways::share;
use crate::traffic::Server;
use crate::variants::{BWRAP, BWRAP_PID, Variant, nostray};

const AT_ONCE: usize = 8;

/// One of them.
pub(super) struct Contender<'a> {
    pub(super) name: &'static str,
    /// Whether it is nostray's.
    pub(super) ours: bool,
    /// Whether each session has an interpreter of its own on its way, which takes long to start.
    pub(super) interpreted: bool,
    /// How many sessions may be opened at once; more would only wait for a processor.
    pub(super) at_once: usize,
    pub(super) servers: Servers,
    enter: Box<Enter<'a>>,
}

/// How many servers its sessions have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Servers {
    /// One for all of them.
    One,
    Each,
    /// One for each, once it is called.
    EachLater,
}

impl Servers {
    /// How many processes that is, when all sessions have been greeted.
    pub(super) fn greeted(self, sessions: usize) -> usize {
        match self {
            Self::One => 1,
            Self::Each => sessions,
            Self::EachLater => 0,
        }
    }

    /// And how many when all have made a call.
    pub(super) fn called(self, sessions: usize) -> usize {
        if self == Self::One { 1 } else { sessions }
    }
}

type Enter<'a> = dyn Fn(&Server) -> Result<Entrance, Failure> + 'a;

impl<'a> Contender<'a> {
    fn new(name: &'static str, servers: Servers, enter: impl Fn(&Server) -> Result<Entrance, Failure> + 'a) -> Self {
        let ours = name.starts_with("nostray");
        Self { name, ours, interpreted: false, at_once: AT_ONCE, servers, enter: Box::new(enter) }
    }

    /// Words in front of the server's own, for each session.
    fn through(variant: Variant, servers: Servers) -> Self {
        Self::new(variant.name, servers, move |server| Ok(Entrance::through(variant.clone(), server)))
    }

    /// Starts what has to be there for all sessions.
    pub(super) fn enter(&self, server: &Server) -> Result<Entrance, Failure> {
        (self.enter)(server).map_err(|error| format!("{}: {error}", self.name).into())
    }

    pub(super) fn direct() -> Self {
        Self::through(ways::direct(), Servers::Each)
    }

    pub(super) fn run(ground: &Ground) -> Self {
        Self::through(ways::run(&ground.programs), Servers::Each)
    }

    pub(super) fn respawn(ground: &Ground) -> Self {
        Self::through(nostray(&ground.programs, "nostray run --respawn", &["run", "--respawn"]), Servers::Each)
    }

    pub(super) fn lazy(ground: &Ground) -> Self {
        Self::through(nostray(&ground.programs, "nostray run --lazy", &["run", "--lazy"]), Servers::EachLater)
    }

    /// All sessions have one server.
    pub(super) fn share(ground: &'a Ground) -> Self {
        let variant = || share(&ground.programs, &["--key", "bench"]);
        Self::new("nostray share", Servers::One, move |server| Ok(Entrance::through(variant(), server)))
    }

    /// Each session has a server of its own, since each session's environment differs.
    pub(super) fn share_a_key_each(ground: &'a Ground) -> Self {
        let variant = || share(&ground.programs, &[]);
        Self::new("nostray share, a key each", Servers::Each, move |server| Ok(Entrance::through(variant(), server)))
    }

    /// rmcp-mux, if it is here.
    pub(super) fn mux(ground: &'a Ground) -> Option<Self> {
        let mux = ground.peers.mux.as_ref().ok()?;
        Some(Self::new("rmcp-mux", Servers::One, move |server| Ok(Entrance::beside(mux.start(server)?, server))))
    }

    /// mcp-proxy and supergateway, as far as they are here.
    pub(super) fn gateways(ground: &'a Ground) -> Vec<Self> {
        let contender = |gateway: Gateway| {
            let servers = if gateway.shares() { Servers::One } else { Servers::Each };
            let (name, at_once) = (gateway.name, if gateway.answers_every_session() { 1 } else { AT_ONCE });
            let enter = move |server: &Server| Ok(Entrance::beside(gateway.start(server)?, server));
            Self { interpreted: true, at_once, ..Self::new(name, servers, enter) }
        };
        Gateway::all(&ground.peers).into_iter().map(contender).collect()
    }

    /// The wrappers, which only start a server, as far as they are installed.
    pub(super) fn wrappers(ground: &'a Ground) -> Vec<Self> {
        wrappers(ground).into_iter().map(|variant| Self::through(variant, Servers::Each)).collect()
    }
}

/// What only starts a command, as far as it is here.
pub(super) fn wrappers(ground: &Ground) -> Vec<Variant> {
    let peers = &ground.peers;
    let with = Variant::of_peer;
    let all = [
        with("tini -s", &peers.tini, &["-s", "--"]),
        with("dumb-init", &peers.dumb_init, &["--"]),
        with("bwrap", &peers.bwrap, &BWRAP),
        with("bwrap pid ns", &peers.bwrap, &[&BWRAP[..], &BWRAP_PID].concat()),
        with("setpriv --pdeathsig", &peers.setpriv, &["--pdeathsig", "TERM"]),
    ];
    all.into_iter().flatten().collect()
}
