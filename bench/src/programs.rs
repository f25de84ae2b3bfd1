//! The programs that are measured, built here so that they are what the sources say.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use badchild::Found;

use crate::Failure;

/// Where they are, for every user to execute.
pub(crate) struct Programs {
    pub(crate) nostray: PathBuf,
    pub(crate) badchild: PathBuf,
}

impl Programs {
    /// Builds them, optimised, into the folder that this program came from. With `BENCH_NOSTRAY`, another nostray is measured, like that of
    /// the packages.
    pub(crate) fn build() -> Result<Self, Failure> {
        if cfg!(debug_assertions) {
            return Err("what is not optimised is not worth measuring: run with `cargo run --release`".into());
        }
        let me = std::env::current_exe()?;
        let folder = me.ancestors().nth(2).ok_or("no target folder")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--release", "--bin", "nostray", "--bin", "badchild"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .status()?;
        if !built.success() {
            return Err("cargo could not build nostray and badchild".into());
        }
        let other = std::env::var_os("BENCH_NOSTRAY").map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
        let nostray = existing(other.unwrap_or_else(|| folder.join("nostray")))?;
        let badchild = existing(folder.join("badchild"))?;
        Ok(Self { nostray: badchild::publish(&nostray), badchild: badchild::publish(&badchild) })
    }
}

/// Like `nostray 0.1.0, a static program, 6.5 MiB`.
pub(crate) fn described(program: &Path) -> Result<String, Failure> {
    let said = Command::new(program).arg("--version").output()?;
    let bytes = std::fs::read(program)?;
    let linked =
        if names_interpreter(&bytes) { "linked to the C library of this machine" } else { "a static program" };
    let version = String::from_utf8_lossy(&said.stdout);
    Ok(format!("{}, {linked}, {:.1} MiB", version.trim(), bytes.len() as f64 / f64::from(1 << 20)))
}

/// Whether an ELF file of 64 bits names an interpreter (a program header of type 3): what the kernel starts to load a dynamic program.
fn names_interpreter(elf: &[u8]) -> bool {
    const INTERPRETER: [u8; 4] = 3_u32.to_le_bytes();
    let number = |at: usize| elf.get(at..at + 2).map_or(0, |two| usize::from(u16::from_le_bytes([two[0], two[1]])));
    let (begin, size, count) = (number(32), number(54), number(56));
    (0..count).any(|header| elf.get(begin + header * size..).is_some_and(|header| header.starts_with(&INTERPRETER)))
}

fn existing(path: PathBuf) -> Result<PathBuf, Failure> {
    if path.exists() { Ok(path) } else { Err(format!("there is no {}", path.display()).into()) }
}

/// Where a program is in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Whether a process was started with exactly these words.
pub(crate) fn is_started_with(found: &Found, command: &[OsString]) -> bool {
    let words: Vec<u8> = command.iter().flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect();
    std::fs::read(format!("/proc/{}/cmdline", found.stat.pid)).is_ok_and(|line| line == words)
}

/// All processes that run this program. If the program was built for this run, all of them belong to the run.
pub(crate) fn running(program: &Path) -> Vec<Found> {
    let all = nostray_sys::proc::scan().unwrap_or_default();
    let runs_it = |stat: &nostray_sys::proc::Stat| {
        std::fs::read_link(format!("/proc/{}/exe", stat.pid)).is_ok_and(|file| file == program)
    };
    all.into_iter()
        .filter(|stat| !stat.is_zombie() && runs_it(stat))
        .filter_map(|stat| Found::by_pid(stat.pid))
        .collect()
}

/// Waits until no process runs this program.
pub(crate) fn until_none_runs(program: &Path) -> Result<(), Failure> {
    if badchild::comes_true(badchild::PATIENCE, &mut || running(program).is_empty()) {
        return Ok(());
    }
    let left: Vec<String> =
        running(program).iter().map(|found| format!("{} {}", found.stat.pid, found.command)).collect();
    Err(format!("still running although no session is open: {left:#?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dynamic_program_names_its_interpreter() {
        let dynamic = std::fs::read("/bin/sh").expect("a shell");
        assert!(names_interpreter(&dynamic));
        assert!(!names_interpreter(&dynamic[..64]));
        assert!(!names_interpreter(b""));
    }
}
