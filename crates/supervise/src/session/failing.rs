//! What is answered when there is no child to answer: the calls that wait for one, and those in flight to one that is gone.

use nostray_rpc::{Id, error, errors};
use nostray_sys::secrets::masked_text;
use serde_json::json;

use super::replay::{Checks, Gate};
use super::{Effect, GONE, Protocol, Session, id_value};
use crate::error_text::{Outlook, ServerLabel};
use crate::machine::{Cause, Generation};

impl Session {
    /// Answers everything that waits for a child with an error.
    pub(super) fn refuse_waiting(&mut self, cause: &Cause, outlook: Outlook) {
        self.last_cause = Some(cause.clone());
        let waiting = self.queue.take_all();
        if waiting.is_empty() {
            return;
        }
        let failure = self.failure(cause, |label, stderr| label.not_made(cause, outlook, stderr));
        for waiting in waiting {
            let ids: Vec<Id> = waiting.asks.into_iter().map(|ask| ask.id).collect();
            self.fail(&ids, waiting.batch.is_some(), &failure);
        }
    }

    /// Answers everything that is in flight with an error.
    pub(super) fn cut_off(&mut self, cause: &Cause, outlook: Outlook) {
        self.last_cause = Some(cause.clone());
        let flights = self.flights.cut_off();
        if flights.is_empty() {
            return;
        }
        // What was on its way to a child that never ran has reached no child.
        let was_read = !cause.is_failed_start();
        let failure = self.failure(cause, |label, stderr| match was_read {
            true => label.cut_off(cause, stderr),
            false => label.not_made(cause, outlook, stderr),
        });
        for (batch, ids) in flights {
            self.fail(&ids, batch.is_some(), &failure);
        }
    }

    /// The error of all calls that fail together.
    fn failure(&mut self, cause: &Cause, in_words: impl FnOnce(&ServerLabel, &[String]) -> String) -> Failure {
        let stderr: Vec<_> = self.lifecycle.last_words().iter().map(|line| masked_text(line)).collect();
        let message = in_words(&self.label, &stderr);
        Failure { message, data: json!({ "nostray": { "cause": cause.to_string(), "stderr": stderr } }) }
    }

    fn fail(&mut self, ids: &[Id], batch: bool, Failure { message, data }: &Failure) {
        let line = match ids {
            [] => return,
            _ if self.leaves_calls_open => return,
            ids if batch => errors(ids, GONE, message, Some(data)),
            ids => ids.iter().flat_map(|id| error(id, GONE, message, Some(data))).collect(),
        };
        self.effects.push(Effect::ToHost(line));
    }

    /// Nothing that this child says from now on is for the host.
    pub(super) fn part_from(&mut self, generation: Generation) {
        self.gate = Gate::Closed;
        self.checks = Checks::default();
        // Streams are opened again with the next child.
        let left = self.flights.cut_off();
        debug_assert!(left.is_empty() || !self.lifecycle.is_busy(), "a caller is answered before");
        self.orphan_questions(generation);
    }

    /// Nothing that the host still does for this child is of use.
    pub(super) fn orphan_questions(&mut self, generation: Generation) {
        if self.protocol == Protocol::Mcp {
            for id in self.reverse.orphaned(generation) {
                let params = json!({ "requestId": id_value(&id), "reason": "the server process is gone" });
                let line = nostray_rpc::notification("notifications/cancelled", Some(params.to_string().as_bytes()));
                self.effects.push(Effect::ToHost(line));
            }
        }
    }
}

/// What calls that fail are answered with.
struct Failure {
    message: String,
    data: serde_json::Value,
}
