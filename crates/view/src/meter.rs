//! How much of a processor a tree uses.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nostray_sys::identity::Identity;
use nostray_sys::proc::{Stat, since_boot, uptime};
use nostray_sys::process::cpu_time;

/// Over a shorter time a number says nothing.
const SHORTEST_TIME: Duration = Duration::from_secs(1);

/// Measures. At the first look, since the start of each process, as `ps` shows it; at a later one, since the look before, as `top` does.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    last: Option<Look>,
    /// What each process has used, at this look.
    now: HashMap<Identity, Duration>,
    /// How long the machine has been running, read once at the first look.
    uptime: Option<Duration>,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    used: HashMap<Identity, Duration>,
}

impl Meter {
    /// What these processes use, in percent of one processor. `None` if there is none.
    pub(crate) fn percent(&mut self, processes: &[Stat]) -> Option<f64> {
        let shares: Vec<f64> = processes.iter().filter_map(|stat| self.share(stat)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() * 100.0)
    }

    fn share(&mut self, stat: &Stat) -> Option<f64> {
        let used = Duration::from_nanos(cpu_time(stat.pid)?);
        self.now.insert(stat.into(), used);
        let (used, time) = match &self.last {
            Some(look) => {
                let before = look.used.get(&stat.into()).copied().unwrap_or_default();
                (used.saturating_sub(before), look.at.elapsed().max(Duration::from_millis(1)))
            }
            None => {
                let now = *self.uptime.get_or_insert_with(|| uptime().unwrap_or_default());
                (used, now.saturating_sub(since_boot(stat.start)).max(SHORTEST_TIME))
            }
        };
        Some(used.as_secs_f64() / time.as_secs_f64())
    }

    /// All processes of this look have been measured.
    pub(crate) fn end_look(&mut self) {
        self.last = Some(Look { at: Instant::now(), used: std::mem::take(&mut self.now) });
    }
}
