//! Children of other programs that were left behind. What is proof of that, each platform says in its own `evidence`.

use std::io;
use std::time::Duration;

use nostray_sys::identity::Identity;
use nostray_sys::process::Pid;

use super::configs::Config;
use super::evidence;

/// How long a process must have been alone to count: a process that has just lost its host may be about to end.
const SETTLING: Duration = Duration::from_secs(2);

/// How sure it is that no process needs the stray.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Confidence {
    #[allow(dead_code, reason = "not every platform gives proof")]
    Certain,
    Maybe,
}

/// A process that was left behind.
#[derive(Debug, Clone)]
pub(super) struct Stray {
    pub(super) identity: Identity,
    pub(super) parent: Option<(Pid, String)>,
    /// As it was started, secrets included.
    pub(super) command: Vec<String>,
    pub(super) age: Option<Duration>,
    pub(super) memory: Option<u64>,
    pub(super) confidence: Confidence,
    /// Why it is a stray, for a report.
    pub(super) evidence: String,
}

/// Looks twice, a moment apart, so that a process that is about to end is not named.
pub(super) fn find(configs: &[Config], is_meant: impl Fn(&Stray) -> bool) -> io::Result<Vec<Stray>> {
    let mut first = evidence::look(configs)?;
    first.retain(is_meant);
    if first.is_empty() {
        return Ok(first);
    }
    std::thread::sleep(SETTLING);
    let mut still = evidence::look(configs)?;
    still.retain(|stray| first.iter().any(|before| before.identity == stray.identity));
    Ok(still)
}
