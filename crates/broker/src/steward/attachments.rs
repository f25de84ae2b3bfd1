//! The sessions that hold the child: one session_id each.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use nostray_registry::Lease;
use nostray_supervise::wire::{ToFront, control_line};
use nostray_supervise::{LineChannel, Outbox};
use nostray_sys::Pidfd;
use nostray_sys::local;
use nostray_sys::stream::Sink;

use crate::router::SessionId;

/// One session.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) session_id: SessionId,
    pub(super) channel: LineChannel,
    pub(super) lease: Lease,
    pub(super) linger: Duration,
    pub(super) inbound: Inbound,
    /// It has been told that the child waits for its slot.
    pub(super) knows_of_slot: bool,
    /// Whose session it is.
    pub(super) host: Option<Pidfd>,
    /// What is to be written with the rest of what is being read.
    pub(super) out: Vec<u8>,
    /// It says nothing more; until then what it has asked may be answered.
    pub(super) leaves_at: Option<Instant>,
    /// It is to be seen off, and why.
    pub(super) gone: Option<String>,
}

/// Whether what a session says is for the child that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inbound {
    /// It is.
    Routed,
    /// It was said before the session knew that the child is gone, and goes back.
    GivenBack,
    /// It goes back, and the session to a child that was told this, for this reason.
    Redirected { variant: String, why: String },
}

impl Attachment {
    pub(super) fn new(
        session_id: SessionId,
        connection: OwnedFd,
        lease: Lease,
        linger: Duration,
        max_line: usize,
    ) -> std::io::Result<Self> {
        local::make_room(connection.as_fd());
        let to = Outbox::new(Sink::Socket);
        let channel = LineChannel::new(local::again(&connection)?, connection, to, max_line);
        Ok(Self {
            session_id,
            channel,
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

    pub(super) fn tell(&mut self, word: &ToFront) {
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
        if !self.out.is_empty() {
            self.channel.write(&self.out);
            self.out.clear();
            self.out.shrink_to(4 << 10);
        }
    }

    pub(super) fn front(&self) -> i32 {
        self.lease.front.pid
    }
}

/// All of them, each under a small number by which it is waited for.
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

    /// With the numbers by which they are waited for.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Attachment)> {
        self.places.iter().enumerate().filter_map(|(at, attachment)| Some((at, attachment.as_ref()?)))
    }

    pub(super) fn at(&mut self, number: usize) -> Option<&mut Attachment> {
        self.places.get_mut(number)?.as_mut()
    }

    pub(super) fn of(&mut self, session_id: SessionId) -> Option<&mut Attachment> {
        self.all_mut().find(|attachment| attachment.session_id == session_id)
    }

    /// Takes out those who have gone.
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

    /// Their connections, which nobody else must keep open, and what else is open for them.
    pub(super) fn connections(&self) -> Vec<BorrowedFd<'_>> {
        let hosts = self.all().filter_map(|attachment| attachment.host.as_ref().map(AsFd::as_fd));
        self.all().flat_map(|attachment| attachment.channel.file_descriptors()).chain(hosts).collect()
    }
}
