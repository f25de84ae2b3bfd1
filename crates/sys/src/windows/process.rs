//! This process, and how processes end.

use std::fmt;
use std::num::NonZeroI32;

use windows_sys::Win32::System::Threading::{GetCurrentProcessId, GetProcessTimes};

use crate::pidfd::Pidfd;
use crate::proc::Stat;

/// What a program ends with.
pub type Code = u32;

/// The number of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pid(NonZeroI32);

impl Pid {
    /// The process with this number; zero is none.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Self> {
        NonZeroI32::new(number).map(Self)
    }

    /// The number.
    #[must_use]
    pub fn as_raw_nonzero(self) -> NonZeroI32 {
        self.0
    }

    /// As the calls of Windows have it.
    pub(crate) fn number(self) -> u32 {
        self.0.get().cast_unsigned()
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::from_raw(number.cast_signed())
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number().fmt(f)
    }
}

/// This process.
#[must_use]
pub fn getpid() -> Pid {
    // SAFETY: returns a number. No process has the number zero but the idle one.
    Pid::of_number(unsafe { GetCurrentProcessId() }).unwrap_or(Pid(NonZeroI32::MIN))
}

/// The process that started this one. It may have ended, and its number may be another process's by now.
#[must_use]
pub fn getppid() -> Option<Pid> {
    Stat::of(getpid())?.parent
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Exited(Code),
}

impl Ended {
    /// The code by which a program that stands in for it says so.
    #[must_use]
    pub fn shell_code(self) -> Code {
        let Self::Exited(code) = self;
        code
    }
}

/// From here on a code is a status of the kernel: an exception, or Ctrl-C.
const FIRST_STATUS: u32 = 0xC000_0000;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Exited(0xC000_0005) => write!(f, "ended by an access violation"),
            Self::Exited(0xC000_013A) => write!(f, "ended by Ctrl-C or Ctrl-Break"),
            Self::Exited(code @ FIRST_STATUS..) => write!(f, "ended with status {code:#x}"),
            Self::Exited(code) => write!(f, "exited with {code}"),
        }
    }
}

/// The processor time of a process, in nanoseconds.
#[must_use]
pub fn cpu_time(pid: Pid) -> Option<u64> {
    let [_, _, kernel, user] = Pidfd::open(pid).ok()?.times().ok()?;
    Some((kernel + user) * 100)
}

impl Pidfd {
    /// When it was made and ended, and the time that it was in the kernel and out of it: all in units of 100 ns.
    pub(crate) fn times(&self) -> std::io::Result<[u64; 4]> {
        use std::os::windows::io::AsRawHandle;
        use windows_sys::Win32::Foundation::FILETIME;
        let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
        let [made, ended, kernel, user] = &mut times;
        // SAFETY: the handle is open, and the four structures are ours.
        super::done(unsafe { GetProcessTimes(self.as_raw_handle(), made, ended, kernel, user) })?;
        Ok(times.map(|time| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)))
    }
}

/// The version of Windows, as `10.0.19045`.
#[must_use]
pub fn system_version() -> Option<String> {
    use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
    use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;
    // SAFETY: all-zero is valid; the structure says its own size, as the call wants it.
    unsafe {
        let mut found: OSVERSIONINFOW = std::mem::zeroed();
        found.dwOSVersionInfoSize = size_of::<OSVERSIONINFOW>() as u32;
        let told = RtlGetVersion(&raw mut found) >= 0;
        told.then(|| format!("{}.{}.{}", found.dwMajorVersion, found.dwMinorVersion, found.dwBuildNumber))
    }
}

/// A number that cannot be guessed.
#[must_use]
pub fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // The standard library has the keys of this from the system, and so no second source is linked. A new one for each number
    // would only be counted up, so time and process are hashed with it.
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u128(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos()));
    hasher.write_u32(getpid().number());
    hasher.finish()
}

/// Sets a variable of this process, which its children inherit. **For a process that does nothing else at this moment.**
pub fn set_variable(name: &str, value: &str) -> std::io::Result<()> {
    use windows_sys::Win32::System::Environment::SetEnvironmentVariableW;
    let (name, value) = (super::wide(name)?, super::wide(value)?);
    // SAFETY: both texts end with a zero. On Windows the call itself is safe with other threads.
    super::done(unsafe { SetEnvironmentVariableW(name.as_ptr(), value.as_ptr()) })
}
