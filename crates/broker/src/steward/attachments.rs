//! The sessions that are attached to the child.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_registry::Lease;
use nostray_supervise::wire::{ToFront, control_line};
use nostray_supervise::{LineChannel, Protocol, StewardEnd};
use nostray_sys::Pidfd;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::stream::two_ways;

use crate::router::SessionId;

/// What is gathered for one reader is written beyond this, which fits into a pipe.
pub(super) const GATHERED: usize = 60 << 10;

/// What waits for a host that goes by the shortcut.
const MAX_WAITING: usize = 256 << 10;

/// One attached session.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) session_id: SessionId,
    pub(super) channel: LineChannel,
    /// By which descriptors come.
    connection: OwnedFd,
    pub(super) shortcut: Option<Shortcut>,
    pub(super) lease: Lease,
    pub(super) linger: Duration,
    pub(super) inbound: Inbound,
    /// It has been told that the child waits for its slot.
    pub(super) knows_of_slot: bool,
    /// The host of the session, and a handle on it.
    pub(super) host: Option<(Identity, Pidfd)>,
    /// What is to be written with the rest of what is being read.
    pub(super) out: Vec<u8>,
    /// It has closed its output; until then its calls in flight may be answered.
    pub(super) leaves_at: Option<Instant>,
    /// It is to be detached, and why.
    pub(super) gone: Option<String>,
}

/// The host's own streams, by which the session goes: see [`StewardEnd`].
#[derive(Debug)]
pub(super) struct Shortcut {
    pub(super) number: u64,
    /// Nothing until the front has handed them over. Nothing is said to it until then.
    pub(super) end: Option<Box<StewardEnd>>,
}

/// Where the lines of a session go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inbound {
    /// To the current child.
    Routed,
    /// Back to the session: it does not know yet that the child is gone.
    GivenBack,
    /// Back to the session, which is sent to another child, of this variant, for this reason.
    Redirected { variant: String, why: String },
}

impl Attachment {
    /// Tells a session that it is welcome, and how to go on.
    pub(super) fn new(
        session_id: SessionId,
        connection: OwnedFd,
        welcome: &ToFront,
        lease: Lease,
        linger: Duration,
        max_line: usize,
    ) -> std::io::Result<Self> {
        let [ours, theirs] = two_ways()?;
        let handed = [theirs.writer.as_fd(), theirs.reader.as_fd()];
        local::send_with(connection.as_fd(), &control_line(welcome), &handed)?;
        Ok(Self {
            session_id,
            channel: LineChannel::new(ours, max_line),
            connection,
            shortcut: None,
            lease,
            linger,
            inbound: Inbound::Routed,
            knows_of_slot: false,
            host: None,
            out: Vec::new(),
            leaves_at: None,
            gone: None,
        })
    }

    /// Says nothing more to the front until its shortcut begins.
    pub(super) fn wait_for_shortcut(&mut self, number: u64) {
        self.end_shortcut();
        self.tell(&ToFront::ShortcutMayBegin(number));
        self.shortcut = Some(Shortcut { number, end: None });
    }

    /// Takes the shortcut that the front has opened. One that cannot be used is given back at once.
    pub(super) fn begin_shortcut(&mut self, number: u64, protocol: Protocol, max_line: usize) {
        let mut handed = Vec::new();
        local::receive_with(self.connection.as_fd(), &mut [0], &mut handed).ok();
        let Some(shortcut) = self.shortcut.as_mut().filter(|shortcut| shortcut.number == number) else { return };
        shortcut.end = StewardEnd::take(handed, protocol, max_line).map(Box::new);
        if shortcut.end.is_none() {
            self.end_shortcut();
        }
        // What was said meanwhile.
        for line in std::mem::take(&mut self.out).split_inclusive(|byte| *byte == b'\n') {
            let from = self.out.len();
            self.out.extend_from_slice(line);
            self.has_gathered(from);
        }
    }

    /// The host takes more.
    pub(super) fn go_on_by_shortcut(&mut self) {
        if let Some(end) = self.shortcut.as_mut().and_then(|shortcut| shortcut.end.as_mut())
            && end.go_on(&mut self.out).is_err()
        {
            self.end_shortcut();
        }
        self.flush();
    }

    /// The front says nothing more. One that has handed the host's streams over ends without a word if it is killed, and the host must see
    /// them close.
    pub(super) fn front_is_silent(&mut self) {
        self.shortcut = None;
        local::receive_with(self.connection.as_fd(), &mut [0], &mut Vec::new()).ok();
    }

