//! What the child may ask its owners. Each handler belongs to a lease and ends with it; a request goes to the newest lease that handles its method.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::Generation;

/// Why a handler has no result. The child is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({code})")]
#[non_exhaustive]
pub struct HandlerError {
    /// As JSON-RPC has it.
    pub code: i64,
    /// In words.
    pub message: String,
}

impl HandlerError {
    /// One with a code of its own.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn no_handler(method: &str) -> Self {
        Self::new(-32601, format!("no lease handles {method}"))
    }
}

pub(super) type Answer = Pin<Box<dyn Future<Output = Result<Value, HandlerError>> + Send>>;
pub(super) type Handler = Arc<dyn Fn(Value) -> Answer + Send + Sync>;

/// A callback for every new child.
pub(super) type Listener = Arc<dyn Fn(Generation) + Send + Sync>;

/// What a lease leaves.
pub(super) struct Forgotten {
    _handlers: Vec<Handler>,
    _listeners: Vec<Listener>,
}

#[derive(Default)]
pub(super) struct Handlers {
    by_method: Mutex<HashMap<String, Vec<(u64, Handler)>>>,
    listeners: Mutex<Vec<(u64, Listener)>>,
}

impl Handlers {
    /// The lease handles this from now on, in place of what it did before.
    pub(super) fn add(&self, lease: u64, method: &str, handler: Handler) {
        let mut by_method = self.by_method.lock().unwrap_or_else(PoisonError::into_inner);
        let of_method = by_method.entry(method.to_owned()).or_default();
        let before: Vec<_> = of_method.extract_if(.., |(other, _)| *other == lease).collect();
        let newer = of_method.partition_point(|(other, _)| *other < lease);
        of_method.insert(newer, (lease, handler));
        drop(by_method);
        drop(before); // which may own anything
    }

    /// The lease wants to know of every new child.
    pub(super) fn add_listener(&self, lease: u64, listener: Listener) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push((lease, listener));
    }

    /// Tells all listeners of a new child.
    pub(super) fn tell(&self, generation: Generation) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (_, listener) in listeners {
            // A listener that panics must not take the driver with it.
            catch_unwind(AssertUnwindSafe(|| listener(generation))).ok();
        }
    }

    /// The lease is gone. What it leaves may hold other leases, whose end wants our locks: it is to be dropped without any.
    pub(super) fn forget(&self, lease: u64) -> Forgotten {
        self.forget_those(|other| other == lease)
    }

    /// No handler will be called any more.
    pub(super) fn forget_all(&self) -> Forgotten {
        self.forget_those(|_| true)
    }

    fn forget_those(&self, is_gone: impl Fn(u64) -> bool) -> Forgotten {
        let mut handlers = Vec::new();
        let mut by_method = self.by_method.lock().unwrap_or_else(PoisonError::into_inner);
        by_method.retain(|_, of_method| {
            handlers.extend(of_method.extract_if(.., |(lease, _)| is_gone(*lease)).map(|(_, handler)| handler));
            !of_method.is_empty()
        });
        drop(by_method);
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let listeners =
            listeners.extract_if(.., |(lease, _)| is_gone(*lease)).map(|(_, listener)| listener).collect();
        Forgotten { _handlers: handlers, _listeners: listeners }
    }

    /// The handler of a method: that of the newest lease.
    pub(super) fn find(&self, method: &str) -> Option<(u64, Handler)> {
        let by_method = self.by_method.lock().unwrap_or_else(PoisonError::into_inner);
        by_method.get(method)?.last().cloned()
    }
}
