//! What a program sees of itself, to be compared without and with nostray around it.

use std::process::ExitCode;

use crate::Failure;

/// Prints, a line each: signals blocked and ignored, umask, nice value, limits, directory, open files, environment.
pub(crate) fn print() -> Result<ExitCode, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    for key in ["SigBlk", "SigIgn", "Umask", "Groups", "CapEff", "NoNewPrivs", "Seccomp"] {
        let line = status.lines().find(|line| line.starts_with(key)).ok_or("no such line")?;
        println!("{line}");
    }
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    println!("nice {}", stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(16)).ok_or("no nice")?);
    println!("{}", std::fs::read_to_string("/proc/self/limits")?);
    println!("directory {}", std::env::current_dir()?.display());
    println!("oom {}", std::fs::read_to_string("/proc/self/oom_score_adj")?);
    for (fd, target) in badchild::open_files()? {
        println!("fd {fd} {target}");
    }
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.sort();
    for (key, value) in environment {
        println!("env {}={}", key.display(), value.display());
    }
    Ok(ExitCode::SUCCESS)
}
