//! The processes of this machine.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
};
use windows_sys::Win32::System::JobObjects::IsProcessInJob;
use windows_sys::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetProcessHandleCount, QueryFullProcessImageNameW};

use std::os::windows::io::{AsHandle, AsRawHandle};

use crate::{Pid, Pidfd};

/// When a process was made, in units of 100 ns since the year 1601.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StartTime(pub u64);

/// What there is to know of a process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: Pid,
    /// When it was made.
    pub start: StartTime,
    /// The process that made it. Only if that lives: a number that is another process's by now is left out.
    pub parent: Option<Pid>,
    /// There are no sessions of this kind.
    pub session: Option<Pid>,
    /// The name of its program, without `.exe`.
    pub name: String,
    has_lost_parent: bool,
}

impl Stat {
    /// The process that has this number, if it has not ended.
    #[must_use]
    pub fn of(pid: Pid) -> Option<Self> {
        scan().ok()?.into_iter().find(|stat| stat.pid == pid)
    }

    /// Its processor time.
    #[must_use]
    pub fn cpu_with_reaped(&self) -> Duration {
        Duration::from_nanos(crate::process::cpu_time(self.pid).unwrap_or(0))
    }

    /// Whether the process that made it has ended.
    #[must_use]
    pub fn has_lost_parent(&self) -> bool {
        self.has_lost_parent
    }

    /// A process that has ended is not listed here.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        false
    }

    /// The same.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        false
    }

    /// Processes are not stopped on Windows; a debugger stops threads.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        false
    }
}

/// Every process, each with its parent if the parent has been there before it.
pub fn scan() -> io::Result<Vec<Stat>> {
    let mut found = Vec::new();
    // SAFETY: the handle of the list is ours; the structure says its own size, as the call wants it.
    unsafe {
        let list = super::owned(CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0))?;
        let mut entry: PROCESSENTRY32W = std::mem::zeroed();
        entry.dwSize = size_of::<PROCESSENTRY32W>() as u32;
        let mut there = Process32FirstW(list.as_raw_handle(), &raw mut entry);
        while there != 0 {
            let name: Vec<u16> = entry.szExeFile.iter().copied().take_while(|unit| *unit != 0).collect();
            let name = String::from_utf16_lossy(&name);
            found.push((entry.th32ProcessID, entry.th32ParentProcessID, without_end(&name).to_owned()));
            there = Process32NextW(list.as_raw_handle(), &raw mut entry);
        }
    }
    let start_of = |number| Pid::of_number(number).and_then(|pid| Some(Pidfd::open(pid).ok()?.times().ok()?[0]));
    let starts: std::collections::HashMap<u32, u64> =
        found.iter().filter_map(|(number, ..)| Some((*number, start_of(*number)?))).collect();
    let stat = |(number, parent, name): (u32, u32, String)| {
        let start = *starts.get(&number)?;
        let has_parent = parent != 0;
        // The number of a parent that has ended may be another process's, which is younger then.
        let parent =
            Pid::of_number(parent).filter(|pid| starts.get(&pid.number()).is_some_and(|made| *made <= start));
        let has_lost_parent = has_parent && parent.is_none();
        Some(Stat {
            pid: Pid::of_number(number)?,
            start: StartTime(start),
            parent,
            session: None,
            name,
            has_lost_parent,
        })
    };
    Ok(found.into_iter().filter_map(stat).collect())
}

fn without_end(name: &str) -> &str {
    let at = name.len().saturating_sub(4);
    match name.split_at_checked(at) {
        Some((stem, end)) if end.eq_ignore_ascii_case(".exe") => stem,
        _ => name,
    }
}

/// The children of a process.
#[must_use]
pub fn children_of(parent: &Stat) -> Vec<Pid> {
    let all = scan().unwrap_or_default();
    all.into_iter().filter(|stat| stat.parent == Some(parent.pid)).map(|stat| stat.pid).collect()
}

/// The words of a process's command line; none where that cannot be read.
#[must_use]
pub fn command_of(pid: Pid) -> Vec<String> {
    Pidfd::open(pid).ok().and_then(|handle| command_line(&handle)).map_or_else(Vec::new, |line| split(&line))
}

