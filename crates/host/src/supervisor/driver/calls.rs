//! The calls of a driver's leases: they wait for a child that listens, are in flight, and are answered, refused, cut off, or taken back
//! for the next child.

use std::collections::VecDeque;

use nostray_supervise::error_text::{Outlook, last_words};
use nostray_supervise::{Cause, MachineEvent as Event, State, Why};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Call, Driver};
use crate::supervisor::core::QueuedBytes;
use crate::supervisor::handlers::HandlerError;
use crate::supervisor::live::{Incoming, Live};
use crate::supervisor::wire::{self, Own};
use crate::{CallError, Handshake};

/// More than this on its way to the child, and calls wait.
const MAX_UNWRITTEN: usize = 4 << 20;

/// What waits for a child.
pub(super) enum Queued {
    Call(Call),
    Notification { line: Vec<u8>, _bytes: QueuedBytes },
}

impl Driver {
    /// Something waits for the child.
    pub(super) fn wake(&mut self) {
        match self.lifecycle.state() {
            State::Ended => self.core_is_over(),
            State::Stopping { why: Why::Stop, .. } => self.refuse(&Why::Stop.cause()),
            _ => {
                self.drive(Event::Demanded);
                self.send_queued();
            }
        }
    }

    /// As much as the child takes. The rest waits here, where it can be taken back.
    pub(super) fn send_queued(&mut self) {
        let is_there = matches!(self.lifecycle.state(), State::Starting(_) | State::Ready { .. });
        let can_hear = |live: &&mut Live| is_there && live.is_handshake_done && live.stdout.is_some();
        let Some(live) = self.live.as_mut().filter(can_hear) else { return };
        while live.out.len() < MAX_UNWRITTEN
            && let Some(waiting) = self.waiting.pop_front()
        {
            match waiting {
                Queued::Call(call) => {
                    live.say(&wire::request(call.id, &call.method, &call.params));
                    live.was_called = true;
                    self.in_flight.insert(call.id, call.answer);
                }
                Queued::Notification { line, .. } => live.say(&line),
            }
        }
    }

    /// Sends the next message of the handshake, or ends it.
    pub(super) fn go_on_with_handshake(&mut self) {
        let Some(live) = self.live.as_mut().filter(|live| !live.is_handshake_done) else { return };
        if let Some((method, params)) = live.handshake.pop_front() {
            let id = self.controls.core.number();
            live.handshake_request = Some(id);
            live.say(&wire::request(id, &method, &raw(&params)));
            return;
        }
        live.is_handshake_done = true;
        let handshake = &self.controls.core.spec.keeping.handshake;
        let was_asked = matches!(handshake, Handshake::Messages { .. });
        if let Handshake::Messages { notifications, .. } = handshake {
            for (method, params) in notifications {
                live.say(&wire::notification(method, &raw(params)));
            }
        }
        if was_asked {
            let effects = self.lifecycle.child_answered(self.now());
            self.perform(effects);
        }
        self.send_queued();
    }

