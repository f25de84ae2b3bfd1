//! A job: the processes that were started in it and everything that they start. It ends with its last handle, and they with it.

use std::io;
use std::os::windows::io::{AsRawHandle, OwnedHandle, RawHandle};
use std::sync::Arc;

use windows_sys::Win32::Foundation::{ERROR_INVALID_PARAMETER, ERROR_MORE_DATA, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus};
use windows_sys::Win32::System::JobObjects::{
    CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOBOBJECT_ASSOCIATE_COMPLETION_PORT,
    JOBOBJECT_BASIC_ACCOUNTING_INFORMATION, JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectAssociateCompletionPortInformation,
    JobObjectBasicAccountingInformation, JobObjectBasicAndIoAccountingInformation, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject, TerminateJobObject,
};
use windows_sys::Win32::System::SystemServices::JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO;
use windows_sys::Win32::System::Threading::INFINITE;

use crate::named_event::Event;
use crate::{Pid, Pidfd};

/// A job of which this process has the only handle, which no child inherits. **When this process ends, in whatever way, the kernel closes
/// the handle and ends every process of the job.** No process can leave it: breakaway is not allowed.
#[derive(Debug)]
pub struct Job {
    job: OwnedHandle,
    port: Arc<OwnedHandle>,
}

impl Job {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: without attributes and names. The handles are not inherited.
        let (job, port) = unsafe {
            let job = super::owned(CreateJobObjectW(std::ptr::null(), std::ptr::null()))?;
            (job, super::owned(CreateIoCompletionPort(INVALID_HANDLE_VALUE, std::ptr::null_mut(), 0, 1))?)
        };
        let it = Self { job, port: Arc::new(port) };
        // SAFETY: all-zero is a valid value.
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { std::mem::zeroed() };
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        it.set(JobObjectExtendedLimitInformation, &limits)?;
        let told = JOBOBJECT_ASSOCIATE_COMPLETION_PORT {
            CompletionKey: std::ptr::null_mut(),
            CompletionPort: it.port.as_raw_handle(),
        };
        it.set(JobObjectAssociateCompletionPortInformation, &told)?;
        Ok(it)
    }

    fn set<T>(&self, what: i32, value: &T) -> io::Result<()> {
        let size = size_of::<T>() as u32;
        // SAFETY: the structure belongs to `what`, and is only read.
        super::done(unsafe {
            SetInformationJobObject(self.as_raw_handle(), what, std::ptr::from_ref(value).cast(), size)
        })
    }

    fn get<T>(&self, what: i32) -> io::Result<T> {
        // SAFETY: `T` is one of the system's structures of numbers, for which all-zero is valid; the call writes no more than its size.
        unsafe {
            let mut value: T = std::mem::zeroed();
            let to = (&raw mut value).cast();
            super::done(QueryInformationJobObject(
                self.as_raw_handle(),
                what,
                to,
                size_of::<T>() as u32,
                std::ptr::null_mut(),
            ))?;
            Ok(value)
        }
    }

    fn accounting(&self) -> io::Result<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION> {
        self.get(JobObjectBasicAccountingInformation)
    }

    /// How many processes it has.
    pub fn count(&self) -> io::Result<usize> {
        Ok(self.accounting()?.ActiveProcesses as usize)
    }

    /// Whether no process of it lives. The count alone may say for ever that there is one: if a process is ended inside of its
    /// `CreateProcess`, Wine (8) counts the new process, which has ended without ever having had a thread.
    pub fn is_empty(&self) -> io::Result<bool> {
        let before = self.accounting()?;
        if before.ActiveProcesses == 0 {
            return Ok(true);
        }
        let Some(members) = self.members()? else { return Ok(false) };
        // One that has ended since it was listed may have started another one before that.
        Ok(members.into_iter().all(has_ended) && self.accounting()?.TotalProcesses == before.TotalProcesses)
    }

    /// Its processes. `None` if there are very many.
    fn members(&self) -> io::Result<Option<Vec<Pid>>> {
        #[repr(C)]
        struct List {
            assigned: u32,
            listed: u32,
            numbers: [usize; 1024],
        }
        let found: List = match self.get(JobObjectBasicProcessIdList) {
            Err(error) if error.raw_os_error() == Some(ERROR_MORE_DATA.cast_signed()) => return Ok(None),
            found => found?,
        };
        if found.listed < found.assigned {
            return Ok(None);
        }
        let listed = found.numbers.iter().take(found.listed as usize);
        Ok(listed.map(|number| u32::try_from(*number).ok().and_then(Pid::of_number)).collect())
    }

    /// Everything that moves when a process of it does anything: processor time, bytes, processes. Equal to an earlier one: nothing has.
    pub fn activity(&self) -> io::Result<[u64; 6]> {
        let found: JOBOBJECT_BASIC_AND_IO_ACCOUNTING_INFORMATION =
            self.get(JobObjectBasicAndIoAccountingInformation)?;
        let (basic, moved) = (found.BasicInfo, found.IoInfo);
        let times = [basic.TotalUserTime.cast_unsigned(), basic.TotalKernelTime.cast_unsigned()];
        let bytes = [moved.ReadTransferCount, moved.WriteTransferCount, moved.OtherTransferCount];
        let [user, kernel] = times;
        let [read, written, other] = bytes;
        Ok([user, kernel, read, written, other, basic.TotalProcesses.into()])
    }

    /// Ends every process of it, with this code.
    pub fn terminate(&self, code: u32) -> io::Result<()> {
        // SAFETY: the handle is open.
        super::done(unsafe { TerminateJobObject(self.as_raw_handle(), code) })
    }

    /// An event that is set whenever the job has become empty. The kernel tells of it at a port, which cannot be waited for together with
    /// other things, so a thread waits there; it ends with the process.
    pub fn when_empty(&self) -> io::Result<Arc<Event>> {
        let event = Arc::new(Event::new()?);
        let (port, empty) = (Arc::clone(&self.port), Arc::clone(&event));
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
            loop {
                let (mut message, mut key, mut overlapped) = (0, 0, std::ptr::null_mut());
                // SAFETY: the port stays open as long as this thread has it; the three values are ours.
                let came = unsafe {
                    GetQueuedCompletionStatus(
                        port.as_raw_handle(),
                        &raw mut message,
                        &raw mut key,
                        &raw mut overlapped,
                        INFINITE,
                    )
                };
                if came == 0 {
                    return;
                }
                if message == JOB_OBJECT_MSG_ACTIVE_PROCESS_ZERO {
                    empty.set();
                }
            }
        })?;
        Ok(event)
    }
}

