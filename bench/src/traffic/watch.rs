//! An eye on the clock: where a message is lost, a client waits for ever, and a benchmark that hangs does not say what
//! hung.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::screen;

/// Nothing that is measured here takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

static DOING: Mutex<Option<(Instant, String)>> = Mutex::new(None);

/// Ends this process when one thing takes too long; the process around it (`around.rs`) ends what it has started.
pub(crate) fn begin() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let doing = DOING.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((since, what)) = doing.as_ref()
                && since.elapsed() > PATIENCE
            {
                screen::complain(format_args!("{what}: not done within {PATIENCE:?}, and given up"));
                std::process::exit(1);
            }
        }
    });
}

/// Says what is done from now on, also on the screen.
pub(crate) fn doing(what: String) {
    screen::progress(&what);
    *DOING.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), what));
}

/// Says that a part of it is done, so that the whole may take longer.
pub(crate) fn goes_on() {
    if let Some((since, _)) = DOING.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        *since = Instant::now();
    }
}
