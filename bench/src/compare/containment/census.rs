//! Which processes are there: one look at `/proc` for all cases that ask at the same time. With a hundred trees at
//! once, a look for each of them would be most of what the machine does.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use badchild::{Found, Scene, TOKEN};

use crate::{Failure, host};

/// So long from one look to the next, at least.
const BETWEEN: Duration = Duration::from_millis(200);
/// An environment is as long as this, at most.
const LONGEST: usize = 1 << 17;

/// What marks the processes of a scene: their token; or, for a broker, which has no session's environment, where its
/// socket is.
pub(super) struct Marks {
    token: OsString,
    place: OsString,
}

impl Marks {
    pub(super) fn of(scene: &Scene) -> Result<Self, Failure> {
        Ok(Self { token: host::token(scene)?, place: scene.runtime().into() })
    }
}

/// One look.
pub(super) struct Look {
    pub(super) begun: Instant,
    all: Vec<Marked>,
}

struct Marked {
    found: Found,
    token: Vec<u8>,
    place: Vec<u8>,
}

impl Look {
    fn take() -> Self {
        let begun = Instant::now();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut buffer = vec![0; LONGEST];
        Self { begun, all: numbers.filter_map(|number| Marked::by_number(number, &mut buffer)).collect() }
    }

    /// The processes of some scenes.
    pub(super) fn those(&self, scenes: &[Marks]) -> impl Iterator<Item = &Found> {
        let is_of = |marked: &Marked, marks: &Marks| {
            let is_broker = || marked.token.is_empty() && marked.found.command.contains(" broker serve ");
            marked.token == marks.token.as_bytes() || marked.place == marks.place.as_bytes() && is_broker()
        };
        let those = self.all.iter().filter(move |marked| scenes.iter().any(|marks| is_of(marked, marks)));
        those.map(|marked| &marked.found)
    }
}

impl Marked {
    fn by_number(number: i32, buffer: &mut [u8]) -> Option<Self> {
        // The kernel gives all of it at once. A zombie has no environment, and does not count.
        let length = File::open(format!("/proc/{number}/environ")).ok()?.read(buffer).ok()?;
        let environ = buffer.get(..length)?;
        let variable = |name: &str| {
            let values =
                environ.split(|&byte| byte == 0).filter_map(|variable| variable.strip_prefix(name.as_bytes()));
            let mut values = values.filter_map(|rest| rest.strip_prefix(b"="));
            values.next().unwrap_or_default().to_vec()
        };
        let (token, place) = (variable(TOKEN), variable("XDG_RUNTIME_DIR"));
        if token.is_empty() && place.is_empty() {
            return None;
        }
        let found = Found::by_pid(badchild::pid(number))?;
        (!found.stat.is_zombie()).then_some(Self { found, token, place })
    }
}

/// The last look, and whether a thread is taking the next one.
#[derive(Default)]
pub(super) struct Census {
    state: Mutex<State>,
    taken: Condvar,
}

#[derive(Default)]
struct State {
    last: Option<Arc<Look>>,
    is_being_taken: bool,
}

impl Census {
    /// A look that begins after this call. One thread takes it; all threads that asked before it began share it.
    pub(super) fn look(&self) -> Arc<Look> {
        let asked = Instant::now();
        let mut state = self.lock();
        let last = loop {
            match &state.last {
                Some(look) if look.begun >= asked => return look.clone(),
                last if !state.is_being_taken => break last.clone(),
                _ => state = self.taken.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        state.is_being_taken = true;
        drop(state);
        if let Some(last) = last {
            // Not a hope: others are to have the time to ask.
            std::thread::sleep((last.begun + BETWEEN).saturating_duration_since(Instant::now()));
        }
        let look = Arc::new(Look::take());
        *self.lock() = State { last: Some(look.clone()), is_being_taken: false };
        self.taken.notify_all();
        look
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
