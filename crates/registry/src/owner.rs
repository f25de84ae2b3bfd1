//! Who owns a record: the lock beside it says whether front, spare or guard lives.

use std::fs::File;

use nostray_sys::identity::{Identity, World};

use crate::record::{self, Record};
use crate::{Place, files};

/// Who owns a record.
pub(crate) enum Owner {
    Alive,
    /// This process, as long as it holds the lock.
    Us(Option<File>),
}

pub(crate) fn take_over(place: &Place, id: &str) -> Owner {
    match files::to_lock(&record::lock_path(place, id)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => Owner::Us(Some(lock)),
            Err(_) => Owner::Alive,
        },
        // The lock is made before the record and removed after it, so this is no pen that is just starting or ending. But the lock may
        // have been removed or replaced by something else, and a pen whose keepers live is not dead for want of a file.
        Err(_) => match Record::read(&record::path(place, id)) {
            Ok(record)
                if World::current() == Some(record.world())
                    && record.keepers().into_iter().any(Identity::is_alive) =>
            {
                Owner::Alive
            }
            _ => Owner::Us(None),
        },
    }
}

/// Whether the owner of a record lives.
#[must_use]
pub(crate) fn owner_is_alive(place: &Place, id: &str) -> bool {
    matches!(take_over(place, id), Owner::Alive)
}
