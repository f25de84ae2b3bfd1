//! The options of `nostray run` for a slot, and what follows from them.

use std::time::Duration;

use clap::{Args, ValueEnum};
use nostray_pen::{OWN_FAILURE, Rate, Spec};
use nostray_registry::{RecordDetails, masked};
use nostray_slot::{MAX_HANDOVERS, NOT_NOW, Name, SlotRequest, is_held_around_us};
use nostray_supervise::wire::{SLOT_KEY, SlotSettings};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_terminal::ExitCode;

use crate::args::{RunArgs, positive_duration};
use crate::ready::ReadyArgs;
use crate::share::{Reverse, ShareArgs};

/// How long a shared child is kept after the last session has ended.
const LINGER: Duration = Duration::from_secs(10);

/// A name that at most one live tree holds.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options for one live owner of a name")]
pub(crate) struct SlotArgs {
    /// Hold this name; nobody else does until nothing is left of the child's tree
    ///
    /// For a child that must be alone: with its database, its port, its browser profile. The kernel decides who holds the name, by a
    /// lock that is free when the tree is empty, and nothing that is left in files after a crash means anything. Those without --slot
    /// are never touched. Names are the user's own, in ~/.local/state/nostray/slots.
    #[arg(long, value_name = "NAME")]
    pub(crate) slot: Option<Name>,

    /// What to do if somebody holds it [default: wait]
    #[arg(long, value_name = "WHAT", requires = "slot")]
    pub(crate) if_taken: Option<IfTaken>,

    /// Wait no longer than this for the slot, then exit with 75 [default: for ever]
    #[arg(long, value_name = "TIME", requires = "slot", value_parser = positive_duration)]
    pub(crate) wait_timeout: Option<Duration>,

    /// With --if-taken replace: if it changed hands more often than this, whether or not a child was ready, only wait [default: 3/1m]
    #[arg(long, value_name = "N/TIME", requires = "slot")]
    pub(crate) max_handovers: Option<Rate>,
}

/// What to do if somebody holds a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfTaken {
    /// Wait until it is free: first come, first served
    Wait,
    /// Exit with 75, and say who holds it
    Fail,
    /// Ask the holder to end, and start when nothing is left of it. One that is still starting is not asked before it is ready (see
    /// the --ready options). Of several who want to replace, the last one does, and the others exit with 75
    Replace,
    /// Use the holder's child together with it, as `nostray share` does: for JSON-RPC lines, if the holder wants to share, too;
    /// otherwise wait
    Share,
}

impl SlotArgs {
    /// As if nothing had been given.
    pub(crate) fn none() -> Self {
        Self { slot: None, if_taken: None, wait_timeout: None, max_handovers: None }
    }

    /// Whether the child is to be shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.if_taken == Some(IfTaken::Share)
    }

    /// What is wanted of the slot.
    pub(crate) fn wish(&self, spec: &Spec, details: &RecordDetails) -> Option<SlotRequest> {
        let if_taken = match self.if_taken {
            None | Some(IfTaken::Wait | IfTaken::Share) => nostray_slot::IfTaken::Wait,
            Some(IfTaken::Fail) => nostray_slot::IfTaken::Fail,
            Some(IfTaken::Replace) => nostray_slot::IfTaken::Replace,
        };
        Some(SlotRequest {
            slot: self.slot.clone()?,
            if_taken,
            wait_timeout: self.wait_timeout,
            max_handovers: self.max_handovers.unwrap_or(MAX_HANDOVERS),
            command: masked(&spec.command),
            session: details.session.clone(),
        })
    }
}

/// Runs a command that all share who want the same slot.
pub(crate) fn share(args: RunArgs) -> ExitCode {
    let refuse = |option: &str| {
        write_to_stderr_at_once(&format!(
            "nostray: {option} is not for --if-taken share, whose child is kept in the background for all its sessions\n"
        ));
        ExitCode::from(OWN_FAILURE)
    };
    if args.idle_timeout.is_some() {
        return refuse("--idle-timeout; see --hibernate, which is, but it");
    }
    if args.verbose || args.log_file.is_some() {
        return refuse("--verbose or --log-file; `nostray log` tells what happens, but that");
    }
    if format!("{:?}", args.ready) != format!("{:?}", ReadyArgs::none()) {
        return refuse("a definition of ready other than the first answer");
    }
    if let Some((name, by)) = args.slot.slot.as_ref().and_then(|name| Some((name, is_held_around_us(name)?))) {
        write_to_stderr_at_once(&format!(
            "nostray: slot {name} is {by}, and this was started by it: it would wait for itself\n"
        ));
        return ExitCode::from(NOT_NOW);
    }
    let slot = args.slot.slot.map(|name| SlotSettings { name, wait_timeout: args.slot.wait_timeout });
    crate::share::run(ShareArgs {
        key: slot.as_ref().map(|slot| format!("{SLOT_KEY}{}", slot.name)),
        share_env: None,
        any_dir: false,
        linger: LINGER,
        // One of its own would need the slot that the shared one has.
        require_share: true,
        no_respawn: false,
        reverse: Reverse::Certain,
        route_by: Vec::new(),
        eof_grace: args.eof_grace,
        term_grace: args.term_grace,
        die_with: args.die_with,
        isolate: args.isolate,
        session: args.session,
        labels: args.labels,
        managed: args.managed,
        command: args.command,
        slot,
        daemon: None,
    })
}
