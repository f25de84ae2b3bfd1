//! The file descriptors that a host handed over, wanted and unwanted.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::FdFlags;

use crate::stream::unread;
use crate::{poll, startup, unix_peer};

/// What standard input is, as far as it can tell that the host is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StdinKind {
    /// A pipe, with the number by which all its ends are known.
    Pipe(PipeId),
    /// A socket, as Node gives its children, with its inode.
    Socket(u64),
    /// A terminal.
    Terminal,
    /// A file, `/dev/null`, or closed: its end says nothing about the host.
    Mute,
}

/// Names one pipe on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeId {
    device: u64,
    inode: u64,
}

/// Looks at standard input.
#[must_use]
pub fn stdin_kind() -> StdinKind {
    if startup::was_closed(0) {
        return StdinKind::Mute;
    }
    let stdin = standard_input();
    if rustix::termios::isatty(stdin) {
        return StdinKind::Terminal;
    }
    let Ok(stat) = fstat(stdin) else { return StdinKind::Mute };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => StdinKind::Pipe(PipeId { device: stat.st_dev, inode: stat.st_ino }),
        FileType::Socket => StdinKind::Socket(stat.st_ino),
        _ => StdinKind::Mute,
    }
}

/// Waits until something can be read from standard input, or the time is over; false if its end has come before any byte. A terminal
/// is a person, and counts as its end. Nothing is read.
#[must_use]
pub fn stdin_has_something_to_say(within: std::time::Duration) -> bool {
    let stdin = standard_input();
    match stdin_kind() {
        StdinKind::Terminal => false,
        StdinKind::Mute => unread(stdin).is_some_and(|bytes| bytes > 0),
        StdinKind::Pipe(_) | StdinKind::Socket(_) => {
            let is_readable = poll::wait(&[(stdin, poll::Until::Readable)], Some(within)).is_ok_and(|fired| fired[0]);
            !is_readable || unread(stdin).is_none_or(|bytes| bytes > 0)
        }
    }
}

impl PipeId {
    /// Whether a process holds an end of this pipe that can be written to; `None` where its descriptors are
    /// not ours to look at.
    #[must_use]
    pub fn is_written_by(self, pid: crate::Pid) -> Option<bool> {
        let link = format!("pipe:[{}]", self.inode);
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).ok()? {
            let entry = entry.ok()?;
            if std::fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == link.as_str()) {
                let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().display());
                let flags = std::fs::read_to_string(info).ok()?;
                let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"))?;
                let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
                if can_write(OFlags::from_bits_retain(flags)) {
                    return Some(true);
                }
            }
        }
        Some(false)
    }
}

fn can_write(flags: OFlags) -> bool {
    matches!(flags & OFlags::ACCMODE, OFlags::WRONLY | OFlags::RDWR)
}

/// How many files this process may have open at once, and how many of them are not open yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The limit (`ulimit -n`).
    pub limit: u64,
    /// How many more.
    pub free: u64,
}

impl Room {
    /// For a process that has opened nothing of its own yet.
    #[must_use]
    pub fn now() -> Self {
        Inherited::take().map_or_else(|_| Self { limit: limit(), free: 0 }, |inherited| inherited.room())
    }
}

pub(crate) fn limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many files a process may have open, by the limit that can be raised (`ulimit -Sn`).
#[derive(Clone, Copy, Debug)]
pub struct FileLimit(rustix::process::Rlimit);

impl FileLimit {
    /// Raises the limit of this process as far as that goes without privileges. Returns the limit as it was.
    #[must_use]
    pub fn raise() -> Self {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let before = getrlimit(Resource::Nofile);
        // Where that is not allowed, what there is has to do.
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before }).ok();
        Self(before)
    }

    /// Sets the limit of this process to what it was.
    pub fn restore(&self) {
        // To lower it is always allowed.
        rustix::process::setrlimit(rustix::process::Resource::Nofile, self.0).ok();
    }
}

/// The open descriptors above 2 that came over `execve`, to be given to the child and held by no other process.
#[derive(Debug, Clone)]
pub struct Inherited(Vec<RawFd>);

