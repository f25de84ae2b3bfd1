//! What this machine offers for containing a tree, and why not more.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use nostray_sys::job::Job;
use nostray_sys::process::{random, system_version};

use crate::machine::{Check, Machine, Tier};

pub(crate) fn examine() -> Machine {
    let checks = vec![job(), start_in_job()];
    let tier = if checks.iter().all(|check| check.ok) { Tier::Job } else { Tier::None };
    Machine { system: "Windows", kernel: system_version().unwrap_or_default(), tier, checks }
}

fn job() -> Check {
    let (ok, detail) = match Job::new().and_then(|job| job.count()) {
        Ok(_) => (true, "can be made; the kernel ends one with its last handle".to_owned()),
        Err(error) => (false, error.to_string()),
    };
    let advice = (!ok).then(|| "Windows 10 and later have them".to_owned());
    Check { name: "job object", ok, essential: true, detail, advice }
}

/// Runs a child in a job, as a host would. This process may be in a job itself, in which not every Windows lets others be made.
fn start_in_job() -> Check {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("nostray.exe"));
    // Keeps the trial's record out of the user's registry.
    let folder = std::env::temp_dir().join(format!("nostray-doctor-{:016x}", random()));
    let mut trial = Command::new(&program);
    trial.args(["run", "--no-sweep", "--"]).arg(&program).arg("--version").env("LOCALAPPDATA", &folder);
    let made = std::fs::create_dir(&folder);
    let output =
        made.and_then(|()| trial.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).output());
    // If this fails, the folder is left in the system's folder for temporary files.
    std::fs::remove_dir_all(&folder).ok();
    let (ok, detail) = match output {
        Ok(output) if output.status.success() && output.stdout.starts_with(b"nostray ") => {
            (true, "a child is started inside of one, and nothing of it is left".to_owned())
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().filter_map(|line| line.strip_prefix("nostray: ")).next_back();
            (false, why.unwrap_or("it did not work").to_owned())
        }
        Err(error) => (false, error.to_string()),
    };
    let advice = (!ok).then(|| {
        "run this outside of the program that started it: it may keep its children in a job without others".to_owned()
    });
    Check { name: "a child in its job", ok, essential: true, detail, advice }
}
