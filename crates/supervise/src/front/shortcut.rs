//! When a front lets the steward read and write the host's streams, and when it takes them back: see [`crate::shortcut`].

use std::time::{Duration, Instant};

use nostray_rpc::Lines;
use nostray_sys::descriptors::{StdinKind, stdin_kind};
use nostray_sys::stream::can_be_moved_to;

use super::Front;
use super::shared::Shared;
use crate::line_channel::LineChannel;
use crate::shortcut::{FrontEnd, TakenBack};
use crate::wire::ToSteward;

/// A session is busy that makes so many calls within this time. A shortcut costs as much as a few calls.
const BUSY_CALLS: usize = 16;
const BUSY_WITHIN: Duration = Duration::from_millis(100);
/// A shortcut over which nothing passes for so long is given up: an idle session is not looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a shortcut over which less passed than this, the next one has to wait, each time for twice as long.
const WORTH_IT: u64 = 16 << 10;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// For tests: `always` takes every usual call for a busy session, `never` is what it says.
const VARIABLE: &str = "NOSTRAY_SHORTCUT";

/// The shortcut of one session.
#[derive(Debug)]
pub(super) struct Shortcut {
    open: Option<Open>,
    /// How many there were.
    number: u64,
    /// How many calls have passed since when.
    calls: usize,
    since: Option<Instant>,
    /// No other one before that.
    not_before: Option<Instant>,
    pause: Duration,
    when: When,
}

#[derive(Debug)]
struct Open {
    /// Nothing until the steward has said that it may begin.
    end: Option<FrontEnd>,
    seen: u64,
    look_at: Instant,
    is_called_back: bool,
}

impl Open {
    fn activity(&self) -> u64 {
        self.end.as_ref().map_or(0, FrontEnd::activity)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Busy,
    Always,
    Never,
}

impl Default for Shortcut {
    fn default() -> Self {
        let when = match std::env::var(VARIABLE).as_deref() {
            Ok("always") => When::Always,
            Ok("never") => When::Never,
            _ => When::Busy,
        };
        Self { open: None, number: 0, calls: 0, since: None, not_before: None, pause: FIRST_PAUSE, when }
    }
}

impl Shortcut {
    /// Whether the steward reads and writes the host's streams, or is about to: the front does not.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether it is to give them back, and has not yet.
    pub(super) fn is_called_back(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_called_back)
    }

    /// When to look whether something passes.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.as_ref().filter(|open| !open.is_called_back).map(|open| open.look_at)
    }

    /// Whether a session in which so many more calls have passed is to have one.
    fn is_worth_it(&mut self, passed: usize) -> bool {
        if passed == 0 || self.is_open() || self.when == When::Never {
            return false;
        }
        if self.when == When::Always {
            return true;
        }
        let now = Instant::now();
        if self.since.is_none_or(|since| now.duration_since(since) > BUSY_WITHIN) {
            (self.since, self.calls) = (Some(now), 0);
        }
        self.calls += passed;
        self.calls >= BUSY_CALLS && self.not_before.is_none_or(|at| at <= now)
    }

    fn take(&mut self) -> TakenBack {
        let Some(open) = self.open.take() else { return TakenBack::default() };
        self.pause = match open.end.as_ref().map_or(0, FrontEnd::passed) {
            WORTH_IT.. => FIRST_PAUSE,
            _ => (self.pause * 2).min(LONGEST_PAUSE),
        };
        self.not_before = Some(Instant::now() + self.pause);
        (self.since, self.calls) = (None, 0);
        open.end.map(FrontEnd::take_back).unwrap_or_default()
    }
}

