//! What `/proc` tells about processes.

use std::fs::File;
use std::io::{self, Read};

use crate::Pid;

/// The moment at which a process started, in kernel ticks since boot. Together with the pid it names one
/// process for as long as the machine runs, however often the number is used again and the clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StartTime(pub u64);

/// One line of `/proc/PID/stat`, as far as it is of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: Pid,
    /// When it started.
    pub start: StartTime,
    /// Its parent; none for the first process and for one whose parent is outside of this pid namespace.
    pub parent: Option<Pid>,
    /// Its session.
    pub session: Option<Pid>,
    /// Whether it has a controlling terminal.
    pub has_terminal: bool,
    /// Its name, as `ps` shows it.
    pub name: String,
    state: u8,
    threads: u32,
    flags: u32,
    cpu_ticks: u64,
}

/// The kernel's mark of a process that is on its way out.
const EXITING: u32 = 0x4;

impl Stat {
    /// Reads the line for a process; `None` when there is none with this number.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        let mut buffer = [0; 1024];
        // Not by way of the C library: musl's has a second system call for close-on-exec, and a scan opens hundreds.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let file = rustix::fs::open(format!("/proc/{pid}/stat"), flags, rustix::fs::Mode::empty()).ok()?;
        let n = rustix::io::read(&file, &mut buffer).ok()?;
        Self::parse(buffer.get(..n)?)
    }

    /// Ended, and only waiting to be reaped. (A process whose first thread has ended while others run looks
    /// like a zombie too, but it is alive.)
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }

    /// Ended, or on its way out: it has given back its memory, or is about to, and acts on nothing any more.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.flags & EXITING != 0 || self.is_zombie()
    }

    /// Stopped by a signal: it acts on nothing but SIGKILL until it is continued.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// The processor time that it and the children which it has reaped have used.
    #[must_use]
    pub fn cpu_with_reaped(&self) -> std::time::Duration {
        let seconds = self.cpu_ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    /// Asleep in the kernel in a way that even SIGKILL has to wait for.
    #[must_use]
    pub fn is_uninterruptible(&self) -> bool {
        self.state == b'D'
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // The name is in parentheses and may itself contain spaces and parentheses, even "(x) R 1 (y)".
        let open = line.iter().position(|&b| b == b'(')?;
        let close = line.iter().rposition(|&b| b == b')')?;
        let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
        let name = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // As numbered in proc(5): the fields from 3 on.
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?; // 3
        let parent = fields.next()?.parse().ok()?; // 4
        let session = fields.nth(1)?.parse().ok()?; // 6
        let terminal = fields.next()?; // 7
        let flags = fields.nth(1)?.parse().ok()?; // 9
        // 14 to 17: of its own, and of children that it has reaped
        let cpu_ticks =
            fields.by_ref().skip(4).take(4).map(|ticks| ticks.parse::<u64>().ok()).sum::<Option<u64>>()?;
        let threads = fields.nth(2)?.parse().ok()?; // 20
        let start = fields.nth(1)?.parse().ok()?; // 22
        Some(Self {
            pid: pid_from(pid)?,
            start: StartTime(start),
            parent: pid_from(parent),
            session: pid_from(session),
            has_terminal: terminal != "0",
            name,
            state,
            threads,
            flags,
            cpu_ticks,
        })
    }
}

/// The line of one process, to be read again and again: also after another `/proc` was mounted, in which the process is not.
#[derive(Debug)]
pub struct StatFile(File);

impl StatFile {
    /// Opens it.
    #[must_use]
    pub fn open(pid: Pid) -> Option<Self> {
        File::open(format!("/proc/{pid}/stat")).ok().map(Self)
    }

    /// Reads the line as it is now; `None` when the process was reaped.
    #[must_use]
    pub fn read(&self) -> Option<Stat> {
        let mut buffer = [0; 1024];
        let n = std::os::unix::fs::FileExt::read_at(&self.0, &mut buffer, 0).ok()?;
        Stat::parse(buffer.get(..n)?)
    }
}

fn pid_from(number: i32) -> Option<Pid> {
    if number > 0 { Pid::from_raw(number) } else { None }
}

