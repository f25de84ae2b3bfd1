//! Waiting for events of the same few descriptors again and again. What is watched stays with the kernel from one wait to the
//! next, so that a wait costs the same however many there are; only what has changed is told.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::poll::Until;

/// What one descriptor is watched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    fd: RawFd,
    flags: EventFlags,
    /// Tells two descriptors apart that have the same number one after the other.
    stamp: u64,
    /// Files are always ready, and the kernel does not watch them.
    is_file: bool,
}

/// A set of descriptors, each under a name of its own: a small number.
pub struct Events {
    epoll: OwnedFd,
    watched: Vec<Option<Watched>>,
    wanted: Vec<Option<Watched>>,
    fired: Vec<Event>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").field("watched", &self.watched).finish_non_exhaustive()
    }
}

impl Events {
    /// None so far.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, watched: Vec::new(), wanted: Vec::new(), fired: Vec::with_capacity(16) })
    }

    /// From the next wait on, this is watched under this name. What is not wanted before a wait is not watched in it. The
    /// stamp is another one when the descriptor is another one, even if it has the same number.
    pub fn want(&mut self, name: usize, fd: BorrowedFd<'_>, until: Until, stamp: u64) {
        let flags = match until {
            Until::Readable => EventFlags::IN,
            Until::HungUp => EventFlags::RDHUP,
            Until::Writable => EventFlags::OUT,
            Until::Unheard => EventFlags::empty(),
        };
        if self.wanted.len() <= name {
            self.wanted.resize(name + 1, None);
            self.watched.resize(name + 1, None);
        }
        self.wanted[name] = Some(Watched { fd: fd.as_raw_fd(), flags, stamp, is_file: false });
    }

    /// Waits until something has come, or the time is over, and adds the names to `names`.
    pub fn wait(&mut self, timeout: Option<Duration>, names: &mut Vec<usize>) -> io::Result<()> {
        self.tell_the_kernel()?;
        let before = names.len();
        names.extend((0..self.watched.len()).filter(|name| self.watched[*name].is_some_and(|w| w.is_file)));
        let duration = if names.len() > before { Some(Duration::ZERO) } else { timeout };
        let timeout = duration.map(|t| Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        self.fired.clear();
        crate::memory::before_waiting(duration);
        match epoll::wait(&self.epoll, spare_capacity(&mut self.fired), timeout.as_ref()) {
            Ok(_) => names.extend(self.fired.iter().filter_map(|event| usize::try_from(event.data.u64()).ok())),
            // Stopped and continued: nothing has come, and the caller computes its timeout anew.
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        self.wanted.fill(None);
        Ok(())
    }

    fn tell_the_kernel(&mut self) -> io::Result<()> {
        let same = |a: &Option<Watched>, b: &Option<Watched>| match (a, b) {
            (Some(a), Some(b)) => (a.fd, a.flags, a.stamp) == (b.fd, b.flags, b.stamp),
            (a, b) => a.is_none() && b.is_none(),
        };
        if self.watched.iter().zip(&self.wanted).all(|(watched, wanted)| same(watched, wanted)) {
            return Ok(());
        }
        // First all that go: a number that is free again may be the next one's.
        let mut all_gone = true;
        for (watched, wanted) in self.watched.iter_mut().zip(&self.wanted) {
            if let Some(old) = watched
                && !same(&Some(*old), wanted)
            {
                all_gone &= old.is_file
                    || crate::descriptors::with_number(old.fd, |fd| epoll::delete(&self.epoll, fd)).is_ok();
                *watched = None;
            }
        }
        // A descriptor that was closed has left the set only if no other descriptor, of this process or another one, refers to the same
        // open file. Otherwise the set reports it for ever, and only a new set does not.
        if !all_gone && let Ok(new) = epoll::create(CreateFlags::CLOEXEC) {
            self.epoll = new;
            self.watched.fill(None);
        }
        for (name, (watched, wanted)) in self.watched.iter_mut().zip(&self.wanted).enumerate() {
            if let (None, Some(new)) = (&watched, wanted) {
                let data = EventData::new_u64(name as u64);
                let added =
                    crate::descriptors::with_number(new.fd, |fd| epoll::add(&self.epoll, fd, data, new.flags));
                *watched = match added {
                    Ok(()) => Some(*new),
                    Err(Errno::PERM) => Some(Watched { is_file: true, ..*new }),
                    Err(error) => return Err(error.into()),
                };
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Pipe;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn only_what_is_wanted_is_told_and_only_as_long() {
        let (pipe, mut events, mut names) = (Pipe::new().expect("pipe"), Events::new().expect("epoll"), Vec::new());
        events.want(0, pipe.reader.as_fd(), Until::Readable, 0);
        events.want(3, pipe.writer.as_fd(), Until::Writable, 0);
        events.wait(NOW, &mut names).expect("wait");
        assert_eq!(names, [3]);
        names.clear();
        File::from(pipe.writer.try_clone().expect("clone")).write_all(b"x").expect("write");
        events.want(0, pipe.reader.as_fd(), Until::HungUp, 0);
        events.wait(NOW, &mut names).expect("wait");
        assert_eq!(names, [] as [usize; 0], "data is not a hang-up, and the other was not wanted");
        drop(pipe.writer);
        events.want(0, pipe.reader.as_fd(), Until::HungUp, 0);
        // A process that another test has just forked may hold it for a moment, too.
        events.wait(Some(Duration::from_secs(10)), &mut names).expect("wait");
        assert_eq!(names, [0]);
    }

    #[test]
    fn another_descriptor_with_the_same_number_is_watched_anew() {
        let (mut events, mut names) = (Events::new().expect("epoll"), Vec::new());
        let mut numbers = Vec::new();
        for stamp in 0..3 {
            let pipe = Pipe::new().expect("pipe");
            numbers.push(pipe.reader.as_raw_fd());
            events.want(0, pipe.reader.as_fd(), Until::Readable, stamp);
            events.wait(NOW, &mut names).expect("wait");
            assert_eq!(names, [] as [usize; 0]);
            File::from(pipe.writer).write_all(b"x").expect("write");
            events.want(0, pipe.reader.as_fd(), Until::Readable, stamp);
            events.wait(NOW, &mut names).expect("wait");
            assert_eq!(names, [0]);
            names.clear();
        }
    }

    /// A connection that was handed to another process, or has a second descriptor, lives on when its number is closed.
    #[test]
    fn what_was_closed_is_watched_no_more_even_if_another_descriptor_has_it_open() {
        let (pipe, mut events, mut names) = (Pipe::new().expect("pipe"), Events::new().expect("epoll"), Vec::new());
        let other = Pipe::new().expect("pipe");
        let _copy = pipe.reader.try_clone().expect("clone");
        events.want(0, pipe.reader.as_fd(), Until::Readable, 0);
        events.want(1, other.reader.as_fd(), Until::Readable, 0);
        events.wait(NOW, &mut names).expect("wait");
        drop(pipe.reader);
        for writer in [pipe.writer, other.writer] {
            File::from(writer).write_all(b"x").expect("write");
        }
        for _ in 0..2 {
            names.clear();
            events.want(1, other.reader.as_fd(), Until::Readable, 0);
            events.wait(NOW, &mut names).expect("wait");
            assert_eq!(names, [1]);
        }
    }

    #[test]
    fn a_file_is_always_ready() {
        let (mut events, mut names) = (Events::new().expect("epoll"), Vec::new());
        let file = File::open("/proc/self/stat").expect("open");
        let null = File::open("/dev/null").expect("open");
        events.want(1, file.as_fd(), Until::Readable, 0);
        events.want(2, null.as_fd(), Until::Readable, 0);
        events.wait(None, &mut names).expect("wait");
        assert!(names.contains(&1) || names.contains(&2), "{names:?}");
    }
}