impl Front<'_> {
    pub(super) fn is_shortcut_open(&self) -> bool {
        self.upstream.shared().is_some_and(|shared| shared.shortcut.is_open())
    }

    /// Asks for one if the session is busy. So many calls of the host have just passed.
    pub(super) fn consider_shortcut(&mut self, passed: usize) {
        let Some(shared) = self.upstream.shared_mut() else { return };
        if !shared.shortcut.is_worth_it(passed) || !self.session.is_usual() || !self.is_quiet() {
            return;
        }
        let Some(Shared { link, shortcut, .. }) = self.upstream.shared_mut() else { return };
        shortcut.number += 1;
        shortcut.open =
            Some(Open { end: None, seen: 0, look_at: Instant::now() + LOOK_EVERY, is_called_back: false });
        link.say(&ToSteward::Shortcut(shortcut.number));
    }

    /// Whether nothing is on its way in the front, and the host's streams can be handed over.
    fn is_quiet(&self) -> bool {
        let Some(link) = self.upstream.shared().map(|shared| &shared.link) else { return false };
        link.is_up
            && !link.is_settling
            && !link.comes_back
            && link.parting.is_none()
            && link.look().is_some_and(LineChannel::is_flushed)
            && self.from_host.as_ref().is_some_and(Lines::is_between_lines)
            && self.to_host.is_empty()
            && !self.host_gone
            && !self.host_deaf
            && self.hung_up.is_none()
            && self.farewell.is_none()
            && matches!(stdin_kind(), StdinKind::Pipe(_) | StdinKind::Socket(_))
            && can_be_moved_to(self.host.stdout)
    }

    /// The steward says nothing more before the shortcut begins: hands the host's streams over.
    pub(super) fn begin_shortcut(&mut self, number: u64) {
        let calls = if self.is_quiet() { self.session.usual_calls() } else { None };
        let Some(Shared { link, shortcut, .. }) = self.upstream.shared_mut() else { return };
        let Some(open) = shortcut.open.as_mut().filter(|open| !open.is_called_back && shortcut.number == number)
        else {
            return; // the steward has been told
        };
        let streams = [self.host.stdin, self.host.stdout];
        let end = calls.zip(link.socket()).and_then(|(calls, socket)| FrontEnd::open(&calls, socket, streams).ok());
        match end {
            Some(end) => {
                self.session.calls_are_away();
                open.seen = end.activity();
                open.end = Some(end);
                link.say(&ToSteward::ShortcutBegins(number));
            }
            // Not now, or not without more files or memory: it goes on as it did.
            None => {
                open.is_called_back = true;
                link.say(&ToSteward::EndShortcut(number));
            }
        }
    }

    /// Calls a shortcut back over which nothing has passed for a while. What is still in flight then is the front's to watch.
    pub(super) fn look_at_shortcut(&mut self) {
        let now = Instant::now();
        let Some(shortcut) = self.upstream.shared_mut().map(|shared| &mut shared.shortcut) else { return };
        if shortcut.deadline().is_none_or(|at| at > now) {
            return;
        }
        let Some(open) = &mut shortcut.open else { return };
        let now_seen = open.activity();
        if std::mem::replace(&mut open.seen, now_seen) == now_seen {
            self.call_shortcut_back();
        } else {
            open.look_at = now + LOOK_EVERY;
        }
    }

    /// Asks the steward for the host's streams.
    pub(super) fn call_shortcut_back(&mut self) {
        let Some(Shared { link, shortcut, .. }) = self.upstream.shared_mut() else { return };
        if let Some(open) = &mut shortcut.open
            && !std::mem::replace(&mut open.is_called_back, true)
        {
            link.say(&ToSteward::EndShortcut(shortcut.number));
        }
    }

    /// The steward has let go of this one. Returns what the host has said and no process has taken.
    pub(super) fn shortcut_is_over(&mut self, number: u64) -> Vec<u8> {
        let shortcut = self.upstream.shared().map(|shared| &shared.shortcut);
        if shortcut.is_some_and(|shortcut| shortcut.number == number) {
            self.take_shortcut_back()
        } else {
            Vec::new()
        }
    }

    /// No other process uses the host's streams any more: takes back what was on its way. Returns what the host has said and no process has
    /// taken.
    pub(super) fn take_shortcut_back(&mut self) -> Vec<u8> {
        let now = self.now();
        let Some(shared) = self.upstream.shared_mut() else { return Vec::new() };
        let TakenBack { calls, undelivered, untaken } = shared.shortcut.take();
        if !calls.is_empty() {
            self.session.calls_are_back(calls, now);
        }
        if self.tell_host(&undelivered).is_err() {
            self.host_is_deaf();
        }
        untaken
    }

    /// Takes in what the host has said to the steward.
    pub(super) fn hear_again(&mut self, mut untaken: &[u8]) {
        while !untaken.is_empty()
            && let Some(mut lines) = self.from_host.take()
        {
            let space = lines.space();
            let count = space.len().min(untaken.len());
            space[..count].copy_from_slice(&untaken[..count]);
            lines.filled(count);
            untaken = &untaken[count..];
            self.host_says(lines, false);
        }
    }
}
