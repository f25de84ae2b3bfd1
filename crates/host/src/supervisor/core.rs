//! What the leases of a child and its driver share. The driver is a task of a runtime, and may be gone with it at any moment;
//! this stays.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{mpsc, watch};

use super::driver::{self, Command};
use super::handlers::Handlers;
use super::subscription::Subscribers;
use super::tree_lock::{TreeLock, TreeLockGuard};
use super::{Generation, Table};
use crate::{LeaseSpec, trace};

/// How many bytes of notifications may wait for the child before [`crate::CallError::Full`].
const MAX_QUEUED_BYTES: usize = 16 << 20;

pub(crate) struct Core {
    pub(super) key: String,
    pub(super) spec: LeaseSpec,
    table: Weak<Table>,
    pub(super) handlers: Handlers,
    pub(super) subscribers: Subscribers,
    /// The generation that is ready.
    pub(super) generation: watch::Sender<Option<Generation>>,
    /// Where its child lives, and where that of the one before it with this key did.
    pub(super) tree_lock: TreeLock,
    /// Bytes of notifications that wait for the child.
    told: Arc<AtomicUsize>,
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    leases: usize,
    next_lease: u64,
    next_call: u64,
    /// To the driver, while there is one.
    commands: Option<mpsc::UnboundedSender<Command>>,
    /// Which driver that is.
    driver_number: u64,
    /// The last generation that there was.
    last: u64,
    /// Its tree, by the number that the tree lock gave it.
    tree: Option<u64>,
    /// It was stopped, or ended for good.
    over: Option<String>,
}

/// Owned by a driver while it runs, so that the core learns when the driver is gone: also when it never began, since its runtime was
/// about to end.
#[derive(Debug)]
pub(super) struct DriverControls {
    pub(super) core: Arc<Core>,
    driver_number: u64,
    /// Generations that other drivers had.
    pub(super) before: u64,
    /// Generations that there have been.
    pub(super) last: u64,
}

impl Drop for DriverControls {
    fn drop(&mut self) {
        self.core.driver_ended(self.driver_number, self.last);
    }
}

/// The bytes of a notification that waits for the child, counted until this is dropped.
#[derive(Debug)]
pub(super) struct QueuedBytes(Arc<AtomicUsize>, usize);

