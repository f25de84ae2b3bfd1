//! A place where a host tells its plugins something, for all leases at once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::lease::{Lease, WeakLease};

type Listener<E> = Arc<dyn Fn(&E) + Send + Sync>;

/// Something that a host tells all listeners: the end of a session, a reload. There is one hook for the whole program,
/// usually in a `static`. The host puts it into its own list once, however many leases there are; it reaches only live
/// leases.
///
/// ```
/// use nostray::Hook;
/// use std::sync::Mutex;
///
/// static SESSION_END: Hook<String> = Hook::new();
/// static PLUGINS: Mutex<Vec<&'static Hook<String>>> = Mutex::new(Vec::new());
///
/// for _provider in 0..3 {
///     let mut plugins = PLUGINS.lock().unwrap();
///     // The host may have rebuilt its list, so it is the list that is asked.
///     if !plugins.iter().any(|hook| std::ptr::eq(*hook, &SESSION_END)) {
///         plugins.push(&SESSION_END);
///     }
/// }
/// assert_eq!(PLUGINS.lock().unwrap().len(), 1);
/// assert_eq!(SESSION_END.dispatch(&"chat-17".to_owned()), 0); // no lease listens yet
/// ```
pub struct Hook<E> {
    listeners: Mutex<Vec<(WeakLease, Listener<E>)>>,
}

impl<E> std::fmt::Debug for Hook<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

impl<E> Default for Hook<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Hook<E> {
    /// A hook without listeners.
    #[must_use]
    pub const fn new() -> Self {
        Self { listeners: Mutex::new(Vec::new()) }
    }

    /// Tells this lease, until it is dropped. A lease has one listener; a second one takes the place of the first.
    ///
    /// A listener that owns its own lease would keep it for as long as the hook is there: give it [`Lease::downgrade`] instead.
    pub fn listen(&self, lease: &Lease, listener: impl Fn(&E) + Send + Sync + 'static) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = listeners.extract_if(.., |(other, _)| !other.is_alive() || other.is(lease)).collect();
        listeners.push((lease.downgrade(), Arc::new(listener)));
        drop(listeners);
        drop(gone); // not under the lock: it may own anything
    }

    /// Calls the listeners of all live leases. Returns how many there are. If a listener panics, the others are called first.
    pub fn dispatch(&self, event: &E) -> usize {
        let (alive, gone) = {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            let gone: Vec<_> = listeners.extract_if(.., |(lease, _)| !lease.is_alive()).collect();
            (listeners.clone(), gone)
        };
        drop(gone);
        let (mut told, mut panic) = (0, None);
        // Not under the lock: a listener may drop its lease, and those of others.
        for (_, listener) in alive.iter().filter(|(lease, _)| lease.is_alive()) {
            told += 1;
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| listener(event))) {
                panic.get_or_insert(payload);
            }
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        told
    }
}