/// Every process that this one can see. Not one moment's picture: processes come and go meanwhile.
pub fn scan() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(pid_from)
            && let Some(stat) = Stat::of(pid)
        {
            all.push(stat);
        }
    }
    Ok(all)
}

/// The children of this process, which must have one thread: the kernel lists them by the thread that forked
/// them. `None` where the kernel has no such list.
#[must_use]
pub fn children_of_self() -> Option<Vec<Pid>> {
    let list = std::fs::read_to_string("/proc/thread-self/children").ok()?;
    Some(list.split_ascii_whitespace().filter_map(|n| n.parse().ok()).filter_map(pid_from).collect())
}

/// The children of a process, by the thread that forked them. While one of them ends, the kernel may leave out another. None where the
/// kernel has no such list.
#[must_use]
pub fn children_of(parent: &Stat) -> Vec<Pid> {
    let pid = parent.pid;
    let mut list = Vec::new();
    // `read_to_end` would ask for the size first, which is unknown.
    let mut read = |thread: &str| -> io::Result<()> {
        let (mut file, mut some) = (File::open(format!("/proc/{pid}/task/{thread}/children"))?, [0; 4096]);
        while let count @ 1.. = file.read(&mut some)? {
            list.extend_from_slice(&some[..count]);
        }
        list.push(b' ');
        Ok(())
    };
    if parent.threads <= 1 {
        read(&pid.to_string()).ok(); // it has ended
    } else if let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) {
        let names = threads.filter_map(|thread| thread.ok()?.file_name().into_string().ok());
        names.for_each(|thread| drop(read(&thread)));
    }
    let numbers = list.split(u8::is_ascii_whitespace).filter_map(|number| std::str::from_utf8(number).ok());
    numbers.filter_map(|number| number.parse().ok()).filter_map(pid_from).collect()
}

/// How a person would recognise a process: its command line, or its name where that is hidden or empty.
#[must_use]
pub fn describe(pid: Pid) -> String {
    let command: String = command_of(pid).join(" ").trim().chars().take(120).collect();
    if command.is_empty() { Stat::of(pid).map_or_else(String::new, |stat| stat.name) } else { command }
}

/// The words of a process's command line; none where that is hidden or empty.
#[must_use]
pub fn command_of(pid: Pid) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    let words = line.split(|&byte| byte == 0).filter(|_| !line.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The bytes that a process has read and written so far, of any kind of file; `None` where they are not ours
/// to read.
#[must_use]
pub fn bytes_moved(pid: Pid) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let value = |key: &str| {
        io.lines().find_map(|line| line.strip_prefix(key)).and_then(|number| number.trim().parse::<u64>().ok())
    };
    Some(value("rchar:")?.wrapping_add(value("wchar:")?))
}

/// The environment that a process was started with. Empty if the process has ended, and for a moment during its
/// `execve`; an error if this user may not read it.
pub fn environment(pid: Pid) -> io::Result<Vec<u8>> {
    std::fs::read(format!("/proc/{pid}/environ"))
}

/// The value of a variable in such an environment.
#[must_use]
pub fn variable_in<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let value = |variable: &'a [u8]| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    environment.split(|&b| b == 0).find_map(value)
}

/// The value of a variable in the environment that a process was started with; `None` where that is not ours to read.
#[must_use]
pub fn environment_of(pid: Pid, name: &str) -> Option<Vec<u8>> {
    variable_in(&environment(pid).ok()?, name).map(<[u8]>::to_vec)
}

/// The bytes of memory that a process uses: its proportional share of what it has resident, or all of it where the share is
/// not ours to read.
#[must_use]
pub fn memory_of(pid: Pid) -> Option<u64> {
    let kilobytes = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().split(' ').next()?.parse::<u64>().ok()
    };
    let share = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    let share = share.and_then(|text| kilobytes(&text, "Pss:"));
    let resident = || kilobytes(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:");
    share.or_else(resident).map(|kilobytes| kilobytes * 1024)
}

/// The resident bytes of a process, also those that it shares with others. Quick.
#[must_use]
pub fn resident_of(pid: Pid) -> Option<u64> {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// How many files a process has open; `None` where that is not ours to read.
#[must_use]
pub fn open_files_of(pid: Pid) -> Option<usize> {
    Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count())
}