impl Inherited {
    /// Takes stock. What is marked close-on-exec did not come over `execve`: this process has opened it.
    pub fn take() -> io::Result<Self> {
        let mut found = Vec::new();
        if has_only_standard_streams() {
            return Ok(Self(found));
        }
        let directory = rustix::fs::open(
            "/proc/self/fd",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let own = directory.as_raw_fd();
        for entry in rustix::fs::Dir::new(directory)? {
            if let Some(fd) = entry?.file_name().to_str().ok().and_then(|name| name.parse().ok())
                && fd > 2
                && fd != own
                && !is_close_on_exec(fd)
            {
                found.push(fd);
            }
        }
        Ok(Self(found))
    }

    /// How many more files can be open, now that these and the first three are.
    #[must_use]
    pub fn room(&self) -> Room {
        let limit = limit();
        let open = self.0.iter().filter(|fd| u64::try_from(**fd).is_ok_and(|fd| fd < limit)).count();
        Room { limit, free: limit.saturating_sub(open as u64 + 3) }
    }

    /// Closes the descriptors that write into our own standard input. A host that does not mark its end close-on-exec
    /// hands it down to us, and while we held it the end of file would never come.
    pub fn close_own_stdin_writers(&mut self, stdin: StdinKind) {
        let is_writer: Box<dyn Fn(BorrowedFd<'_>) -> bool> = match stdin {
            StdinKind::Pipe(pipe) => Box::new(move |fd| {
                fstat(fd).is_ok_and(|s| PipeId { device: s.st_dev, inode: s.st_ino } == pipe)
                    && fcntl_getfl(fd).is_ok_and(can_write)
            }),
            StdinKind::Socket(inode) => {
                let is_socket = |fd: &RawFd| {
                    fstat(borrow(*fd)).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Socket)
                };
                if !self.0.iter().any(is_socket) {
                    return;
                }
                let Some(peer) = unix_peer::peer_inode(inode) else { return };
                Box::new(move |fd| fstat(fd).is_ok_and(|s| s.st_ino == u64::from(peer)))
            }
            StdinKind::Terminal | StdinKind::Mute => return,
        };
        self.0.retain(|&fd| {
            let leaked = is_writer(borrow(fd));
            if leaked {
                close(fd);
            }
            !leaked
        });
    }

    /// Closes them all in this process. Once the child has its copies, front and guard must not hold any: who
    /// waits for the end of such a file waits for the child, not for us.
    pub fn close_all(&self) {
        for &fd in &self.0 {
            close(fd);
        }
    }
}

/// Whether nothing is open but 0, 1 and 2, which are always. Since Linux 6.2 the size of the folder is the number of open files; before, it is
/// zero. Listing them takes eight times as long.
fn has_only_standard_streams() -> bool {
    rustix::fs::stat("/proc/self/fd").is_ok_and(|folder| folder.st_size == 3)
}

fn is_close_on_exec(fd: RawFd) -> bool {
    rustix::io::fcntl_getfd(borrow(fd)).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC))
}

/// Takes over a descriptor that the host handed down to this process and not to its child: to be written to, and not passed on to
/// programs.
pub fn own_inherited_writer(number: RawFd) -> io::Result<OwnedFd> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    if number < 3 {
        return Err(invalid("0, 1 and 2 are the child's"));
    }
    // Nothing else has been opened yet, so the number is the host's or nothing.
    if is_close_on_exec(number) || !can_write(fcntl_getfl(borrow(number))?) {
        return Err(invalid("the host has not opened it for writing"));
    }
    let taken = rustix::io::fcntl_dupfd_cloexec(borrow(number), 3)?;
    close(number);
    Ok(taken)
}

fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the number was found open in this process's table, and nothing else in this program knows of
    // it, so it is not closed while it is looked at.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Calls a function with a descriptor of this number, which may be closed by now: the kernel then says so.
pub(crate) fn with_number<T>(fd: RawFd, call: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    call(borrow(fd))
}

fn close(fd: RawFd) {
    // SAFETY: found open in this process's table and owned by nothing else in this program.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

/// `/dev/null`, not passed on to programs.
pub fn null() -> io::Result<OwnedFd> {
    Ok(File::options().read(true).write(true).open("/dev/null")?.into())
}

/// Puts `/dev/null` in the place of standard input or output, so that this process keeps no end of the host's
/// pipes and nothing opened later gets their numbers by chance.
pub fn replace_with_null(stdin: bool, stdout: bool) -> io::Result<()> {
    let null = null()?;
    if stdin {
        rustix::stdio::dup2_stdin(null.as_fd())?;
    }
    if stdout {
        rustix::stdio::dup2_stdout(null.as_fd())?;
    }
    Ok(())
}

/// In a forked process that uses nothing of what it has got: closes all of it, but keeps 0, 1 and 2 from being given to others.
pub(crate) fn let_go_of_everything() {
    if let Ok(null) = null() {
        rustix::stdio::dup2_stdin(null.as_fd()).ok();
        rustix::stdio::dup2_stdout(null.as_fd()).ok();
        rustix::stdio::dup2_stderr(null.as_fd()).ok();
    }
    // SAFETY: values that own one of these are never used or dropped again: the caller runs a function that knows of none of
    // them, and ends the process.
    // Not every C library has a function for the system call.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// In a forked process: replaces its standard input, output and error by these.
pub fn become_stdio(stdin: &OwnedFd, stdout: &OwnedFd, stderr: &OwnedFd) -> io::Result<()> {
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)?;
    startup::nothing_was_closed();
    Ok(())
}

/// Takes over what is the standard input, and puts `/dev/null` in its place.
pub fn own_stdin() -> io::Result<OwnedFd> {
    let taken = rustix::io::fcntl_dupfd_cloexec(standard_input(), 3)?;
    replace_with_null(true, false)?;
    Ok(taken)
}

/// The standard input, which this process never closes. Not by way of the standard library, which has a buffer for it: eight
/// kilobytes in each process of a pen.
#[must_use]
pub fn standard_input() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// The standard error, which this process never closes.
#[must_use]
pub fn standard_error() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

/// Makes this the standard error.
pub fn become_stderr(file: &OwnedFd) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(file)?)
}

