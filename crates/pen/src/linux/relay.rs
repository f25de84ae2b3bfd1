//! What front and guard tell each other, over a socket pair that keeps messages apart.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nostray_sys::process::Pid;
use nostray_sys::signal::{Arrived, Signal, send_to_self_on_input};
use nostray_sys::stream::{Pipe, Sink, do_not_wait, read};

/// How often the child has been stopped. By it the guard recognises a SIGCONT that was meant for an earlier stop.
pub(crate) type Stops = i32;

/// A message between front and guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Front to guard: this arrived at the front, when it had followed so many stops of the child.
    Signal(Arrived, Stops),
    /// Guard to front: the child has been stopped by this signal; do as it does, so that the shell which waits
    /// for the front sees it.
    Stopped(Signal, Stops),
    /// Guard to front: the child runs again after so many stops, or has ended, so the front must not stay stopped.
    Continued(Stops),
    /// Front to guard: the front has read `Continued`, and runs.
    Runs(Stops),
    /// Guard to front, its first message: the guard's pid.
    Guard(Pid),
}

const SIZE: usize = 24;

impl Message {
    fn encode(self) -> [u8; SIZE] {
        let raw = |pid: Option<Pid>| pid.map_or(0, |pid| pid.as_raw_nonzero().get());
        let numbers = match self {
            Self::Signal(a, stops) => {
                // No sender attaches a zero, so it stands for no value.
                [1, a.signal.as_raw(), raw(a.sender), i32::from(a.from_kernel), a.value.unwrap_or(0), stops]
            }
            Self::Stopped(signal, stops) => [2, signal.as_raw(), 0, 0, 0, stops],
            Self::Guard(pid) => [3, raw(Some(pid)), 0, 0, 0, 0],
            Self::Continued(stops) => [4, 0, 0, 0, 0, stops],
            Self::Runs(stops) => [5, 0, 0, 0, 0, stops],
        };
        let mut bytes = [0; SIZE];
        for (slot, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            slot.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.chunks_exact(4).map(|b| i32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        let mut next = || numbers.next();
        let (tag, first, second, flag, value) = (next()?, next()?, next()?, next()?, next()?);
        let stops = next()?;
        let pid = |number: i32| if number > 0 { Pid::from_raw(number) } else { None };
        match tag {
            1 => {
                let signal = Signal::from_raw(first)?;
                let value = (value != 0).then_some(value);
                Some(Self::Signal(Arrived { signal, sender: pid(second), from_kernel: flag != 0, value }, stops))
            }
            2 => Signal::from_raw(first).map(|signal| Self::Stopped(signal, stops)),
            3 => pid(first).map(Self::Guard),
            4 => Some(Self::Continued(stops)),
            5 => Some(Self::Runs(stops)),
            _ => None,
        }
    }
}

/// What a look at the connection found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This was sent.
    Message(Message),
    /// Nothing waits.
    Nothing,
    /// The other side is gone, and nothing will ever come.
    Closed,
}

/// One end of the connection. Spare and guard have the same one: the spare reads from it only after the guard
/// is gone.
#[derive(Debug)]
pub(crate) struct Relay {
    messages: OwnedFd,
    /// A pipe from guard to front. **What comes through it continues a front that is stopped**, and so does its end, when spare and guard
    /// are gone. The kernel sends the SIGCONT, since a guard in a pid namespace of its own cannot signal the front. It is not the socket,
    /// since the message to stop must not undo the stop.
    wake: OwnedFd,
}

impl Relay {
    /// The front's end, in the front, and the guard's.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (front, guard) = nostray_sys::descriptors::message_pair()?;
        let wake = Pipe::new()?;
        do_not_wait(&wake.reader)?;
        do_not_wait(&wake.writer)?;
        send_to_self_on_input(wake.reader.as_fd(), Signal::CONT)?;
        Ok((Self { messages: front, wake: wake.reader }, Self { messages: guard, wake: wake.writer }))
    }

    /// Sends without waiting. A peer that is gone or that has stopped reading is noticed elsewhere.
    pub(crate) fn send(&self, message: Message) {
        nostray_sys::descriptors::send_message(self.messages.as_fd(), &message.encode()).ok();
        if let Message::Continued(_) = message {
            Sink::OwnPipe.write(self.wake.as_fd(), &[0]).ok();
        }
    }

    /// What waits to be read.
    pub(crate) fn next(&self) -> Next {
        let mut bytes = [0; SIZE];
        match nostray_sys::descriptors::receive_message(self.messages.as_fd(), &mut bytes) {
            Ok(0) => Next::Closed,
            Ok(n) => {
                let message = Message::decode(&bytes[..n]);
                if let Some(Message::Continued(_)) = message {
                    read(&self.wake, &mut [0; 64]).ok(); // drained, or it would fill up
                }
                message.map_or(Next::Nothing, Next::Message)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Next::Nothing,
            Err(_) => Next::Closed,
        }
    }
}

impl AsFd for Relay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.messages.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        let (front, guard) = Relay::pair().expect("pair");
        let pid = Pid::from_raw(77);
        for message in [
            Message::Signal(Arrived { signal: Signal::TERM, sender: pid, from_kernel: false, value: Some(7) }, 3),
            Message::Signal(Arrived { signal: Signal::HUP, sender: None, from_kernel: true, value: None }, 0),
            Message::Stopped(Signal::TSTP, 9),
            Message::Continued(2),
            Message::Runs(4),
            Message::Guard(pid.expect("positive")),
        ] {
            front.send(message);
            assert_eq!(guard.next(), Next::Message(message));
        }
        assert_eq!(guard.next(), Next::Nothing);
        drop(front);
        assert_eq!(guard.next(), Next::Closed);
    }

    #[test]
    fn a_reader_that_never_reads_does_not_block_the_sender() {
        let (front, _guard) = Relay::pair().expect("pair");
        for _ in 0..10_000 {
            front.send(Message::Stopped(Signal::TSTP, 1));
        }
    }
}
