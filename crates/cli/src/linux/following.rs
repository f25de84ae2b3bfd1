//! Waiting for a journal to change.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nostray_registry::Followers;
use nostray_sys::folder_watch::FolderWatch;
use nostray_sys::poll::{self, Until};

/// How often to look where the kernel tells of each change: it does not tell of what another machine writes on a network file system.
const ANYWAY: Duration = Duration::from_secs(2);
/// How often to look where the kernel tells of nothing, since the user has too many watches already.
const WITHOUT_WATCH: Duration = Duration::from_millis(200);

/// Waits for the next change of a journal.
pub(crate) struct Following {
    watch: Option<FolderWatch>,
}

impl Following {
    /// To be followed by a look at the journals: what was added before is not told.
    pub(crate) fn new() -> Self {
        let mut following = Self { watch: FolderWatch::new().ok() };
        following.watch_folders();
        following
    }

    /// Places may appear. A watch that cannot be added is none at all, since a change would be missed.
    fn watch_folders(&mut self) {
        if let Some(watch) = &mut self.watch
            && Followers::folders().iter().any(|folder| watch.add(folder).is_err())
        {
            self.watch = None;
        }
    }

    /// Waits until a journal may have changed. False if no process reads standard output any more.
    pub(crate) fn wait(&mut self) -> bool {
        let stdout = std::io::stdout();
        let until = Instant::now() + if self.watch.is_some() { ANYWAY } else { WITHOUT_WATCH };
        let mut has_changed = false;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
            && !has_changed
        {
            let mut events = vec![(stdout.as_fd(), Until::HungUp)];
            events.extend(self.watch.as_ref().map(|watch| (watch.as_fd(), Until::Readable)));
            match poll::wait(&events, Some(left)) {
                Ok(fired) if fired.first() == Some(&true) => return false,
                Ok(_) => {}
                Err(_) => std::thread::sleep(WITHOUT_WATCH), // poll has failed: sleep instead
            }
            has_changed = self.watch.as_mut().is_some_and(|watch| watch.has_changed(Followers::is_meant));
        }
        // A folder may have appeared. What is in it by now is found by the look that follows.
        self.watch_folders();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_watch_it_looks_several_times_a_second() {
        let began = Instant::now();
        let mut following = Following { watch: None };
        assert!(following.wait());
        assert!((WITHOUT_WATCH..ANYWAY).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}
