//! A stage for tests of nostray for Windows: hosts and badly behaved children (`c/badchild.c`), watched from outside of nostray by a token
//! on their command lines. On Linux they run under Wine, and `/proc` is what is watched; on a Windows machine they run as they are.
//!
//! `ci/windows` builds everything and names the folder with it by `NOSTRAY_WINDOWS`. `cargo test` alone leaves these tests out.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take that has to happen. Wine is slow on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// How often to look.
const PACE: Duration = Duration::from_millis(5);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A folder, and a token that no other process has.
#[derive(Debug)]
pub struct Stage {
    built: PathBuf,
    folder: PathBuf,
    /// On the command line of every process of this stage.
    pub token: String,
}

/// A process of this stage that is seen from outside.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its number, as the machine that runs the tests has it.
    pub pid: u32,
    /// Its command line.
    pub line: String,
}

impl Stage {
    /// A new one.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let built = std::env::var_os("NOSTRAY_WINDOWS").expect("run this by ci/windows, which builds what is tested");
        let built = PathBuf::from(built);
        let token = format!("nstok{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("{token}-{name}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self { built, folder, token }
    }

    /// A file of the build, as a Windows program names it.
    #[must_use]
    pub fn built(&self, name: &str) -> String {
        as_windows(&self.built.join(name))
    }

    /// The same, as this program names it.
    #[must_use]
    pub fn built_here(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    /// Puts what Wine does not have beside a program that was copied to this stage.
    pub fn copy_what_wine_lacks(&self) {
        let name = "bcryptprimitives.dll";
        if !cfg!(windows) {
            std::fs::copy(self.built.join(name), self.folder.join(name)).expect("copied");
        }
    }

    /// A file of this stage, as a Windows program names it.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        as_windows(&self.folder.join(name))
    }

    /// The folder, as this program names it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a program of the build.
    #[must_use]
    pub fn start(&self, program: &str, words: &[&str]) -> Child {
        self.command(program, words).stdin(Stdio::null()).spawn().expect("started")
    }

    /// Runs a program of the build to its end.
    #[must_use]
    pub fn run(&self, program: &str, words: &[&str]) -> Output {
        self.command(program, words).stdin(Stdio::null()).output().expect("run")
    }

    /// Runs a program of the build to its end, in an environment with these variables. By a script: Wine has its own values for some of them.
    #[must_use]
    pub fn run_with(&self, variables: &[(&str, &str)], program: &str, words: &[&str]) -> Output {
        let mut script = "@echo off\r\n".to_owned();
        for (name, value) in variables {
            script += &format!("set \"{name}={value}\"\r\n");
        }
        script += &format!("\"{}\"", self.built(program));
        words.iter().for_each(|word| script += &format!(" \"{word}\""));
        let name = format!("run{}.cmd", COUNT.fetch_add(1, Ordering::Relaxed));
        std::fs::write(self.folder.join(&name), script + "\r\n").expect("written");
        let path = self.path(&name);
        self.command("cmd.exe", &["/c", &path]).stdin(Stdio::null()).output().expect("run")
    }

    /// A program of the build, or of the system.
    fn command(&self, program: &str, words: &[&str]) -> Command {
        let built = self.built.join(program);
        let path = if built.exists() { built } else { program.into() };
        let mut command = if cfg!(windows) {
            Command::new(path)
        } else {
            let mut command = Command::new("wine");
            command.arg(path);
            command
        };
        command.args(words).current_dir(&self.folder);
        command
    }

    /// A badly behaved program, as words of a command line.
    #[must_use]
    pub fn badchild(&self, role: &str, more: &[&str]) -> Vec<String> {
        let mut words =
            vec![self.built("badchild.exe"), role.to_owned(), self.token.clone(), as_windows(&self.folder)];
        words.extend(more.iter().map(|&word| word.to_owned()));
        words
    }