    pub(super) fn on_incoming(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Answer { id, result } => {
                let Some(live) = &mut self.live else { return };
                let number = live.number;
                if live.handshake_request.take_if(|handshake_request| *handshake_request == id).is_some() {
                    return match result {
                        Ok(_) => self.go_on_with_handshake(),
                        Err(error) => {
                            self.lifecycle.stderr(format!("handshake refused: {error}\n").as_bytes());
                            self.drive(Event::BadStart(number));
                        }
                    };
                }
                // First, so that a caller that has an answer finds the child ready.
                let effects = self.lifecycle.child_answered(self.now());
                self.perform(effects);
                if let Some(answer) = self.in_flight.remove(&id) {
                    answer.send(result).ok();
                }
            }
            Incoming::Request { id, method, params } => self.serve(id, method, params),
            Incoming::Notification(notification, size) => self.controls.core.subscribers.tell(&notification, size),
            Incoming::TooLong(id) => {
                self.answer(&id, &Err(HandlerError::new(-32600, "it is longer than max_line allows")));
            }
        }
    }

    /// What the child has not read was not made, and waits for the next one, before everything else. The handshake, and calls that
    /// were cancelled, do not.
    pub(super) fn take_back_unread(&mut self) {
        let unread = self.live.as_mut().map(Live::take_unread).unwrap_or_default();
        let greetings: Vec<Vec<u8>> = match &self.controls.core.spec.keeping.handshake {
            Handshake::None => Vec::new(),
            Handshake::Messages { notifications, .. } => {
                notifications.iter().map(|(method, params)| wire::notification(method, &raw(params))).collect()
            }
        };
        let cancel = self.controls.core.spec.keeping.protocol.cancel_method();
        let mut waiting = VecDeque::new();
        for line in unread.split_inclusive(|byte| *byte == b'\n').filter(|line| !greetings.iter().any(|g| g == line))
        {
            match wire::parse_own(line) {
                Some(Own { id: Some(id), method, params }) => {
                    if let Some(answer) = self.in_flight.remove(&id) {
                        waiting.push_back(Queued::Call(Call { id, method, params, answer }));
                    }
                }
                Some(Own { id: None, method, .. }) if method != cancel => {
                    if let Some(bytes) = self.controls.core.room_for(line.len()) {
                        waiting.push_back(Queued::Notification { line: line.to_vec(), _bytes: bytes });
                    }
                }
                _ => {}
            }
        }
        if !waiting.is_empty() {
            waiting.append(&mut self.waiting);
            self.waiting = waiting;
            self.drive(Event::Demanded);
        }
    }

    /// Everything that is in flight has failed, but for what the child has not read.
    pub(super) fn cut_off(&mut self, cause: &Cause) {
        self.take_back_unread();
        let why = self.with_last_words(self.label.during_call(cause));
        for (_, answer) in self.in_flight.drain() {
            answer.send(Err(CallError::CutOff(why.clone()))).ok();
        }
        self.inbound.drain().for_each(|(_, served)| served.abort.abort());
    }

    /// Everything that waits has failed.
    pub(super) fn refuse(&mut self, cause: &Cause) {
        let text = match self.lifecycle.outlook(self.now()) {
            Outlook::Tripped(trip) => self.label.tripped(cause, trip),
            Outlook::Open | Outlook::ForGood => self.label.clause(cause),
        };
        let why = self.with_last_words(text);
        self.refuse_because(&why);
    }

    /// The same with a text that says all.
    pub(super) fn refuse_because(&mut self, why: &str) {
        for waiting in self.waiting.drain(..) {
            if let Queued::Call(call) = waiting {
                call.answer.send(Err(CallError::Refused(why.to_owned()))).ok();
            }
        }
        self.ready_waiters
            .drain(..)
            .for_each(|ready_waiters| drop(ready_waiters.send(Err(CallError::Refused(why.to_owned())))));
    }

    /// A text with the last words that the child wrote to its standard error.
    pub(super) fn with_last_words(&mut self, text: String) -> String {
        let text = in_our_words(&text);
        match last_words(&self.lifecycle.last_words(), &text) {
            Some(words) => format!("{text} (last words: {words})"),
            None => text,
        }
    }

    /// Drops a call that is in flight, and tells the child.
    pub(super) fn cancel_in_flight(&mut self, id: u64) {
        if self.in_flight.remove(&id).is_some()
            && let Some(live) = &mut self.live
        {
            let protocol = self.controls.core.spec.keeping.protocol;
            live.say(&wire::notification(protocol.cancel_method(), &raw(&protocol.cancel_params(id))));
        }
    }
}

/// The machine speaks of options of the command line, and of a child that had accepted the same handshake.
fn in_our_words(text: &str) -> String {
    let options = ["--max-age", "--start-timeout", "--max-failures"];
    let text = options.iter().fold(text.to_owned(), |text, option| {
        text.replace(option, &option.trim_start_matches('-').replace('-', "_"))
    });
    text.replace("it refused the handshake that its predecessor had accepted", "it refused the handshake")
}

fn raw(params: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(params).unwrap_or_default()
}