impl Drop for QueuedBytes {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn new(key: String, spec: LeaseSpec, table: Weak<Table>, tree_lock: TreeLock) -> Self {
        Self {
            key,
            spec,
            table,
            handlers: Handlers::default(),
            subscribers: Subscribers::default(),
            generation: watch::Sender::new(None),
            tree_lock,
            told: Arc::default(),
            shared: Mutex::default(),
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One holder more. Returns its number, and a driver if there is none: see [`Core::driver`].
    pub(super) fn take(self: &Arc<Self>) -> (u64, Option<impl Future<Output = ()> + Send + use<>>) {
        let mut shared = self.shared();
        shared.leases += 1;
        shared.next_lease += 1;
        let driver = tell(&shared, Command::Taken).is_err().then(|| self.driver(&mut shared));
        (shared.next_lease, driver)
    }

    /// How many leases there are.
    pub(super) fn leases(&self) -> usize {
        self.shared().leases
    }

    /// One holder less.
    pub(super) fn release(self: &Arc<Self>, lease: u64) {
        // First, so that the driver, when it hears of this, hands requests to another lease.
        let owned = self.handlers.forget(lease);
        let (is_last, leases) = {
            let mut shared = self.shared();
            shared.leases = shared.leases.saturating_sub(1);
            let is_last = tell(&shared, Command::Released(lease)).is_err() && shared.leases == 0;
            (is_last, shared.leases)
        };
        trace::lease_released(&self.spec.child.command, lease, leases);
        // Under no lock: handlers may own other leases, of this child too.
        drop(owned);
        if is_last {
            self.tidy();
        }
    }

    /// Sends a command to the driver. If the driver's runtime has ended and this is called in another one, a new driver is spawned there.
    pub(super) fn command(self: &Arc<Self>, command: Command) -> Result<(), Command> {
        let mut shared = self.shared();
        let Err(command) = tell(&shared, command) else { return Ok(()) };
        if shared.over.is_some() || tokio::runtime::Handle::try_current().is_err() {
            return Err(command);
        }
        let driver = self.driver(&mut shared);
        tell(&shared, command)?;
        drop(shared);
        tokio::spawn(driver);
        Ok(())
    }

    /// Sends a command to the driver, if there is one.
    pub(super) fn command_if_driven(&self, command: Command) {
        tell(&self.shared(), command).ok();
    }

    /// A task that drives the child for all its leases. To be spawned without any lock: a runtime that is about to end drops it there
    /// and then.
    fn driver(self: &Arc<Self>, shared: &mut Shared) -> impl Future<Output = ()> + Send + use<> {
        let (commands, inbox) = mpsc::unbounded_channel();
        for _ in 0..shared.leases {
            commands.send(Command::Taken).ok();
        }
        shared.commands = Some(commands);
        shared.driver_number += 1;
        let (driver_number, last) = (shared.driver_number, shared.last);
        driver::run(DriverControls { core: self.clone(), driver_number, before: last, last }, inbox)
    }

    /// A number for a call, unlike any other.
    pub(super) fn number(&self) -> u64 {
        let mut shared = self.shared();
        shared.next_call += 1;
        shared.next_call
    }

    /// Room for a notification of so many bytes, if there is.
    pub(super) fn room_for(&self, bytes: usize) -> Option<QueuedBytes> {
        let add = |told: usize| (told == 0 || told + bytes <= MAX_QUEUED_BYTES).then_some(told + bytes);
        self.told.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(QueuedBytes(self.told.clone(), bytes))
    }

    /// The driver wants to end. It may not if a command has come meanwhile; otherwise the next lease needs another
    /// driver, from this moment on.
    pub(super) fn may_end(&self, controls: &DriverControls, inbox: &mpsc::UnboundedReceiver<Command>) -> bool {
        let mut shared = self.shared();
        let may = inbox.is_empty() && (shared.leases == 0 || shared.over.is_some());
        if may && shared.driver_number == controls.driver_number {
            shared.commands = None;
            shared.last = controls.last;
        }
        may
    }

    /// A driver is gone.
    fn driver_ended(&self, driver_number: u64, last: u64) {
        let is_over = {
            let mut shared = self.shared();
            shared.last = shared.last.max(last);
            // Another one may have taken over since.
            if shared.driver_number == driver_number {
                shared.commands = None;
                self.generation.send_replace(None);
            }
            shared.over.is_some() && shared.commands.is_none()
        };
        if is_over {
            self.has_ended();
        }
        self.tidy();
    }

    /// No child will ever ask or tell anything again. Handlers that own their own lease, and would keep it for ever, end here.
    fn has_ended(&self) {
        drop(self.handlers.forget_all());
        self.subscribers.end();
    }

    /// Lets the supervisor forget the key, if no lease holds it and nothing is left.
    pub(super) fn tidy(&self) {
        if let Some(table) = self.table.upgrade() {
            table.tidy(&self.key);
        }
    }

    /// Its next child may be started now, unless something is left of another one.
    pub(super) fn lock_tree(&self) -> Option<TreeLockGuard> {
        let tree_guard = self.tree_lock.try_lock()?;
        self.shared().tree = Some(tree_guard.tree);
        Some(tree_guard)
    }

    /// Marks it as ended for good.
    pub(super) fn is_over_because(&self, why: &str) {
        self.shared().over.get_or_insert_with(|| why.to_owned());
    }

    /// Why it never comes back, if it does not.
    pub(super) fn why_over(&self) -> Option<String> {
        self.shared().over.clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.shared().over.is_some()
    }

    pub(super) fn is_forgettable(&self) -> bool {
        let shared = self.shared();
        shared.leases == 0 && shared.commands.is_none() && self.tree_lock.is_free()
    }

    /// A lease that takes the key from now on gets another child, which waits for the end of this one.
    pub(super) fn stop(&self) {
        let driver_ended = {
            let mut shared = self.shared();
            shared.over.get_or_insert_with(|| "the supervisor was shut down".to_owned());
            tell(&shared, Command::Stop).is_err()
        };
        if driver_ended {
            self.has_ended();
        }
    }

    /// Waits until nothing is left of its trees, and of the tree that had its key when it was stopped.
    pub(super) async fn gone(&self, before: Option<u64>) {
        let commands = self.shared().commands.clone();
        if let Some(commands) = commands {
            commands.closed().await;
        }
        let own = self.shared().tree;
        self.tree_lock.until_released_by(before).await;
        self.tree_lock.until_released_by(own).await;
    }
}

fn tell(shared: &Shared, command: Command) -> Result<(), Command> {
    match &shared.commands {
        Some(commands) => commands.send(command).map_err(|error| error.0),
        None => Err(command),
    }
}