    /// `nostray run` of such a program.
    #[must_use]
    pub fn contained(&self, options: &[&str], role: &str, more: &[&str]) -> Vec<String> {
        let mut words = vec![self.built("nostray.exe"), "run".to_owned(), "--session".to_owned(), self.token.clone()];
        words.extend(options.iter().map(|&word| word.to_owned()));
        words.push("--".to_owned());
        words.extend(self.badchild(role, more));
        words
    }

    /// Starts a host that starts this command, and behaves so.
    #[must_use]
    pub fn host(&self, mode: &str, command: &[String]) -> Child {
        let mut words = self.badchild("host", &[mode, "--"]);
        words.extend_from_slice(command);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        self.start("badchild.exe", &words)
    }

    /// Waits for what a process has told under this name.
    pub fn told(&self, name: &str) -> String {
        let path = self.folder.join(name);
        let text = within(DEADLINE, || std::fs::read_to_string(&path).ok());
        text.unwrap_or_else(|| panic!("{name} was not told; {}", self.evidence())).trim().to_owned()
    }

    /// What can be seen from outside, for a test that fails: without it, a failure that comes once in a hundred runs is never explained.
    #[must_use]
    pub fn evidence(&self) -> String {
        let files = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let told: Vec<String> = files
            .map(|file| {
                let text = std::fs::read_to_string(file.path()).unwrap_or_default();
                format!("{}: {}", file.file_name().display(), text.lines().next().unwrap_or_default())
            })
            .collect();
        let seen: Vec<String> = self
            .bearers_of_token()
            .iter()
            .map(|seen| format!("{} {}: {}", seen.pid, state_of(seen.pid), seen.line))
            .collect();
        format!("told: {told:#?}; processes: {seen:#?}")
    }

    /// Whether a process has told something under this name.
    #[must_use]
    pub fn has_told(&self, name: &str) -> bool {
        self.folder.join(name).exists()
    }

    /// Tells a host to go on.
    pub fn go(&self) {
        std::fs::write(self.folder.join("go"), "").expect("written");
    }

    /// The processes of this stage that live.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.bearers_of_token().into_iter().filter(|seen| !is_dead_loader(seen.pid)).collect()
    }

    fn bearers_of_token(&self) -> Vec<Seen> {
        all().into_iter().filter(|seen| seen.line.contains(&self.token)).collect()
    }

    /// The process of this stage whose command line has this word.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<Seen> {
        self.seen().into_iter().find(|seen| seen.line.contains(word))
    }

    /// How long it takes until no process of this stage is left.
    pub fn time_until_empty(&self) -> Duration {
        self.time_until_empty_but("no such word")
    }

    /// The same, without processes that have this word on their command line.
    pub fn time_until_empty_but(&self, word: &str) -> Duration {
        let begin = Instant::now();
        let is_empty = || self.seen().iter().all(|seen| seen.line.contains(word)).then_some(());
        assert!(within(DEADLINE, is_empty).is_some(), "processes stay behind; {}", self.evidence());
        begin.elapsed()
    }

    /// Forgets what was told.
    pub fn clear(&self) {
        for entry in std::fs::read_dir(&self.folder).expect("a folder").flatten() {
            std::fs::remove_file(entry.path()).ok();
        }
    }

    /// Ends a process by its Windows number, from Windows.
    pub fn terminate(&self, number: &str) {
        self.play("kill", number);
    }

    /// Lets a process go on that was stopped, by its Windows number.
    pub fn thaw(&self, number: &str) {
        self.play("thaw", number);
    }

    fn play(&self, role: &str, number: &str) {
        let words = self.badchild(role, &[number]);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        assert!(self.run("badchild.exe", &words).status.success(), "{role} {number}");
    }

    /// Stops the next front of this stage while it starts its child, and returns its Windows number, with what `start` returns.
    pub fn freeze<T>(&self, mut start: impl FnMut() -> T) -> (String, T) {
        loop {
            let words = self.badchild("freeze", &[]);
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            let mut freezer = self.start("badchild.exe", &words);
            self.told("freezer");
            let started = start();
            let frozen = self.told("frozen");
            assert!(freezer.wait().expect("ended").success());
            if frozen != "too late" {
                return (frozen, started);
            }
            self.seen().iter().for_each(|seen| kill(seen.pid));
            self.time_until_empty();
            self.clear();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Dead loaders; after a failed test also what it leaves behind, which must not disturb the next one.
        let all_end = std::thread::panicking();
        self.bearers_of_token()
            .iter()
            .filter(|seen| all_end || is_dead_loader(seen.pid))
            .for_each(|seen| kill(seen.pid));
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Asks again and again, for so long at most.
pub fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + time;
    loop {
        match ask() {
            Some(answer) => return Some(answer),
            None if Instant::now() > until => return None,
            None => std::thread::sleep(PACE),
        }
    }
}

/// A path as a Windows program names it.
fn as_windows(path: &Path) -> String {
    let text = path.to_str().expect("text");
    if cfg!(windows) { text.to_owned() } else { format!("Z:{}", text.replace('/', "\\")) }
}

/// Ends a process from outside of Windows: on Linux by SIGKILL.
#[cfg(unix)]
pub fn kill(pid: u32) {
    Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status().expect("kill");
}

/// Every process of the machine.
#[cfg(unix)]
fn all() -> Vec<Seen> {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let line = |pid: u32| {
        // A process that has ended and waits for its parent has no command line.
        let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned())
    };
    numbers.filter_map(|pid| Some(Seen { pid, line: line(pid)? })).collect()
}

