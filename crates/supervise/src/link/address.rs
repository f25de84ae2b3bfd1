//! Where a user's broker is to be found.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nostray_registry::Place;
use nostray_sys::identity::Identity;
use nostray_sys::local;
use nostray_sys::proc::lockers_of;
use nostray_sys::process::user;

use crate::wire::VERSION;

/// Lets a test have brokers of other versions.
const VERSION_VARIABLE: &str = "NOSTRAY_BROKER_VERSION";

/// How a broker's process is called.
pub const BROKER: &str = "nostray-broker";

/// The files of one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Where it listens.
    pub socket: PathBuf,
    /// What it holds for as long as it lives.
    pub lock: PathBuf,
    /// What it has to say.
    pub log: PathBuf,
}

impl Address {
    fn at(place: &Place) -> Self {
        let version = std::env::var(VERSION_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(VERSION);
        let file = |end: &str| place.path().join(format!("broker-{version}.{end}"));
        Self { socket: file("sock"), lock: file("lock"), log: file("log") }
    }

    fn fits(&self) -> bool {
        self.socket.as_os_str().len() <= local::LONGEST_PATH
    }

    /// Where a new broker is to be: in the user's runtime directory, or, if its path is too long for a socket, in a directory of
    /// the user's own beside the temporary files.
    pub fn for_a_new_one() -> Result<Self, String> {
        let usual = Place::for_writing().map_err(|error| error.to_string())?;
        let usual = Self::at(&usual);
        if usual.fits() {
            return Ok(usual);
        }
        let short = short_place();
        let place = Place::at(&short).map_err(|error| error.to_string())?;
        Some(Self::at(&place)).filter(Self::fits).ok_or_else(|| {
            format!(
                "the path {} is too long for a socket; set XDG_RUNTIME_DIR to a shorter one",
                usual.socket.display()
            )
        })
    }

    /// Everywhere that one may be. A host may give its children little of its environment, so it need not be where a new one
    /// would be.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut places = Place::all();
        if short_place().is_dir() {
            places.extend(Place::at(&short_place()));
        }
        places.iter().map(Self::at).filter(Self::fits).collect()
    }

    /// A connection with the broker that listens here.
    pub fn connect(&self) -> Result<OwnedFd, std::io::Error> {
        let socket = local::connect_to(&self.socket)?;
        if local::caller(socket.as_fd())?.user != user() {
            return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        Ok(socket)
    }
}

/// The process that holds the lock of a broker, whether it listens or not.
pub(crate) fn holder_of_lock() -> Option<Identity> {
    let locks = Address::all().into_iter().filter_map(|address| std::fs::metadata(address.lock).ok());
    let mut holders = locks.flat_map(|lock| lockers_of(lock.ino()));
    holders.find(|stat| stat.name == BROKER).as_ref().map(Identity::from)
}

fn short_place() -> PathBuf {
    PathBuf::from(format!("/tmp/nostray-{}", user()))
}

/// A connection with a broker, if there is one.
#[must_use]
pub fn find_broker() -> Option<OwnedFd> {
    Address::all().iter().find_map(|address| address.connect().ok())
}
