//! Which processes are strays, and how sure that is. On Windows never for certain: no process can see what is at the other ends of
//! another one's streams. So only what a configuration names is listed, if its parent has ended and it is in no job.

use std::io;

use nostray_sys::identity::Identity;
use nostray_sys::proc::{self, Stat};

use crate::configs::Config;
use crate::live::is_run_by;
use crate::strays::{Confidence, Stray};

/// What speaks against all strays of a report.
pub(crate) const LIMITS: Option<&str> = Some(
    "Windows does not tell what holds the other ends of a process's streams, so no stray is certain, and none is ended; \
     only servers of a configuration are looked for",
);

/// Looks once.
pub(crate) fn look(configs: &[Config]) -> io::Result<Vec<Stray>> {
    let all = proc::scan()?;
    let servers = || configs.iter().flat_map(|config| config.servers.iter().flatten());
    // The parent is known by number and creation time, so a process that has got the number since is none.
    let mut lost: Vec<&Stat> = all.iter().filter(|stat| stat.has_lost_parent()).collect();
    lost.sort_by_key(|stat| stat.start);
    let stray = |stat: &Stat| {
        // What is in a job may be in a pen; what cannot be read is left alone.
        let is_spared = stat.name.eq_ignore_ascii_case("nostray")
            || !proc::is_own(stat.pid)
            || proc::is_in_job(stat.pid) != Some(false);
        let command = (!is_spared).then(|| proc::command_in_memory_of(stat.pid)).filter(|words| !words.is_empty())?;
        let commands = [command];
        let server = servers().find(|server| is_run_by(server, &commands))?;
        let [command] = commands;
        let stray = Stray {
            identity: Identity::from(stat),
            parent: None,
            age: proc::age_of(stat.start),
            memory: proc::memory_of(stat.pid),
            command,
            confidence: Confidence::Maybe,
            evidence: format!(
                "the process that started it has ended, it is in no job, and it looks like the server {}; another process \
                 may still use it",
                server.name
            ),
        };
        // Everything was read by number, so it describes this process only if the process still has it.
        stray.identity.is_alive().then_some(stray)
    };
    Ok(lost.into_iter().filter_map(stray).collect())
}
