//! `nostray run`: runs a command in a pen; supervised, if an option needs that.

use nostray_pen::{Graces, Isolation, PenId, Spec};
use nostray_registry::{RecordDetails, RecordKeeper};
use nostray_supervise::Options;
use nostray_terminal::ExitCode;

use crate::args::RunArgs;
use crate::{slotted, status, warm};

pub(crate) fn run(args: RunArgs) -> ExitCode {
    if args.managed.warm {
        return warm::run(&args);
    }
    if args.slot.is_shared() {
        return slotted::share(args);
    }
    let lines = match args.status.lines() {
        Ok(lines) => lines,
        Err(code) => return code,
    };
    let spec = Spec {
        command: args.command,
        argv0: args.argv0,
        graces: Graces::new(args.eof_grace, args.term_grace),
        isolation: args.isolate.map_or(Isolation::None, |_| Isolation::Pid),
        daemon: false,
        die_with: args.die_with,
        idle_timeout: args.idle_timeout,
        ready: args.ready.definition(),
        ready_timeout: args.ready.ready_timeout,
        host_is_told: lines.is_some(),
        verbose: args.verbose,
        log_file: args.log_file,
    };
    let details = RecordDetails {
        session: args.session,
        labels: args.labels.into_iter().collect(),
        sweep: !args.no_sweep,
        ..RecordDetails::default()
    };
    let slot = args.slot.request(&spec, &details);
    let ended = match slot {
        slot if args.managed.is_wanted() => {
            nostray_supervise::run(Options { slot, status: lines.clone(), ..args.managed.options(spec, details) })
        }
        Some(request) => {
            let details = RecordDetails { slot: Some(request.slot.to_string()), ..details };
            let witness = status::beside(Box::new(RecordKeeper::new(details)), lines.as_ref());
            nostray_slot::run(&spec, PenId::new(), witness, request, lines.as_ref())
        }
        None => {
            let witness = status::beside(Box::new(RecordKeeper::new(details)), lines.as_ref());
            nostray_pen::run(&spec, PenId::new(), witness)
        }
    };
    ended.map_or_else(|error| status::complain(&error, lines.as_ref()), ExitCode::from)
}