/// In the child, just before it becomes the program: closes what the host had closed of 0, 1 and 2, which
/// Rust's runtime filled with `/dev/null`.
pub fn close_what_was_closed() {
    for fd in 0..3u8 {
        if startup::was_closed(fd) {
            close(fd.into());
        }
    }
}

/// Closes what another process of ours goes on to use, in a forked process that **never returns to the code that owns it**.
pub fn close_for_good(fd: BorrowedFd<'_>) {
    close(fd.as_raw_fd());
}

/// Writes one line to standard error, or nothing if it would have to wait: a guard must not hang because its host has stopped
/// reading. The line is cut to what a pipe takes in one piece, and escaped, so that it stays one line: it may quote a
/// child.
pub fn write_to_stderr_at_once(line: &str) {
    let mut line = crate::text::escaped(line.trim_end_matches('\n')).into_owned().into_bytes();
    line.truncate(libc::PIPE_BUF - 1);
    line.push(b'\n');
    write_bytes_to_stderr_at_once(&line);
}

/// Writes over the line at which the cursor stands, on the terminal that standard error is; or nothing if it would have to wait. An empty
/// text clears the line.
pub fn overwrite_line_on_stderr(text: &str) {
    let width = terminal_width(io::stderr()).unwrap_or(80).saturating_sub(1);
    // A line that wraps would be left behind when the next one is written over it.
    let text: String = crate::text::escaped(text).chars().take(width).collect();
    write_bytes_to_stderr_at_once(format!("\r\x1b[K{text}").as_bytes());
}

fn write_bytes_to_stderr_at_once(line: &[u8]) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::{Errno, ReadWriteFlags, pwritev2, write};
    /// Where the file stands, as for `write`.
    const HERE: u64 = u64::MAX;
    let stderr = io::stderr();
    let written = pwritev2(&stderr, &[io::IoSlice::new(line)], HERE, ReadWriteFlags::NOWAIT);
    // A terminal or a file: polling it first is enough. Everywhere else the line was written, or has no reader.
    if let Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::SPIPE) = written {
        let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
        let ready = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0);
        if ready && fds[0].revents().contains(PollFlags::OUT) {
            write(&stderr, line).ok();
        }
    }
}

/// A file in memory with these bytes, to be read from its beginning.
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::{Seek, Write};
    let mut file = File::from(rustix::fs::memfd_create("nostray", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// Two connected sockets that keep messages apart, never wait, and are not passed on to programs.
pub fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Sends one message over such a socket.
pub fn send_message(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    rustix::net::send(socket, bytes, rustix::net::SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives one message from such a socket; zero bytes when the other side is closed.
pub fn receive_message(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let (_, n) = rustix::net::recv(socket, buffer, rustix::net::RecvFlags::empty())?;
    Ok(n)
}

/// The process that made the socket (pair) which is our standard input.
#[must_use]
pub fn maker_of_stdin_socket() -> Option<crate::Pid> {
    rustix::net::sockopt::socket_peercred(standard_input()).ok().map(|credentials| credentials.pid)
}

/// For opening a file that may be a pipe, without waiting for a process at its other end, and for writing to it likewise.
pub const DO_NOT_WAIT: i32 = libc::O_NONBLOCK | libc::O_NOCTTY;

/// A log file, to be added to, made if it is missing. Never blocking: a pipe without a reader is refused, and a full pipe loses messages
/// instead of blocking the guard.
pub fn open_log(path: &std::path::Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options().create(true).append(true).custom_flags(DO_NOT_WAIT).open(path)
}

/// For opening a file that another user may have put there: not through a link, and without waiting if it is a pipe.
pub const NO_FOLLOW_AND_DO_NOT_WAIT: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its width; zero if the terminal does not know it.
    pub columns: usize,
    /// Its height; zero if the terminal does not know it.
    pub rows: usize,
}

/// The size of a terminal, if it is one.
#[must_use]
pub fn terminal_size(terminal: impl AsFd) -> Option<TerminalSize> {
    let size = rustix::termios::tcgetwinsize(terminal).ok()?;
    Some(TerminalSize { columns: usize::from(size.ws_col), rows: usize::from(size.ws_row) })
}

/// The number of columns of a terminal, if it is one and knows that.
#[must_use]
pub fn terminal_width(terminal: impl AsFd) -> Option<usize> {
    terminal_size(terminal).map(|size| size.columns).filter(|columns| *columns > 0)
}