/// How long ago a process started.
#[must_use]
pub fn age_of(start: StartTime) -> Option<std::time::Duration> {
    Some(uptime()?.saturating_sub(since_boot(start)))
}

/// How long this machine has been running.
#[must_use]
pub fn uptime() -> Option<std::time::Duration> {
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds = uptime.split_ascii_whitespace().next()?.parse().ok()?;
    std::time::Duration::try_from_secs_f64(seconds).ok()
}

/// How long this machine had been running when a process started.
#[must_use]
pub fn since_boot(start: StartTime) -> std::time::Duration {
    let seconds = start.0 as f64 / rustix::param::clock_ticks_per_second() as f64;
    std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Whether a process can be seen in the pid namespace that had this inode when one of its processes started at this moment.
///
/// The kernel reuses the inode number of a namespace that is gone. But no process of a namespace outlives its first
/// process: if the first process has started later than this, it is another namespace.
#[must_use]
pub fn namespace_has_process(pid_namespace: u64, since: StartTime) -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_in =
        |pid: Pid| std::fs::metadata(format!("/proc/{pid}/ns/pid")).is_ok_and(|found| found.ino() == pid_namespace);
    let mut all = scan().unwrap_or_default();
    all.retain(|stat| !stat.is_zombie() && is_in(stat.pid));
    !all.is_empty() && !all.iter().any(|stat| stat.start > since && is_first_of_its_namespace(stat.pid))
}

/// The last number that a process has is the one in its own pid namespace.
fn is_first_of_its_namespace(pid: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    numbers.and_then(|numbers| numbers.split_ascii_whitespace().last()) == Some("1")
}

/// Those processes of this user, of all that can be looked at, through which the file is locked (`flock`): the kernel says so of each
/// open file that the lock belongs to.
#[must_use]
pub fn lock_holders(path: &std::path::Path) -> Vec<Stat> {
    let has_locked = |pid: Pid| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let of_path = files.filter(|file| std::fs::read_link(file.path()).is_ok_and(|target| target == path));
        of_path.into_iter().any(|file| {
            let info = format!("/proc/{pid}/fdinfo/{}", file.file_name().display());
            std::fs::read_to_string(info).is_ok_and(|text| {
                text.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
            })
        })
    };
    let own = crate::process::user();
    let mut all = scan().unwrap_or_default();
    all.retain(|stat| !stat.is_zombie() && user_of(stat.pid) == Some(own) && has_locked(stat.pid));
    all
}

/// The control group that a process is in, as far as this process sees the hierarchy: of version 2, or the one by which systemd keeps
/// its units apart. `None` where that is not ours to read.
#[must_use]
pub fn group_of(pid: Pid) -> Option<String> {
    group_in(&membership_of(&pid.to_string())?)
}

/// The control groups of a process, a line for each hierarchy.
pub(crate) fn membership_of(process: &str) -> Option<String> {
    // Mostly in one read: the file's size is not known beforehand, and a buffer that begins small takes five.
    let mut text = String::with_capacity(1024);
    File::open(format!("/proc/{process}/cgroup")).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

fn group_in(text: &str) -> Option<String> {
    let path =
        |hierarchy: &str| text.lines().find_map(|line| line.split_once(hierarchy)).map(|(_, path)| path.to_owned());
    // Where both are there, version 2 may be mounted and not used.
    path("0::").filter(|path| path != "/").or_else(|| path(":name=systemd:")).or_else(|| path("0::"))
}

/// The hard limit of a process for real-time threads ([`crate::process::real_time_limit`]). Every process may read it.
#[must_use]
pub fn real_time_limit_of(pid: Pid) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The user that has started a process. Unlike the owner of its folder, this is told of a process that lets no other look into it.
#[must_use]
pub fn real_user_of(pid: Pid) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_ascii_whitespace().next()?.parse().ok()
}

/// The file name of the program that a process runs, also if the file has been replaced since; `None` where that is not ours to read.
#[must_use]
pub fn program_of(pid: Pid) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some(name.trim_end_matches(" (deleted)").to_owned())
}

