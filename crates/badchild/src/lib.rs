//! Finds the processes of a test. The test marks each process that it starts with a token in the environment. Forks, sessions and
//! daemons inherit the token, and the test later searches `/proc` for it. So the check does not depend on nostray's own records.

pub mod contest;
pub mod random;
mod together;

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nostray_sys::proc::Stat;
pub use nostray_sys::process::Pid;
use nostray_sys::signal::is_ignored;
use nostray_sys::{Pidfd, Signal};
pub use together::{Over, in_parallel, so_many_at_once};

/// The variable that marks the processes of a test.
pub const TOKEN: &str = "BADCHILD_TOKEN";
/// The variable with the token for the process that a host starts beside its command.
pub const FRIEND: &str = "BADCHILD_FRIEND";
/// The variable with the line that a tree prints when it is complete, if that is not `ready`.
pub const READY: &str = "BADCHILD_READY";
/// The deadline for events that should happen at once, on a machine that is busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The user as whom unprivileged tests run when root runs the tests.
const NOBODY: u32 = 65_534;

/// The user as whom a scene runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The user who runs the tests.
    Current,
    /// An unprivileged user. Only root can start processes as another user.
    Nobody,
}

impl User {
    /// The users that this machine can test with.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if rustix::process::geteuid().is_root() { vec![Self::Current, Self::Nobody] } else { vec![Self::Current] }
    }
}

/// The path of the `badchild` program, built on the first call.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn badchild() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    publish(PATH.get_or_init(|| built(&["--bin", "badchild"], "badchild")))
}

/// Builds a program of this workspace with these cargo arguments. Returns its path, beside the running test.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn built(words: &[&str], program: &str) -> PathBuf {
    let path = beside_test(program);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // For the whole workspace, as `cargo test` does: a single package may have other features, and cargo would build all again.
    cargo.args(["build", "--quiet"]).args(words).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if path.parent().is_some_and(|folder| folder.ends_with("release")) {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("run cargo").success(), "cargo build {words:?} failed");
    path
}

/// The path of a program of this workspace that cargo builds together with the running test.
///
/// # Panics
/// If the test was not started from where cargo has put it.
#[must_use]
pub fn beside_test(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    test.ancestors().nth(2).expect("target/PROFILE/deps/test").join(program)
}

/// A copy of a program where every user may execute it: a checkout may be in a home directory that other users cannot read.
///
/// # Panics
/// If it cannot be copied.
#[must_use]
pub fn publish(program: &Path) -> PathBuf {
    static FOLDER: Mutex<Option<Folder>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder.get_or_insert_with(|| {
        remove_folders_of_the_dead();
        Folder::new("programs")
    });
    let name = program.file_name().expect("a file");
    publish_as(program, folder, name.to_str().expect("a name"))
}

/// A copy of a program in a folder, under this name.
fn publish_as(program: &Path, folder: &Folder, name: &str) -> PathBuf {
    let copy = folder.path().join(name);
    if !copy.exists() {
        // By another process: a program that any process has open for writing cannot be executed, and a child that another
        // thread forks meanwhile inherits the open file.
        assert!(Command::new("cp").arg(program).arg(&copy).status().expect("run cp").success());
    }
    copy
}

/// Removes the folders of test programs that have ended: a static folder is not dropped at the end of its test program.
fn remove_folders_of_the_dead() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("nostray-test-")).and_then(|name| name.split('-').next());
        if let Some(maker) = number.and_then(|number| number.parse().ok()).and_then(Pid::from_raw)
            && Stat::of(maker).is_none()
        {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// A folder that every user may write to. It is removed when the value is dropped, or else by the next boot.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("nostray-test-{}-{name}", unique()));
        std::fs::create_dir_all(&path).expect("make a folder");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1777)).expect("open it to all");
        Self(path)
    }

    /// Makes a folder that only this user may read.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn private(name: &str, user: User) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = Self::new(name);
        if user == User::Nobody {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("give it away");
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("close it to others");
        folder
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until a condition is true.
///
/// # Panics
/// If it does not within [`PATIENCE`].
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    assert!(comes_true(PATIENCE, &mut is_so), "did not happen within {PATIENCE:?}: {what}");
}

