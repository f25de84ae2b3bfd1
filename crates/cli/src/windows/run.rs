//! `nostray run`: runs a command in a pen.

use nostray_pen::{Graces, OWN_FAILURE, PenId, Spec};
use nostray_registry::{RecordDetails, RecordKeeper, masked};
use nostray_slot::{MAX_HANDOVERS, SlotRequest};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_terminal::ExitCode;

use super::args::{IfTaken, RunArgs};

pub(crate) fn run(args: RunArgs) -> ExitCode {
    let spec = Spec {
        argv0: args.argv0,
        graces: Graces::new(args.eof_grace, args.term_grace),
        die_with: args.die_with,
        idle_timeout: args.idle_timeout,
        verbose: args.verbose,
        log_file: args.log_file,
        ..Spec::new(args.command)
    };
    let session = args.session.clone();
    let details = RecordDetails {
        session: args.session,
        labels: args.labels.into_iter().collect(),
        slot: args.slot.as_ref().map(ToString::to_string),
        sweep: !args.no_sweep,
        shared: None,
    };
    let (id, witness) = (PenId::new(), Box::new(RecordKeeper::new(details)));
    let if_taken = match args.if_taken {
        None | Some(IfTaken::Wait) => nostray_slot::IfTaken::Wait,
        Some(IfTaken::Fail) => nostray_slot::IfTaken::Fail,
        Some(IfTaken::Replace) => nostray_slot::IfTaken::Replace,
    };
    let ended = match args.slot {
        Some(slot) => {
            let request = SlotRequest {
                slot,
                if_taken,
                wait_timeout: args.wait_timeout,
                max_handovers: args.max_handovers.unwrap_or(MAX_HANDOVERS),
                command: masked(&spec.command),
                session,
            };
            nostray_slot::run(&spec, id, witness, request)
        }
        None => nostray_pen::run(&spec, id, witness),
    };
    ended.map_or_else(
        |error| {
            write_to_stderr_at_once(&format!("nostray: {error}\n"));
            ExitCode::from(OWN_FAILURE)
        },
        ExitCode::from,
    )
}