/// Those processes of this user that have themselves locked (`flock`) the file with this inode. Quick: one file of the kernel's is read.
#[must_use]
pub fn lockers_of(inode: u64) -> Vec<Stat> {
    let locker = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // The device is left out: some file systems show another one here than to `stat`.
        let is_it = *fields.get(1)? == "FLOCK" && fields.get(5)?.rsplit(':').next()? == inode.to_string();
        let pid = fields.get(4)?.parse().ok().and_then(pid_from).filter(|_| is_it)?;
        Stat::of(pid).filter(|_| user_of(pid) == Some(crate::process::user()))
    };
    std::fs::read_to_string("/proc/locks").unwrap_or_default().lines().filter_map(locker).collect()
}

/// The user that a process belongs to.
#[must_use]
pub fn user_of(pid: Pid) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid())
}

/// The same as [`command_of`]: the kernel reads it from the process's memory.
#[must_use]
pub fn command_in_memory_of(pid: Pid) -> Vec<String> {
    command_of(pid)
}

/// Whether a process belongs to the user that this one acts for.
#[must_use]
pub fn is_own(pid: Pid) -> bool {
    user_of(pid) == Some(crate::process::user())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = b"42 (a) R 1 (b) S 7 42 40 0 -1 4194304 0 0 0 0 1 2 0 0 20 0 3 0 777 0 0";
        let stat = Stat::parse(line).expect("parses");
        assert_eq!((stat.pid, stat.parent, stat.session), (pid(42), Some(pid(7)), Some(pid(40))));
        assert_eq!((stat.start, stat.threads, stat.name.as_str()), (StartTime(777), 3, "a) R 1 (b"));
    }

    #[test]
    fn a_leader_that_ended_before_its_threads_is_alive() {
        let line = |threads| format!("9 (x) Z 1 9 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 5 0 0");
        assert!(Stat::parse(line(1).as_bytes()).expect("parses").is_zombie());
        assert!(!Stat::parse(line(2).as_bytes()).expect("parses").is_zombie());
    }

    #[test]
    fn every_cut_of_a_line_is_refused_or_whole() {
        let line = b"42 (sh) S 7 42 40 0 -1 4194304 0 0 0 0 1 2 0 0 20 0 3 0 777";
        for end in 0..line.len() - 3 {
            assert_eq!(Stat::parse(&line[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn the_group_is_that_of_the_hierarchy_that_separates_units() {
        let v2 = "0::/user.slice/session-3.scope\n";
        let hybrid = "9:name=systemd:/user.slice/x\n4:memory:/y\n0::/\n";
        let bare = "4:memory:/y\n0::/\n";
        let groups = [v2, hybrid, bare, ""].map(group_in);
        assert_eq!(
            groups.each_ref().map(Option::as_deref),
            [Some("/user.slice/session-3.scope"), Some("/user.slice/x"), Some("/"), None]
        );
    }

    #[test]
    fn a_limit_is_read_as_it_is() {
        assert_eq!(real_time_limit_of(rustix::process::getpid()), Some(crate::process::real_time_limit()));
    }

    #[test]
    fn a_lock_is_known_by_its_file() {
        use std::os::unix::fs::MetadataExt;
        let path = std::env::temp_dir().join(format!("nostray-lock-{}", crate::process::random()));
        let file = File::create(&path).expect("create");
        let inode = file.metadata().expect("is there").ino();
        let lockers = || lockers_of(inode).iter().map(|stat| stat.pid).collect::<Vec<_>>();
        assert_eq!(lockers(), []);
        file.lock().expect("lock");
        assert_eq!(lockers(), [rustix::process::getpid()]);
        std::fs::remove_file(path).expect("remove");
    }

    #[test]
    fn this_process_is_found_and_is_not_a_zombie() {
        let me = rustix::process::getpid();
        let all = scan().expect("scan");
        let mine = all.iter().find(|stat| stat.pid == me).expect("in the list");
        assert!(!mine.is_zombie());
        assert_eq!(Some(mine.start), Stat::of(me).map(|stat| stat.start));
    }

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).expect("positive")
    }
}