/// The same, read from the process's memory where the kernel does not tell it: Wine 8 does not. For few processes, which must not be about
/// to start or to end: Wine stops a process to read from it.
#[must_use]
pub fn command_in_memory_of(pid: Pid) -> Vec<String> {
    let told = command_of(pid);
    if told.is_empty() { command_line_in_memory(pid).map_or_else(Vec::new, |line| split(&line)) } else { told }
}

/// As the kernel has it since Windows 8.1.
fn command_line(process: &Pidfd) -> Option<String> {
    use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessCommandLineInformation};
    use windows_sys::Win32::Foundation::UNICODE_STRING;
    let mut room = vec![0_u64; 8 << 10];
    let (size, mut used) = ((room.len() * 8) as u32, 0);
    // SAFETY: the call writes no more than the size, and puts the structure at the head; it points into the same memory.
    unsafe {
        let to = room.as_mut_ptr().cast();
        if NtQueryInformationProcess(process.as_raw_handle(), ProcessCommandLineInformation, to, size, &raw mut used)
            < 0
        {
            return None;
        }
        let text = &*room.as_ptr().cast::<UNICODE_STRING>();
        if text.Buffer.is_null() {
            return None;
        }
        Some(String::from_utf16_lossy(std::slice::from_raw_parts(text.Buffer, usize::from(text.Length) / 2)))
    }
}

/// As the process itself has it in its memory.
fn command_line_in_memory(pid: Pid) -> Option<String> {
    use windows_sys::Wdk::System::Threading::{NtQueryInformationProcess, ProcessBasicInformation};
    use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
    use windows_sys::Win32::System::Threading::{PEB, PROCESS_BASIC_INFORMATION, RTL_USER_PROCESS_PARAMETERS};
    let handle = Pidfd::open_to_read(pid).ok()?;
    let read = |from: *const std::ffi::c_void, to: *mut std::ffi::c_void, size: usize| {
        let mut done = 0;
        // SAFETY: the addresses that are read are the other process's, and are checked by the call; each caller below has so much room.
        super::done(unsafe { ReadProcessMemory(handle.as_raw_handle(), from, to, size, &raw mut done) }).ok()?;
        (done == size).then_some(())
    };
    // SAFETY: all-zero is valid for each of these structures, which are numbers and addresses that are not followed here; each call writes
    // no more than the size of what it is given.
    let text = unsafe {
        let mut basic: PROCESS_BASIC_INFORMATION = std::mem::zeroed();
        let (to, size) = ((&raw mut basic).cast(), size_of::<PROCESS_BASIC_INFORMATION>() as u32);
        if NtQueryInformationProcess(handle.as_raw_handle(), ProcessBasicInformation, to, size, std::ptr::null_mut())
            < 0
        {
            return None;
        }
        let mut block: PEB = std::mem::zeroed();
        read(basic.PebBaseAddress.cast(), (&raw mut block).cast(), size_of::<PEB>())?;
        let mut parameters: RTL_USER_PROCESS_PARAMETERS = std::mem::zeroed();
        let size = size_of::<RTL_USER_PROCESS_PARAMETERS>();
        read(block.ProcessParameters.cast(), (&raw mut parameters).cast(), size)?;
        parameters.CommandLine
    };
    let mut units = vec![0_u16; usize::from(text.Length) / 2];
    read(text.Buffer.cast(), units.as_mut_ptr().cast(), units.len() * 2)?;
    Some(String::from_utf16_lossy(&units))
}

/// The words of a command line, as the C runtime has them. For people.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted, mut backslashes) = (Vec::new(), None::<String>, false, 0);
    for letter in line.chars().chain([' ']) {
        let pending = std::mem::take(&mut backslashes);
        if letter == '\\' {
            backslashes = pending + 1;
            continue;
        }
        let is_quote = letter == '"';
        let literal = if is_quote { pending / 2 } else { pending };
        if literal > 0 {
            word.get_or_insert_default().extend(std::iter::repeat_n('\\', literal));
        }
        match letter {
            '"' if pending % 2 == 1 => word.get_or_insert_default().push('"'),
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            ' ' | '\t' if !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.map(|word| word.trim_end().to_owned()));
    words
}

/// The file name of a process's program, without `.exe`.
#[must_use]
pub fn program_of(pid: Pid) -> Option<String> {
    let path = program_path_of(pid)?;
    path.rsplit(['\\', '/']).next().map(|name| without_end(name).to_owned())
}

