//! What this machine offers for containing a tree, and why not more.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::process::{Command, Stdio};

use nostray_sys::Pidfd;
use nostray_sys::cgroup::{Cgroup, NoCgroup};
use nostray_sys::proc::Stat;
use nostray_sys::process::{Pid, become_subreaper, random};

use crate::machine::{Check, Machine, Tier};

pub(crate) fn examine() -> Machine {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let cgroup = cgroup();
    let has_cgroup = cgroup.ok;
    let checks = vec![cgroup, subreaper(), pidfd(), proc(), pid_namespace()];
    let tier = match checks.iter().all(|check| check.ok || !check.essential) {
        true if has_cgroup => Tier::Cgroup,
        true => Tier::Subreaper,
        false => Tier::None,
    };
    Machine { system: "Linux", kernel, tier, checks }
}

fn cgroup() -> Check {
    let (ok, detail, advice) = match Cgroup::create(&format!("nostray-doctor-{:016x}", random())) {
        Ok(group) => {
            let below = group.path().parent().unwrap_or(group.path()).display().to_string();
            group.remove();
            (true, format!("groups can be made below {below}"), None)
        }
        Err(why) => (false, why.to_string(), Some(cgroup_advice(&why))),
    };
    Check { name: "control group v2", ok, essential: false, detail, advice }
}

fn cgroup_advice(why: &NoCgroup) -> String {
    match why {
        NoCgroup::NotMounted => {
            "mount it (mount -t cgroup2 none /sys/fs/cgroup/unified), or boot with systemd.unified_cgroup_hierarchy=1"
        }
        NoCgroup::NotDelegated(_) => {
            "start the host with `systemd-run --user --scope -p Delegate=yes HOST`, or give its unit Delegate=yes"
        }
        NoCgroup::NoKill => "a kernel from 5.14 on has it",
        NoCgroup::Refused(..) => {
            "ask the administrator of this machine or container for a control group in which you may create others"
        }
    }
    .to_owned()
}

fn subreaper() -> Check {
    let (ok, detail) = match become_subreaper() {
        Ok(()) => (true, "orphans of a tree can be kept".to_owned()),
        Err(error) => (false, error.to_string()),
    };
    let advice =
        (!ok).then(|| "a container's filter of system calls must allow prctl(PR_SET_CHILD_SUBREAPER)".to_owned());
    Check { name: "subreaper", ok, essential: true, detail, advice }
}

fn pidfd() -> Check {
    let (ok, detail) = match Pidfd::of_self() {
        Ok(_) => (true, "processes can be held on to without their numbers".to_owned()),
        Err(error) => (false, error.to_string()),
    };
    let advice =
        (!ok).then(|| "a kernel from 5.3 on has it; a container's filter of system calls must allow it".to_owned());
    Check { name: "pidfd", ok, essential: true, detail, advice }
}

fn proc() -> Check {
    let me = Stat::of(nostray_sys::process::getpid());
    let (ok, detail, advice) = match (me, Stat::of(Pid::INIT)) {
        (None, _) => (false, "cannot be read".to_owned(), Some("mount it: mount -t proc proc /proc".to_owned())),
        (Some(_), None) => {
            (true, "shows the processes of this user only (hidepid), which is enough for nostray".to_owned(), None)
        }
        (Some(_), Some(_)) => (true, "shows every process".to_owned(), None),
    };
    Check { name: "/proc", ok, essential: true, detail, advice }
}

/// Tries it in a separate process, since a process cannot leave a namespace that it has entered.
fn pid_namespace() -> Check {
    let program =
        std::env::current_exe().ok().filter(|path| path.exists()).unwrap_or_else(|| "/proc/self/exe".into());
    // Keeps the trial's record out of the user's registry.
    let folder = std::env::temp_dir().join(format!("nostray-doctor-{:016x}", random()));
    let mut trial = Command::new(&program);
    trial.args(["run", "--no-sweep", "--isolate", "pid", "--"]).arg(&program).arg("--version");
    if DirBuilder::new().mode(0o700).create(&folder).is_ok() {
        trial.env("XDG_RUNTIME_DIR", &folder);
    }
    let output = trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    // If this fails, the folder is left in the system's folder for temporary files.
    std::fs::remove_dir_all(&folder).ok();
    let (ok, detail) = match output {
        Ok(output) if output.status.success() => (true, "possible".to_owned()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().filter_map(|line| line.strip_prefix("nostray: ")).next_back();
            (false, why.unwrap_or("it did not work").to_owned())
        }
        Err(error) => (false, error.to_string()),
    };
    let advice = (!ok).then(|| "only needed for --isolate pid; everything else works without".to_owned());
    Check { name: "--isolate pid", ok, essential: false, detail, advice }
}