/// Whether Wine has ended this process before it began. If a process is ended inside of its `CreateProcess`, Wine's server forgets the new
/// process, but the new process's loader (Wine 8) waits for ever for an answer to its first question. No instruction of a Windows program runs
/// in it, and none will: no such program is mapped, and the server has closed the connection.
#[cfg(unix)]
fn is_dead_loader(pid: u32) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

    let has_no_program = || Some(!std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?.contains(".dll"));
    let has_lost_its_server = || {
        let process = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().find_map(|entry| {
            std::fs::read_link(entry.path()).ok()?.to_str()?.starts_with("socket:").then_some(())?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()?;
            let mut asked = [PollFd::new(&socket, PollFlags::empty())];
            poll(&mut asked, Some(&Timespec::default())).ok()?;
            asked[0].revents().contains(PollFlags::HUP).then_some(())
        })
    };
    has_no_program().unwrap_or(false) && has_lost_its_server().is_some()
}

/// What a process does, in the kernel's words.
#[cfg(unix)]
fn state_of(pid: u32) -> String {
    let of_process = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = of_process("status");
    let lines =
        status.lines().filter(|line| ["State:", "PPid:", "SigPnd:"].iter().any(|word| line.starts_with(word)));
    let words: Vec<String> = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let loader = if is_dead_loader(pid) { "a dead loader" } else { "no dead loader" };
    let programs = of_process("maps").matches(".dll").count();
    format!("{}, waits in {}, {loader}, {programs} maps of .dll files", words.join(", "), of_process("wchan"))
}

#[cfg(windows)]
fn state_of(_: u32) -> String {
    String::new()
}

#[cfg(windows)]
fn is_dead_loader(_: u32) -> bool {
    false
}

/// Ends a process.
#[cfg(windows)]
pub fn kill(pid: u32) {
    Command::new("taskkill").args(["/f", "/pid", &pid.to_string()]).output().expect("taskkill");
}

/// Every process of the machine.
#[cfg(windows)]
fn all() -> Vec<Seen> {
    let all = nostray_sys::proc::scan().expect("a list of processes");
    let seen = |stat: nostray_sys::proc::Stat| {
        let pid = stat.pid.as_raw_nonzero().get().cast_unsigned();
        Seen { pid, line: nostray_sys::proc::command_of(stat.pid).join(" ") }
    };
    all.into_iter().map(seen).collect()
}
