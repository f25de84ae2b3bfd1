//! The options of `nostray run` for a slot, and `--if-taken share`.

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
#[command(next_help_heading = "One live owner for a name")]
pub(crate) struct SlotArgs {
    /// Hold this name, which at most one live tree holds
    ///
    /// For a child that must be alone: with its database, its port, its browser profile. Ownership is a kernel lock that is released
    /// when the tree is empty, so files that a crash leaves behind have no effect. Children without --slot are never touched. Each user
    /// has names of their own, in ~/.local/state/nostray/slots.
    #[arg(long, value_name = "NAME")]
    pub(crate) slot: Option<Name>,

    /// What to do if the slot is taken [default: wait]
    #[arg(long, value_name = "WHAT", requires = "slot", hide_short_help = true)]
    pub(crate) if_taken: Option<IfTaken>,

    /// Wait no longer than this for the slot, then exit with 75 [default: for ever]
    #[arg(long, value_name = "TIME", requires = "slot", value_parser = positive_duration, hide_short_help = true)]
    pub(crate) wait_timeout: Option<Duration>,

    /// With --if-taken replace: only wait if the slot changed hands more often than this, whether or not its holders were ready
    /// [default: 3/1m]
    #[arg(long, value_name = "N/TIME", requires = "slot", hide_short_help = true)]
    pub(crate) max_handovers: Option<Rate>,
}

/// What to do if a slot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfTaken {
    /// Wait until it is free: first come, first served
    Wait,
    /// Exit with 75, and say who holds it
    Fail,
    /// Ask the holder to end, and start when nothing is left of its tree. A holder that is still starting is not asked before it is
    /// ready (see the --ready options). Of several callers with replace, the last one gets the slot, and the others exit with 75
    Replace,
    /// Use the same child as the holder, like `nostray share`: for JSON-RPC lines, and if the holder was started with share, too;
    /// otherwise wait
    Share,
}

impl SlotArgs {
    /// All options at their defaults.
    pub(crate) fn none() -> Self {
        Self { slot: None, if_taken: None, wait_timeout: None, max_handovers: None }
    }

    /// Whether the child is to be shared.
    pub(crate) fn is_shared(&self) -> bool {
        self.if_taken == Some(IfTaken::Share)
    }

    /// The request for the slot, if one is named.
    pub(crate) fn request(&self, spec: &Spec, details: &RecordDetails) -> Option<SlotRequest> {
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

/// Runs a command that all callers of the slot with `--if-taken share` share.
pub(crate) fn share(args: RunArgs) -> ExitCode {
    let refuse = |options: &str, instead: &str| {
        write_to_stderr_at_once(&format!(
            "nostray: {options} cannot be combined with --if-taken share; use {instead}\n"
        ));
        ExitCode::from(OWN_FAILURE)
    };
    if args.idle_timeout.is_some() {
        return refuse("--idle-timeout", "--hibernate");
    }
    if args.argv0.is_some() {
        return refuse("--argv0", "a command that is called by its own name");
    }
    if args.verbose || args.log_file.is_some() {
        return refuse("--verbose and --log-file", "`nostray log`");
    }
    if format!("{:?}", args.ready) != format!("{:?}", ReadyArgs::none()) {
        return refuse("the --ready options", "--start-timeout, since a shared child is ready with its first answer");
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
        // A child of this session alone would need the slot that the shared child holds.
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
        status: args.status,
        managed: args.managed,
        command: args.command,
        slot,
        daemon: None,
    })
}
