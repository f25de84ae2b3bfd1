//! `nostray run`: runs a command in a pen; supervised, if an option needs that.

use nostray_pen::{Graces, Isolation, OWN_FAILURE, PenId, Spec};
use nostray_registry::{RecordDetails, RecordKeeper};
use nostray_supervise::Options;
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_terminal::ExitCode;

use crate::args::RunArgs;
use crate::{slotted, warm};

pub(crate) fn run(args: RunArgs) -> ExitCode {
    if args.managed.warm {
        return warm::run(&args);
    }
    if args.slot.is_shared() {
        return slotted::share(args);
    }
    let spec = Spec {
        command: args.command,
        graces: Graces::new(args.eof_grace, args.term_grace),
        isolation: args.isolate.map_or(Isolation::None, |_| Isolation::Pid),
        daemon: false,
        die_with: args.die_with,
        idle_timeout: args.idle_timeout,
        ready: args.ready.definition(),
        ready_timeout: args.ready.ready_timeout,
        verbose: args.verbose,
        log_file: args.log_file,
    };
    let details = RecordDetails {
        session: args.session,
        labels: args.labels.into_iter().collect(),
        slot: None,
        sweep: !args.no_sweep,
    };
    let slot = args.slot.request(&spec, &details);
    let ended = match slot {
        slot if args.managed.is_wanted() => {
            nostray_supervise::run(Options { slot, ..args.managed.options(spec, details) })
        }
        Some(request) => {
            let details = RecordDetails { slot: Some(request.slot.to_string()), ..details };
            nostray_slot::run(&spec, PenId::new(), Box::new(RecordKeeper::new(details)), request)
        }
        None => nostray_pen::run(&spec, PenId::new(), Box::new(RecordKeeper::new(details))),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Signals are blocked by now, so this write must not block on a host that has stopped reading.
            write_to_stderr_at_once(&format!("nostray: {error}\n"));
            ExitCode::from(OWN_FAILURE)
        }
    }
}