/// Whether the process of this number has ended. While any other one has the number, the answer is no.
fn has_ended(pid: Pid) -> bool {
    match Pidfd::open(pid) {
        Ok(handle) => handle.has_ended().unwrap_or(false),
        Err(error) => error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed()),
    }
}

impl AsRawHandle for Job {
    fn as_raw_handle(&self) -> RawHandle {
        self.job.as_raw_handle()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::exec::Program;
    use crate::poll::{self, AsFd, Until};

    fn start_in(job: &Job, words: &[&str]) -> (Pid, Pidfd) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        Program::new(&words, None).and_then(|program| program.start_in(job, true)).expect("started")
    }

    fn wait_for(process: &Pidfd) {
        poll::wait(&[(process.as_fd(), Until::Readable)], Some(Duration::from_secs(60))).expect("waited");
        assert!(process.has_ended().expect("known"));
    }

    #[test]
    #[ignore = "a process for the test below"]
    fn lives() {
        // The job ends it long before; without one it must not stay.
        std::thread::sleep(Duration::from_secs(120));
    }

    #[test]
    fn a_job_is_empty_before_its_first_process_and_after_its_last() {
        let job = Job::new().expect("made");
        assert!(job.is_empty().expect("known"));
        let this = std::env::current_exe().expect("known");
        let words = [this.to_str().expect("text"), "--ignored", "--exact", "windows::job::tests::lives"];
        let (pid, first) = start_in(&job, &words);
        let (_, second) = start_in(&job, &["cmd", "/c", "exit 3"]);
        wait_for(&second);
        assert!(!job.is_empty().expect("known"), "the first one lives");
        assert!(job.members().expect("known").is_some_and(|members| members.contains(&pid)));
        assert!(!has_ended(pid));
        job.terminate(1).expect("terminated");
        wait_for(&first);
        let until = Instant::now() + Duration::from_secs(60);
        while !job.is_empty().expect("known") {
            assert!(Instant::now() < until, "{:?}", job.members());
            std::thread::yield_now();
        }
        assert!(has_ended(pid), "there may be a handle on it, and it has ended");
    }
}
