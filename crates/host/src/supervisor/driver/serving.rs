//! Requests of the child: which lease handles them, and which one goes on when that lease is gone.

use std::time::Instant;

use nostray_supervise::{Cause, MachineEvent as Event};
use serde_json::Value;

use super::super::handlers::HandlerError;
use super::super::wire;
use super::Driver;

/// More than this of answers that it does not read, and it asks in vain.
const MAX_UNREAD_ANSWERS: usize = 64 << 20;
/// So many requests of the child's are handled at a time.
const MAX_CONCURRENT_REQUESTS: usize = 1024;

/// A request of the child that a lease handles.
pub(super) struct InboundRequest {
    lease: u64,
    id: Value,
    method: String,
    params: Value,
    pub(super) abort: tokio::task::AbortHandle,
}

impl Driver {
    /// Lets the newest lease handle what the child asks.
    pub(super) fn serve(&mut self, id: Value, method: String, params: Value) {
        let can_answer = self.live.as_ref().is_some_and(|live| live.stdin.is_some());
        match self.controls.core.handlers.find(&method) {
            _ if !can_answer => {}
            Some(_) if self.inbound.len() >= MAX_CONCURRENT_REQUESTS => {
                self.answer(&id, &Err(HandlerError::new(-32000, "too many requests are being handled already")));
            }
            Some((lease, handler)) => {
                let given = params.clone();
                // Called in a task of its own, so that its panics are its own.
                let abort = self.handlers.spawn(async move { handler(given).await });
                self.inbound.insert(abort.id(), InboundRequest { lease, id, method, params, abort });
            }
            None if method == "ping" => self.answer(&id, &Ok(Value::Object(serde_json::Map::new()))),
            None => self.answer(&id, &Err(HandlerError::no_handler(&method))),
        }
    }

    pub(super) fn on_handled(&mut self, task: tokio::task::Id, result: Result<Value, HandlerError>) {
        if let Some(served) = self.inbound.remove(&task) {
            self.answer(&served.id, &result);
        }
    }

    /// The lease is gone: what it was handling, the next one does.
    pub(super) fn reassign_requests(&mut self, lease: u64) {
        let theirs: Vec<_> =
            self.inbound.iter().filter(|(_, served)| served.lease == lease).map(|(id, _)| *id).collect();
        for task in theirs {
            if let Some(served) = self.inbound.remove(&task) {
                served.abort.abort();
                self.serve(served.id, served.method, served.params);
            }
        }
    }

    pub(super) fn answer(&mut self, id: &Value, result: &Result<Value, HandlerError>) {
        let Some(live) = self.live.as_mut().filter(|live| live.stdin.is_some()) else { return };
        let line = wire::answer(id, result);
        live.answers += line.len();
        live.say(&line);
        if live.answers > MAX_UNREAD_ANSWERS {
            // Do not wait for it: it may be waiting for us to read what it says.
            live.close_stdin_at = Some(Instant::now());
            let number = live.number;
            self.drive(Event::Died(number, Cause::because("was ended", "it asks and does not read the answers")));
        }
    }
}