    /// Gives the host's streams back to the front.
    pub(super) fn end_shortcut(&mut self) {
        if let Some(Shortcut { number, .. }) = self.shortcut.take() {
            self.channel.write(&control_line(&ToFront::ShortcutOver(number)));
        }
    }

    /// The host's own streams, if the session goes by them.
    pub(super) fn shortcut_end(&mut self) -> Option<&mut StewardEnd> {
        self.shortcut.as_mut()?.end.as_deref_mut()
    }

    /// The rest of what is to be written, from there on, is a line. If it is not a usual one, the session goes by the front again.
    pub(super) fn has_gathered(&mut self, from: usize) {
        let end = self.out.len();
        if let Some(shortcut) = self.shortcut.as_mut().and_then(|shortcut| shortcut.end.as_mut())
            && !shortcut.passes(self.out[from..].trim_ascii_end(), end)
        {
            self.end_shortcut();
        }
    }

    /// How much waits for the session.
    pub(super) fn pending_bytes(&self) -> usize {
        self.channel.pending_bytes() + self.out.len()
    }

    pub(super) fn tell(&mut self, word: &ToFront) {
        self.end_shortcut();
        self.flush();
        self.channel.write(&control_line(word));
    }

    /// Gives back a line that no child has got.
    pub(super) fn give_back(&mut self, text: &[u8]) {
        self.tell(&ToFront::Back);
        self.channel.write(&[text, b"\n"].concat());
    }

    /// Writes what has been gathered.
    pub(super) fn flush(&mut self) {
        if let Some(Shortcut { end, .. }) = &mut self.shortcut {
            let is_written = end.as_mut().is_none_or(|end| end.write(&mut self.out).is_ok());
            if is_written && self.out.len() <= MAX_WAITING {
                return;
            }
            // The host reads no more, or more slowly than is good for the others.
            self.end_shortcut();
        }
        if !self.out.is_empty() {
            self.channel.write(&self.out);
            self.out.clear();
            self.out.shrink_to(GATHERED);
        }
    }

    /// Whether the host of the session has ended or is on its way out.
    pub(super) fn host_is_ending(&self) -> bool {
        self.host.as_ref().is_some_and(|(host, _)| host.is_ending())
    }

    pub(super) fn front(&self) -> i32 {
        self.lease.front.pid
    }
}

/// All attached sessions, each at a small index, by which it is polled.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    places: Vec<Option<Attachment>>,
    count: usize,
}

impl Attachments {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn add(&mut self, attachment: Attachment) {
        self.count += 1;
        match self.places.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(attachment),
            None => self.places.push(Some(attachment)),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Attachment> {
        self.places.iter().flatten()
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Attachment> {
        self.places.iter_mut().flatten()
    }

    /// With their indexes.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Attachment)> {
        self.places.iter().enumerate().filter_map(|(at, attachment)| Some((at, attachment.as_ref()?)))
    }

    pub(super) fn at(&mut self, number: usize) -> Option<&mut Attachment> {
        self.places.get_mut(number)?.as_mut()
    }

    pub(super) fn of(&mut self, session_id: SessionId) -> Option<&mut Attachment> {
        self.all_mut().find(|attachment| attachment.session_id == session_id)
    }

    /// Takes out the sessions that are to be detached.
    pub(super) fn take_gone(&mut self) -> Vec<Attachment> {
        let mut gone = Vec::new();
        for place in &mut self.places {
            if place.as_ref().is_some_and(|attachment| attachment.gone.is_some()) {
                gone.extend(place.take());
            }
        }
        self.count -= gone.len();
        gone
    }

    /// The file descriptors of all sessions. No other process may keep them open.
    pub(super) fn connections(&self) -> Vec<BorrowedFd<'_>> {
        let hosts = self.all().filter_map(|attachment| attachment.host.as_ref().map(|(_, handle)| handle.as_fd()));
        let shortcuts = self.all().filter_map(|attachment| attachment.shortcut.as_ref()?.end.as_ref());
        let connections = self.all().map(|attachment| attachment.connection.as_fd());
        self.all()
            .flat_map(|attachment| attachment.channel.file_descriptors())
            .chain(shortcuts.flat_map(|shortcut| shortcut.file_descriptors()))
            .chain(connections)
            .chain(hosts)
            .collect()
    }
}
