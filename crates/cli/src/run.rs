//! `nostray run`: a command in a pen.

use std::process::ExitCode;

use nostray_pen::{Graces, Isolation, OWN_FAILURE, Spec};

use crate::args::RunArgs;
use crate::terminal;

pub(crate) fn run(args: RunArgs) -> ExitCode {
    let spec = Spec {
        command: args.command,
        graces: Graces::new(args.eof_grace, args.term_grace),
        isolation: args.isolate.map_or(Isolation::None, |_| Isolation::Pid),
        die_with: args.die_with,
        idle_timeout: args.idle_timeout,
        verbose: args.verbose,
        log_file: args.log_file,
    };
    match nostray_pen::run(&spec, Box::new(nostray_pen::Nobody)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            terminal::complain(&error);
            ExitCode::from(OWN_FAILURE)
        }
    }
}
