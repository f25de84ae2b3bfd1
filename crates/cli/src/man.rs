//! `nostray man`: the manual, from the same source as the help texts.

use nostray_terminal::{self as terminal, ExitCode};

use crate::args::{self, ManArgs};

pub(crate) fn print(args: &ManArgs) -> ExitCode {
    let mut command = args::command();
    command.build();
    let (page, name) = match &args.command {
        None => (command, "nostray".to_owned()),
        Some(name) => match command.find_subcommand(name) {
            Some(found) => (found.clone(), format!("nostray-{name}")),
            None => {
                terminal::complain(&format_args!("there is no command '{name}'; `nostray help` lists them"));
                return ExitCode::from(2);
            }
        },
    };
    let mut text = Vec::new();
    match clap_mangen::Man::new(page).title(name).render(&mut text) {
        Ok(()) => terminal::print(&text),
        Err(error) => {
            terminal::complain(&error);
            ExitCode::from(2)
        }
    }
}
