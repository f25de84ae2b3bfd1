//! One child for many owners in one program.

mod core;
mod driver;
mod handlers;
mod hook;
mod lease;
mod live;
mod subscription;
mod tree_lock;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

pub use handlers::HandlerError;
pub use hook::Hook;
pub use lease::{Lease, WeakLease};
pub use subscription::Subscription;
pub use wire::Notification;

use crate::{Error, LeaseSpec};
use core::Core;

/// Counts the children of a lease, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// Keeps a child for as long as there is a [`Lease`] on it. Cheap to clone; all clones are the same one.
///
/// ```standalone_crate
/// # nostray::guard::init();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use nostray::{LeaseSpec, Supervisor};
/// use serde_json::{Value, json};
///
/// // A server in one line: it answers every request with an empty list of tools.
/// let server = LeaseSpec::builder("sed").args(["-u", r#"s/"method".*/"result":{"tools":[]}}/"#]).build()?;
/// let first = Supervisor::global().lease(&server)?;
/// let second = Supervisor::global().lease(&server)?; // in every provider object: the same child
/// let answer: Value = first.call("tools/list", &json!({})).await?;
/// assert_eq!(answer, json!({ "tools": [] }));
/// assert_eq!(Supervisor::global().len(), 1);
/// drop((first, second)); // the child ends
/// Supervisor::global().shutdown().await; // and has ended
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Supervisor {
    table: Arc<Table>,
}

/// The children by their keys.
#[derive(Debug, Default)]
pub(crate) struct Table {
    by_key: Mutex<HashMap<String, Arc<Core>>>,
}

impl Supervisor {
    /// One of its own, which shares no child with any other.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The one of this program.
    #[must_use]
    pub fn global() -> Self {
        static GLOBAL: OnceLock<Supervisor> = OnceLock::new();
        GLOBAL.get_or_init(Self::new).clone()
    }

    /// Holds the child for this key, and starts it if it is not there. To be called in a tokio runtime, which drives the child. The
    /// same key with another command is refused.
    pub fn lease(&self, spec: &LeaseSpec) -> Result<Lease, Error> {
        tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let key = spec.key();
        let mut by_key = self.table.by_key.lock().unwrap_or_else(PoisonError::into_inner);
        let core = match by_key.get(&key).filter(|core| !core.is_over()) {
            Some(core) if core.spec.child.command != spec.child.command => {
                let why = format!("it is in use for another command: {:?}", core.spec.child.command);
                return Err(Error::spec("key", why));
            }
            Some(core) => core.clone(),
            None => {
                // The tree of a core that was stopped may not have ended yet.
                let tree_lock = by_key.get(&key).map(|core| core.tree_lock.clone()).unwrap_or_default();
                let core = Arc::new(Core::new(key.clone(), spec.clone(), Arc::downgrade(&self.table), tree_lock));
                by_key.insert(key, core.clone());
                core
            }
        };
        // Under the lock, so that the core is not removed meanwhile.
        let (lease, driver) = Lease::take(core);
        drop(by_key);
        lease.trace_taken();
        driver.map(tokio::spawn);
        Ok(lease)
    }

    /// How many children there are, or will be.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.by_key.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends all children, politely, also leased ones, and waits until nothing is left. Calls of their leases are
    /// refused from then on; a lease that is taken later gets a new child.
    pub async fn shutdown(&self) {
        // Under one lock: a lease that is taken later may start another tree with the same key, which is not waited for.
        let all: Vec<(Arc<Core>, Option<u64>)> = {
            let by_key = self.table.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            by_key.values().map(|core| (core.clone(), core.tree_lock.holder())).collect()
        };
        for (core, _) in &all {
            core.stop();
        }
        for (core, tree) in all {
            core.gone(tree).await;
        }
    }
}

impl Table {
    /// Forgets this key, if no lease holds it and nothing is left of its child.
    fn tidy(&self, key: &str) {
        let forgotten = {
            let mut by_key = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            if by_key.get(key).is_some_and(|core| core.is_forgettable()) { by_key.remove(key) } else { None }
        };
        drop(forgotten);
    }
}