/// Whether a condition becomes true in time. Polls every few milliseconds: a test is not the parent of the processes that it watches,
/// and gets no events from them.
pub fn comes_true(within: Duration, is_so: &mut dyn FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A process that a test has found. A new process with the same number is not taken for it.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its `stat` in `/proc`.
    pub stat: Stat,
    /// Its command line.
    pub command: String,
}

impl Found {
    /// The process with this number.
    #[must_use]
    pub fn by_pid(pid: Pid) -> Option<Self> {
        let stat = Stat::of(pid)?;
        Some(Self { command: nostray_sys::proc::describe(pid), stat })
    }

    /// Whether it lives, and is not a zombie.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Stat::of(self.stat.pid).is_some_and(|now| now.start == self.stat.start && !now.is_zombie())
    }

    /// How many bytes wait in its standard input, which is a pipe.
    #[must_use]
    pub fn unread_input(&self) -> u64 {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let input = rustix::fs::open(format!("/proc/{}/fd/0", self.stat.pid), flags, rustix::fs::Mode::empty());
        input.and_then(rustix::io::ioctl_fionread).unwrap_or(0)
    }

    /// Sends it a signal, if it still lives.
    pub fn send(&self, signal: Signal) {
        if let Ok(handle) = Pidfd::open(self.stat.pid)
            && Stat::of(self.stat.pid).is_some_and(|now| now.start == self.stat.start)
        {
            handle.send(signal).ok();
        }
    }
}

/// A command that starts with no signal ignored, whatever this process inherited: `nohup` ignores SIGHUP, and a shell without job control
/// ignores SIGINT and SIGQUIT in its background jobs. A program that is started like that does not end by these signals.
fn as_from_a_shell(program: &Path) -> Command {
    if ![Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].into_iter().any(is_ignored) {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal").arg(program);
    command
}

/// A runtime directory for all scenes of one source file, so that none of them touches the user's own. Each source file has another
/// one: every start of nostray sweeps the remains of dead owners in its runtime directory, and would act on remains of other tests.
fn runtime_folder(user: User, file: &'static str) -> PathBuf {
    static FOLDERS: Mutex<Vec<(User, &str, Folder)>> = Mutex::new(Vec::new());
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., folder)) = folders.iter().find(|(of, by, _)| (*of, *by) == (user, file)) {
        return folder.path().to_owned();
    }
    let folder = Folder::private("runtime", user);
    let path = folder.path().to_owned();
    folders.push((user, file, folder));
    path
}

/// Whether this process is the subreaper of its descendants.
#[must_use]
pub fn is_subreaper() -> bool {
    rustix::process::child_subreaper().is_ok_and(|reaper| reaper.is_some())
}

/// All other processes with the token of this process: for a test that runs in a process of its own.
///
/// # Panics
/// If it has none.
#[must_use]
pub fn company() -> Vec<Found> {
    let mark = format!("{TOKEN}={}", std::env::var(TOKEN).expect("a token"));
    let is_of_it = |stat: &Stat| {
        let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
        environ.split(|&b| b == 0).any(|variable| variable == mark.as_bytes())
    };
    let all = nostray_sys::proc::scan().unwrap_or_default().into_iter();
    let others = all.filter(|stat| !stat.is_zombie() && stat.pid != rustix::process::getpid());
    others.filter(is_of_it).filter_map(|stat| Found::by_pid(stat.pid)).collect()
}

/// All processes with one token. Dropping the value kills the processes that are left, so a failed test leaves nothing behind either.
#[derive(Debug)]
pub struct Scene {
    token: String,
    /// The user as whom its processes run.
    pub user: User,
    /// A runtime directory of its own, if it has one.
    runtime: Option<Folder>,
    /// The source file that made it.
    file: &'static str,
    /// Whether the caller knows that no process is left, so that dropping the value need not search.
    is_over: bool,
}

impl Scene {
    /// A scene without processes. Its runtime directory is that of the source file of the caller.
    #[must_use]
    #[track_caller]
    pub fn new(user: User) -> Self {
        let file = std::panic::Location::caller().file();
        Self { token: unique(), user, runtime: None, file, is_over: false }
    }

    /// A scene with a runtime directory of its own, without records of other scenes.
    #[must_use]
    pub fn apart(user: User) -> Self {
        let mut scene = Self::new(user);
        scene.runtime = Some(Folder::private("apart", user));
        scene
    }

