//! The ways from a host to a server that are compared.

use super::super::Ground;
use super::SHORT;
use crate::Failure;
use crate::gateways::Gateway;
use crate::mux::Mux;
use crate::traffic::{Passes, Seen, Server, Way};
use crate::variants::{Variant, control};
use crate::{managed, share};

/// What a way is to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Direct,
    /// Direct once more: how far it is from direct is what chance does on this machine.
    Again,
    /// One process on the way that does nothing else.
    Relay,
    /// Two of them.
    Relays,
    /// What people use.
    Other,
    Run,
    Respawn,
    Share,
}

impl Who {
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Run | Self::Respawn | Self::Share)
    }

    /// Whether something is wrong with this program, or with nostray, if it does not carry a load.
    pub(super) fn must_carry(self) -> bool {
        self != Self::Other
    }
}

/// All of them.
pub(super) struct Ways {
    pub(super) ways: Vec<Way>,
    names: Vec<&'static str>,
    who: Vec<Who>,
}

impl Ways {
    pub(super) fn all(ground: &Ground) -> Result<Self, Failure> {
        let programs = &ground.programs;
        let named = |name, mut variant: Variant| {
            variant.name = name;
            Way::through(variant)
        };
        let before = [
            (Who::Direct, Way::through(managed::ways::direct())),
            (Who::Again, Way::through(control())),
            (Who::Relay, Way::through(managed::ways::relay()?)),
            (Who::Relays, named("two bare relays", share::ways::relays()?)),
        ];
        let gateways = Gateway::all(&ground.peers).into_iter().map(Gateway::way);
        let others = gateways.chain(ground.peers.mux.as_ref().ok().cloned().map(Mux::way));
        let ours = [
            (Who::Run, Way::through(managed::ways::run(programs))),
            (Who::Respawn, named("nostray run --respawn", managed::ways::managed(programs))),
            (Who::Share, named("nostray share", share::ways::share(programs, &[]))),
        ];
        let all = before.into_iter().chain(others.map(|way| (Who::Other, way))).chain(ours);
        let (who, ways): (Vec<Who>, Vec<Way>) = all.unzip();
        let names = ways.iter().map(|way| way.name).collect();
        Ok(Self { ways, names, who })
    }

    pub(super) fn found<'a>(&'a self, server: &'a Server, seen: &'a [Seen]) -> Found<'a> {
        Found { server: &server.name, names: &self.names, who: &self.who, seen }
    }
}

/// What was measured with one server.
pub(super) struct Found<'a> {
    pub(super) server: &'a str,
    pub(super) names: &'a [&'static str],
    pub(super) who: &'a [Who],
    pub(super) seen: &'a [Seen],
}

impl<'a> Found<'a> {
    /// What one of them came to, if it carried this.
    pub(super) fn of(&self, seen: &'a Seen, who: Who) -> Option<&'a Passes> {
        let at = self.who.iter().position(|&one| one == who)?;
        seen.ways.get(at).filter(|passes| !passes.p50.is_empty() && passes.why_it_failed().is_none())
    }

    /// Name, what it is, and what it came to.
    pub(super) fn each(&self, seen: &'a Seen) -> impl Iterator<Item = (&'static str, Who, &'a Passes)> {
        let those: Vec<_> = self.names.iter().zip(self.who).zip(&seen.ways).collect();
        those.into_iter().map(|((&name, &who), passes)| (name, who, passes))
    }

    /// These of them alone, where all of these carried it.
    pub(super) fn only<const N: usize>(&self, those: [Who; N]) -> Vec<Seen> {
        let picked = |seen: &'a Seen| {
            let ways: Option<Vec<Passes>> = those.iter().map(|&who| self.of(seen, who).cloned()).collect();
            Some(Seen { load: seen.load, ways: ways? })
        };
        self.seen.iter().filter_map(picked).collect()
    }

    /// A short message, alone.
    pub(super) fn alone(&self) -> Option<&'a Seen> {
        self.seen.iter().find(|seen| seen.load.size == SHORT && seen.load.in_flight == 1)
    }

    /// As many short ones at once as were tried.
    pub(super) fn crowd(&self) -> Option<&'a Seen> {
        self.seen.iter().filter(|seen| seen.load.size == SHORT).max_by_key(|seen| seen.load.in_flight)
    }
}