fn program_path_of(pid: Pid) -> Option<String> {
    let handle = Pidfd::open(pid).ok()?;
    let mut name = vec![0_u16; 32 << 10];
    let mut length = name.len() as u32;
    // SAFETY: the handle is open, and the call writes no more than there is room for.
    unsafe { super::done(QueryFullProcessImageNameW(handle.as_raw_handle(), 0, name.as_mut_ptr(), &raw mut length)) }
        .ok()?;
    Some(String::from_utf16_lossy(&name[..length as usize]))
}

/// The bytes of memory that a process has resident.
#[must_use]
pub fn memory_of(pid: Pid) -> Option<u64> {
    let handle = Pidfd::open(pid).ok()?;
    // SAFETY: all-zero is valid; the call writes no more than the size.
    unsafe {
        let mut found: PROCESS_MEMORY_COUNTERS = std::mem::zeroed();
        let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
        super::done(GetProcessMemoryInfo(handle.as_raw_handle(), &raw mut found, size)).ok()?;
        Some(found.WorkingSetSize as u64)
    }
}

/// The same.
#[must_use]
pub fn resident_of(pid: Pid) -> Option<u64> {
    memory_of(pid)
}

/// How many handles a process has open.
#[must_use]
pub fn open_files_of(pid: Pid) -> Option<usize> {
    let handle = Pidfd::open(pid).ok()?;
    let mut count = 0;
    // SAFETY: the handle is open, and the number is ours.
    super::done(unsafe { GetProcessHandleCount(handle.as_raw_handle(), &raw mut count) }).ok()?;
    Some(count as usize)
}

/// Whether a process belongs to the user that this one acts for. Not if that cannot be read.
#[must_use]
pub fn is_own(pid: Pid) -> bool {
    Pidfd::open_to_query(pid).and_then(|handle| super::private::is_own_process(handle.as_handle())).unwrap_or(false)
}

/// Whether a process is in any job; `None` if that cannot be read.
#[must_use]
pub fn is_in_job(pid: Pid) -> Option<bool> {
    let handle = Pidfd::open_to_query(pid).ok()?;
    let mut is_in = 0;
    // SAFETY: the handle is open, and the answer is ours. No job means any.
    super::done(unsafe { IsProcessInJob(handle.as_raw_handle(), std::ptr::null_mut(), &raw mut is_in) }).ok()?;
    Some(is_in != 0)
}

/// From the year 1601 to 1970.
const TO_UNIX: Duration = Duration::from_secs(11_644_473_600);

/// How long ago a process was made.
#[must_use]
pub fn age_of(start: StartTime) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()? + TO_UNIX;
    Some(now.saturating_sub(since_1601(start)))
}

fn since_1601(StartTime(start): StartTime) -> Duration {
    Duration::from_micros(start / 10)
}

/// How long this machine has been running.
#[must_use]
pub fn uptime() -> Option<Duration> {
    Some(crate::clock::since_boot())
}

/// How long this machine had been running when a process was made.
#[must_use]
pub fn since_boot(start: StartTime) -> Duration {
    crate::clock::since_boot().saturating_sub(age_of(start).unwrap_or_default())
}

/// There are no pid namespaces.
#[must_use]
pub fn namespace_has_process(_: u64, _: StartTime) -> bool {
    true
}

/// There are no control groups.
#[must_use]
pub fn group_of(_: Pid) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_the_c_runtime_does() {
        assert_eq!(
            split(r#""C:\a b\p.exe" x "" "y z" \"q\" c\d\\ "#),
            ["C:\\a b\\p.exe", "x", "", "y z", "\"q\"", "c\\d\\\\"]
        );
    }

    #[test]
    fn this_process_is_listed_and_uses_memory() {
        let stat = Stat::of(crate::process::getpid()).expect("listed");
        assert!(memory_of(stat.pid).is_some_and(|bytes| bytes > 0));
        let own: Vec<String> = std::env::args().collect();
        assert_eq!(command_in_memory_of(stat.pid)[1..], own[1..]);
        assert_eq!(command_line_in_memory(stat.pid).map(|line| split(&line)[1..].to_vec()), Some(own[1..].to_vec()));
        assert!(is_own(stat.pid));
        assert!(age_of(stat.start).is_some_and(|age| age < Duration::from_secs(3600)));
    }
}