    /// Tells that no process is left, if the caller has checked that. With many scenes, a last scan of `/proc` for each costs much.
    pub fn is_over(&mut self) {
        self.is_over = true;
    }

    /// Its runtime directory.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.runtime.as_ref().map_or_else(|| runtime_folder(self.user, self.file), |folder| folder.path().to_owned())
    }

    /// A command that belongs to it.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = as_from_a_shell(program);
        command.env(TOKEN, &self.token).current_dir("/");
        self.lend_its_place(&mut command);
        if self.user == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Makes a command of another scene keep its records in the directories of this scene.
    fn lend_its_place(&self, command: &mut Command) {
        command.env("XDG_RUNTIME_DIR", self.runtime());
        if let Some(folder) = &self.runtime {
            // Records go there when there is no runtime directory; the default has records of other programs of this machine.
            command.env("XDG_STATE_HOME", folder.path().join("state"));
        }
    }

    /// All processes with the token, except zombies. Also the brokers in the scene's own runtime directory: a broker does not inherit
    /// the environment of the process that starts it.
    #[must_use]
    pub fn processes(&self) -> Vec<Found> {
        let mark = format!("{TOKEN}={}", self.token);
        let place = self.runtime.as_ref().map(|folder| format!("XDG_RUNTIME_DIR={}", folder.path().display()));
        let has = |environ: &[u8], what: &str| environ.split(|&b| b == 0).any(|variable| variable == what.as_bytes());
        let of_this = |stat: Stat| {
            let environ = std::fs::read(format!("/proc/{}/environ", stat.pid)).unwrap_or_default();
            let is_marked = has(&environ, &mark);
            if !is_marked && !place.as_ref().is_some_and(|place| has(&environ, place)) {
                return None;
            }
            let found = Found::by_pid(stat.pid)?;
            (is_marked || found.command.contains(" broker serve ")).then_some(found)
        };
        let all = nostray_sys::proc::scan().unwrap_or_default();
        all.into_iter().filter(|stat| !stat.is_zombie()).filter_map(of_this).collect()
    }

    /// The processes whose command line contains `part`.
    #[must_use]
    pub fn those_with(&self, part: &str) -> Vec<Found> {
        self.processes().into_iter().filter(|found| found.command.contains(part)).collect()
    }

    /// Waits until no process is left.
    ///
    /// # Panics
    /// If a process is left after the given time. The message lists the processes.
    pub fn expect_empty_within(&self, time: Duration) {
        // An ending process loses its environment, by which it is found, before its files. A process in `exec` has no environment
        // for a moment. So a process that was found once counts until it is gone.
        let mut seen: Vec<Found> = Vec::new();
        let is_empty = comes_true(time, &mut || {
            seen.retain(Found::is_alive);
            for found in self.processes() {
                if !seen.iter().any(|known| (known.stat.pid, known.stat.start) == (found.stat.pid, found.stat.start))
                {
                    seen.push(found);
                }
            }
            seen.is_empty()
        });
        let left: Vec<_> = seen.iter().map(|found| format!("{} {}", found.stat.pid, found.command)).collect();
        assert!(is_empty, "still there after {time:?}: {left:#?}");
    }

    /// Waits until no process is left.
    ///
    /// # Panics
    /// If a process is left after [`PATIENCE`].
    pub fn expect_empty(&self) {
        self.expect_empty_within(PATIENCE);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        while !self.is_over
            && let left = self.processes()
            && !left.is_empty()
        {
            for found in left {
                found.send(Signal::KILL);
            }
        }
    }
}

/// A host that a test has started, with its orders and its output.
#[derive(Debug)]
pub struct Host {
    process: Child,
    orders: ChildStdin,
    says: BufReader<ChildStdout>,
    friends: Scene,
}

