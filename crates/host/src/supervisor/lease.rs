//! A hold on a child.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::Generation;
use super::core::Core;
use super::driver::{Call, Command};
use super::handlers::HandlerError;
use super::subscription::Subscription;
use super::wire;
use crate::{CallError, trace};

/// A hold on a child that others may hold, too. The child is there while a lease is: clones and drops are what counts it,
/// and nothing else; no thread, task or handler of this crate holds a lease.
#[derive(Debug, Clone)]
pub struct Lease {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Arc<Core>,
    number: u64,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.release(self.number);
    }
}

/// A lease that does not keep the child, for a handler or listener of that same lease.
#[derive(Debug, Clone)]
pub struct WeakLease(Weak<Inner>);

impl WeakLease {
    /// The lease, if it is still held.
    #[must_use]
    pub fn upgrade(&self) -> Option<Lease> {
        self.0.upgrade().map(|inner| Lease { inner })
    }

    pub(super) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(super) fn is(&self, lease: &Lease) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&lease.inner))
    }
}

impl Lease {
    /// With a driver that is to be spawned, if there is none.
    pub(super) fn take(core: Arc<Core>) -> (Self, Option<impl Future<Output = ()> + Send + use<>>) {
        let (number, driver) = core.take();
        (Self { inner: Arc::new(Inner { core, number }) }, driver)
    }

    /// Under no lock: a host's subscriber may do anything.
    pub(super) fn trace_taken(&self) {
        let Inner { core, number } = &*self.inner;
        trace::lease_taken(&core.spec.child.command, *number, core.leases());
    }

    /// The same lease, without keeping it alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakLease {
        WeakLease(Arc::downgrade(&self.inner))
    }

    /// Calls the child, and waits for its answer for as long as the [`crate::LeaseSpec`] says. While there is no child the call waits for
    /// the next one. A call that the child had read when it ended has failed, and is not made again; what it had not read is made with
    /// the next one.
    ///
    /// Dropping the future cancels the call, as [`crate::Protocol`] says.
    pub async fn call<R: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<R, CallError> {
        self.call_within(method, params, self.inner.core.spec.keeping.call_timeout).await
    }

    /// The same with a time of its own.
    pub async fn call_within<R: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
        time: Option<Duration>,
    ) -> Result<R, CallError> {
        let params = raw(params)?;
        let core = &self.inner.core;
        let (answer, answered) = oneshot::channel();
        let id = core.number();
        let call = Call { id, method: method.to_owned(), params, answer };
        core.command(Command::Call(call)).map_err(|_| self.no_driver())?;
        let mut cancel = Cancel { core, id: Some(id) };
        let result = match time {
            None => answered.await,
            Some(time) => match tokio::time::timeout(time, answered).await {
                Ok(result) => result,
                Err(_) => return Err(CallError::TimedOut(time)), // and tells the child
            },
        };
        cancel.id = None;
        let result = result.unwrap_or_else(|_| Err(self.no_driver()))?;
        serde_json::from_str(result.get()).map_err(|error| CallError::Json(error.into()))
    }

    /// Tells the child something. Without a child it waits for the next one. This does not wait for a child that does not read: once 16 MiB
    /// are on their way to it, no more is taken.
    pub fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), CallError> {
        let line = wire::notification(method, &raw(params)?);
        let core = &self.inner.core;
        let bytes = core.room_for(line.len()).ok_or(CallError::Full)?;
        if core.is_over() {
            return Err(self.no_driver());
        }
        core.command(Command::Notify { line, bytes }).map_err(|_| self.no_driver())
    }

    /// Why there is no driver.
    fn no_driver(&self) -> CallError {
        self.inner.core.why_over().map_or(CallError::Closed, CallError::Refused)
    }

    /// The notifications of the child, and of all children after it, from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscription {
        self.inner.core.subscribers.add()
    }

    /// Answers what the child asks with this method, until the lease is dropped. Of several leases that do, the newest one is asked; if
    /// it goes meanwhile, the next one is. If none is left, the child gets an error.
    ///
    /// A handler that owns its own lease would keep it, and the child, until the supervisor is shut down: give it
    /// [`Lease::downgrade`] instead.
    pub fn handle<F, A>(&self, method: &str, handler: F)
    where
        F: Fn(Value) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Value, HandlerError>> + Send + 'static,
    {
        let Inner { core, number } = &*self.inner;
        core.handlers.add(*number, method, Arc::new(move |params| Box::pin(handler(params))));
    }

    /// The child that is ready now, if there is one.
    #[must_use]
    pub fn generation(&self) -> Option<Generation> {
        *self.inner.core.generation.borrow()
    }

    /// Waits until a child is ready, and says which. One with a [`crate::Handshake`] is ready after it, one without after its first
    /// answer to a call.
    pub async fn ready(&self) -> Result<Generation, CallError> {
        let (answer, answered) = oneshot::channel();
        self.inner.core.command(Command::Ready(answer)).map_err(|_| self.no_driver())?;
        answered.await.unwrap_or_else(|_| Err(self.no_driver()))
    }

    /// Tells of every child that is ready after another one was, until the lease is dropped: to open again what was open with the last
    /// one. It is called by the driver, and must not block.
    pub fn on_respawn(&self, listener: impl Fn(Generation) + Send + Sync + 'static) {
        let Inner { core, number } = &*self.inner;
        core.handlers.add_listener(*number, Arc::new(listener));
    }

    /// Starts the child anew at the next quiet moment.
    pub fn restart(&self) {
        self.inner.core.command(Command::Restart).ok();
    }
}

fn raw(params: &impl Serialize) -> Result<Box<RawValue>, CallError> {
    serde_json::value::to_raw_value(params).map_err(|error| CallError::Params(error.into()))
}

/// Takes a call back unless it was answered.
struct Cancel<'a> {
    core: &'a Arc<Core>,
    id: Option<u64>,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.core.command_if_driven(Command::Cancel(id));
        }
    }
}
