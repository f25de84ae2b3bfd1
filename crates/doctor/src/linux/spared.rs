//! Processes that are never named as strays, even if all evidence says that they are. If a fact about a process cannot
//! be read, the process is spared.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;

use nostray_sys::proc::{self, Stat};
use nostray_sys::process::{Pid, getpid, user};

/// The facts that the decision needs.
#[derive(Debug)]
pub(super) struct Spared {
    /// This process and its ancestors.
    own: HashSet<Pid>,
    user: u32,
    pid_namespace: Option<u64>,
    /// In a container without a view of its own on control groups, every process is in the container's unit.
    around_us: HashSet<String>,
}

impl Spared {
    pub(super) fn new(all: &HashMap<Pid, Stat>) -> Self {
        let mut own = HashSet::new();
        let mut next = Some(getpid());
        while let Some(pid) = next.filter(|pid| own.insert(*pid)) {
            next = all.get(&pid).and_then(|stat| stat.parent);
        }
        let mut around_us = units_of(Pid::INIT).unwrap_or_default();
        around_us.remove("init.scope"); // where systemd puts itself, on a machine of its own
        Self { own, user: user(), pid_namespace: pid_namespace("self"), around_us }
    }

    pub(super) fn is_spared(&self, stat: &Stat) -> bool {
        let pid = stat.pid;
        self.own.contains(&pid)
            || proc::user_of(pid) != Some(self.user)
            || (stat.has_terminal && stat.session == Some(pid))
            || stat.name.starts_with("nostray")
            || self.pid_namespace.is_none()
            || pid_namespace(&pid.to_string()) != self.pid_namespace
            || is_or_was_in_a_pen(pid)
            || self.belongs_to_a_service(pid)
    }

    fn belongs_to_a_service(&self, pid: Pid) -> bool {
        units_of(pid)
            .is_none_or(|units| units.iter().any(|unit| !self.around_us.contains(unit) && !is_a_persons(unit)))
    }
}

fn pid_namespace(of: &str) -> Option<u64> {
    std::fs::metadata(format!("/proc/{of}/ns/pid")).ok().map(|found| found.ino())
}

/// Its guard ends it, or `nostray sweep` does.
fn is_or_was_in_a_pen(pid: Pid) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ"));
    environment.map_or(true, |all| all.split(|&byte| byte == 0).any(|variable| variable.starts_with(b"NOSTRAY_PEN=")))
}

/// The innermost unit of systemd, in each hierarchy, that a process is in.
fn units_of(pid: Pid) -> Option<HashSet<String>> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(groups.lines().filter_map(|line| innermost_unit(line.splitn(3, ':').nth(2)?)).collect())
}

fn innermost_unit(path: &str) -> Option<String> {
    path.split('/').rfind(|part| part.ends_with(".service") || part.ends_with(".scope")).map(str::to_owned)
}

/// A unit of processes that a user has started: a login, an application on a desktop, a tab of a terminal. All other
/// units belong to a service manager, which ends them itself.
fn is_a_persons(unit: &str) -> bool {
    let starts = ["session-", "app-", "vte-spawn-", "tmux-spawn-"];
    unit.ends_with(".scope") && starts.iter().any(|start| unit.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_told_from_what_a_person_started() {
        for (path, expected) in [
            ("/user.slice/user-1000.slice/session-3.scope", true),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome-code-77.scope", true),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/x.slice/vte-spawn-1.scope/inner", true),
            ("/user.slice/user-1000.slice/user@1000.service/app.slice/gateway.service", false),
            ("/user.slice/user-1000.slice/user@1000.service/init.scope", false),
            ("/system.slice/docker-0a1b.scope", false),
            ("/system.slice/cron.service", false),
        ] {
            assert_eq!(innermost_unit(path).is_none_or(|unit| is_a_persons(&unit)), expected, "{path}");
        }
        assert_eq!(innermost_unit("/"), None);
    }

    #[test]
    fn this_process_and_the_first_one_are_spared() {
        let all: HashMap<_, _> = proc::scan().expect("scan").into_iter().map(|stat| (stat.pid, stat)).collect();
        let spared = Spared::new(&all);
        assert!(spared.is_spared(&all[&getpid()]));
        assert!(all.get(&Pid::INIT).is_none_or(|init| spared.is_spared(init)));
    }
}