impl Host {
    /// Starts `badchild host OPTIONS -- COMMAND`. Its stdout is the command's stdout, too.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(scene: &Scene, options: &[&str], command: &[&str]) -> Self {
        Self::start_as(scene, &badchild(), options, command)
    }

    /// The same with another name of the program `badchild`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start_as(scene: &Scene, program: &Path, options: &[&str], command: &[&str]) -> Self {
        let mut host = scene.command(program);
        let friends = Scene::new(scene.user);
        host.env(FRIEND, &friends.token).arg("host").args(options).arg("--").args(command);
        if std::env::var_os("BADCHILD_LOUD").is_none() {
            host.stderr(Stdio::null());
        }
        let mut process = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start a host");
        let orders = process.stdin.take().expect("piped");
        let says = BufReader::new(process.stdout.take().expect("piped"));
        Self { process, orders, says, friends }
    }

    /// The next line that the host or its command prints; empty at the end.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("read from the host");
        line.trim_end().to_owned()
    }

    /// Reads lines until the front's number and the command's `ready` have come, and returns the front.
    ///
    /// # Panics
    /// If one of them does not come.
    pub fn ready(&mut self) -> Found {
        let (mut front, mut ready) = (None, false);
        while front.is_none() || !ready {
            let line = self.line();
            match line.strip_prefix("front ") {
                Some(number) => front = Found::by_pid(pid(number.parse().expect("a number"))),
                None if line == "ready" => ready = true,
                None => panic!("the host said '{line}'"),
            }
        }
        front.expect("seen")
    }

    /// Makes the host write a line to its command.
    pub fn say(&mut self, line: &str) {
        self.order(&format!("say {line}"));
    }

    /// Gives the host an order.
    pub fn order(&mut self, order: &str) {
        // The host may have ended already.
        writeln!(self.orders, "{order}").ok();
    }

    /// Kills it, and waits for its end.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub fn kill(&mut self) {
        self.process.kill().expect("kill the host");
        self.process.wait().expect("reap the host");
    }

    /// Checks that the process that the host started beside its command still lives.
    ///
    /// # Panics
    /// If it is not.
    pub fn expect_friend_untouched(&self) {
        assert_eq!(self.friends.processes().len(), 1, "another child of the same host was hit");
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        pid(i32::try_from(self.process.id()).expect("small"))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A number as a [`Pid`].
///
/// # Panics
/// If it is not one.
#[must_use]
pub fn pid(number: i32) -> Pid {
    Pid::from_raw(number).expect("a process number")
}

/// The open files of this process, as number and target.
pub fn open_files() -> io::Result<Vec<(i32, String)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        if let (Ok(fd), Ok(target)) = (entry.file_name().to_string_lossy().parse(), std::fs::read_link(entry.path()))
        {
            files.push((fd, target.display().to_string()));
        }
    }
    // The file descriptor of this listing.
    files.retain(|(_, target)| !target.contains("/fd"));
    files.sort();
    Ok(files)
}

/// Unrelated processes that nostray must not touch: one in this group, and one that leads a group of its own.
#[derive(Debug)]
pub struct Bystanders {
    scene: Scene,
    processes: Vec<Child>,
    before: Vec<Found>,
}

impl Bystanders {
    /// Starts both processes.
    ///
    /// # Panics
    /// If they cannot be started.
    #[must_use]
    pub fn start(user: User) -> Self {
        let scene = Scene::new(user);
        let mut processes = Vec::new();
        for group in [None, Some(0)] {
            let mut command = scene.command(&badchild());
            command.arg("pause").stdin(Stdio::null()).stdout(Stdio::piped());
            if let Some(group) = group {
                command.process_group(group);
            }
            let mut process = command.spawn().expect("start a bystander");
            let mut line = String::new();
            BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("ready");
            processes.push(process);
        }
        let before = scene.processes();
        assert_eq!(before.len(), 2);
        Self { scene, processes, before }
    }

    /// Checks that each process still lives, and is the same as before.
    ///
    /// # Panics
    /// If one is not.
    pub fn expect_untouched(&self) {
        for found in &self.before {
            assert!(found.is_alive(), "a bystander was hit: {found:?}");
        }
        assert_eq!(self.scene.processes().len(), self.before.len());
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// The group that has the terminal of this master.
#[must_use]
pub fn foreground_group(master: impl std::os::fd::AsFd) -> Option<Pid> {
    rustix::termios::tcgetpgrp(master).ok()
}

/// A new terminal: its master, and the path of the terminal itself.
pub fn open_terminal() -> io::Result<(std::os::fd::OwnedFd, String)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    Ok((master, name.to_string_lossy().into_owned()))
}

/// Gives the terminal of this master a size. Its foreground group gets SIGWINCH.
pub fn resize_terminal(master: impl std::os::fd::AsFd, columns: u16, rows: u16) -> io::Result<()> {
    let size = rustix::termios::Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}
