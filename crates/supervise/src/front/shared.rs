//! A session whose child is shared: the front attaches to the steward that keeps the child, over a link, and is told what becomes of
//! the child.

use std::time::Duration;

use nostray_sys::descriptors::write_to_stderr_at_once;

use super::Front;
use super::shortcut::Shortcut;
use super::upstream::Upstream;
use crate::backoff::Backoff;
use crate::child_keeper::ChildKeeper;
use crate::error_text::ServerLabel;
use crate::link::{Link, Reached, Share};
use crate::machine::{Cause, Generation, Policy, State, Why};
use crate::wire::{ToFront, ToSteward, parse_control};
use nostray_pen::Rate;

/// The link to a shared child.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) link: Link,
    /// Whether the steward reads and writes the host's streams itself.
    pub(super) shortcut: Shortcut,
    /// What the user wants of the child. The steward keeps to it; the front does if it has to start a child of its own.
    child_policy: Policy,
}

impl Shared {
    pub(super) fn new(share: Share, child_policy: Policy) -> Self {
        Self { link: Link::new(share), shortcut: Shortcut::default(), child_policy }
    }

    /// When the front attaches, which is not when the child is started: a lost link is taken up again at once, for as long as the
    /// session lasts. The steward decides when the child is started, how often, and for how long.
    pub(super) fn policy(on_demand: bool) -> Policy {
        Policy {
            respawn: true,
            backoff: Backoff::for_attaching(),
            max_failures: Rate { times: u32::MAX, within: Duration::from_secs(1) },
            sustained: Duration::from_secs(1),
            on_demand,
            ..Policy::default()
        }
    }

    /// What errors call the child as long as its steward has not said what it is called.
    pub(super) fn name(&self, keeper: &ChildKeeper) -> String {
        self.link.share.attach.key.clone().unwrap_or_else(|| keeper.name())
    }

    /// Something waits for the child.
    pub(super) fn demand(&mut self) {
        if self.link.holds() && !self.link.is_up {
            self.link.say(&ToSteward::Wake);
        }
    }

    /// The child was told all that it must know of this session.
    pub(super) fn say_told(&mut self) {
        if self.link.is_up {
            self.link.say(&ToSteward::Told);
        }
    }

    /// Whether the child is a daemon, which takes no messages.
    pub(super) fn is_daemon(&self) -> bool {
        self.link.share.attach.settings.daemon.is_some()
    }

    /// Without respawn a session ends with the child that it had, also when steward or broker have taken the child with them: the host
    /// recovers by itself, and can do so only if it sees the end.
    fn ends_with_child(&self) -> bool {
        !self.child_policy.respawn && self.link.had_child
    }
}

impl Front<'_> {
    /// Attaches to the steward that keeps the child, or waits for the next child there.
    pub(super) fn attach(&mut self, generation: Generation) {
        let now = self.now();
        let Some(shared) = self.upstream.shared_mut() else { return };
        if shared.link.is_up {
            self.session.child_started(generation, now);
        } else if shared.link.holds() {
            shared.link.say(&ToSteward::Wake);
        } else {
            shared.link.reach();
            self.go_on_with_link();
        }
    }

    /// Detaches. After the end of the host's input, what was asked may still be answered, within `patience`.
    pub(super) fn detach(&mut self, why: Why, patience: Duration) {
        // Nothing that ends a session is taken in while one is open. If it were, what is on its way would count all the same.
        let untaken = self.take_shortcut_back();
        let (generation, now) = (self.session.generation(), self.now());
        let Some(Shared { link, .. }) = self.upstream.shared_mut() else { return };
        self.status.down(&"this session has released it");
        if why == Why::Released && link.is_up && !patience.is_zero() {
            link.fall_silent(patience);
        } else {
            link.part();
            self.session.child_rested(generation, None, now);
            self.settle(None);
        }
        self.hear_again(&untaken);
    }

    /// All has come back that no child has read; what has not was in flight.
    fn settle(&mut self, lost: Option<(Cause, Vec<String>)>) {
        let now = self.now();
        let cause = lost.map(|(cause, stderr)| {
            self.session.stderr(stderr.join("\n").as_bytes());
            cause
        });
        self.session.is_settled(cause.as_ref(), now);
    }

    pub(super) fn go_on_with_link(&mut self) {
        let max_line = self.keeper.config().max_line;
        let Some(Shared { link, shortcut, .. }) = self.upstream.shared_mut() else { return };
        link.look_at_awaited(self.session.waits_for_child() || shortcut.is_called_back());
        link.fall_silent_when_said();
        if link.parting.is_some_and(|until| until <= std::time::Instant::now()) {
            return self.link_is_lost();
        }
        if let Reached::NoWay(why) = link.go_on(max_line) {
            self.fall_back(&why);
        }
    }

    /// There is no way to a shared child, so there is one for this session alone.
    fn fall_back(&mut self, why: &str) {
        let (generation, now) = (self.session.generation(), self.now());
        let Some(Shared { link, child_policy, .. }) = self.upstream.shared_mut() else { return };
        let child_policy = child_policy.clone();
        let is_required = link.share.required;
        self.upstream = Upstream::Own;
        if is_required {
            write_to_stderr_at_once(&format!("nostray: this child cannot be shared: {why}\n"));
            self.keeper.code = nostray_pen::OWN_FAILURE;
            self.status.over(&why);
            self.session.child_hopeless(generation, Cause::not_started(format!("it cannot be shared: {why}")), now);
            return self.perform();
        }
        write_to_stderr_at_once(&format!(
            "nostray: this session has a child of its own, which is not shared: {why} (--require-share makes that an \
             error)\n"
        ));
        self.status.alone(why);
        self.session.adopt(child_policy);
        match self.keeper.keep_in_need() {
            Ok(()) => {
                self.session.call_server(super::label_of_own(&mut self.keeper));
                self.start(generation);
            }
            Err(error) => self.session.child_emptied(generation, Cause::not_started(error.to_string()), now),
        }
        self.perform();
    }

    /// Steward or broker have closed the connection.
    pub(super) fn link_is_lost(&mut self) {
        let untaken = self.take_shortcut_back();
        self.lose_link();
        self.hear_again(&untaken);
    }

    fn lose_link(&mut self) {
        let (generation, now) = (self.session.generation(), self.now());
        let Some(shared) = self.upstream.shared_mut() else { return };
        let ends_with_child = shared.ends_with_child();
        let link = &mut shared.link;
        let (was_parting, was_settling, lost) = (link.parting.is_some(), link.is_settling, link.lost.take());
        let cause = link.why_lost();
        link.part();
        self.status.down(&cause);
        if was_parting {
            self.session.child_rested(generation, None, now);
            self.settle(lost);
        } else if ends_with_child {
            return self.end_with_child(cause, nostray_pen::OWN_FAILURE);
        } else {
            self.session.keep_handshake();
            if was_settling {
                // What has not come back by now will not.
                self.settle(lost);
            }
            self.session.child_died(generation, cause.clone(), now);
            self.session.child_emptied(generation, cause, now);
            // Also one whose child was at rest is to hear of what comes next.
            self.session.wake(now);
        }
        self.perform();
    }

    /// Answers every call with an error, and ends the session.
    fn end_with_child(&mut self, cause: Cause, code: u8) {
        let (generation, now) = (self.session.generation(), self.now());
        let rule = "since --respawn was not given, or --no-respawn was";
        write_to_stderr_at_once(&format!(
            "nostray: the shared child is gone and is not started again, {rule}: {cause}\n"
        ));
        self.keeper.code = code;
        self.status.over(&cause);
        self.session.ends_with_child();
        self.session.child_is_over(generation, cause, now);
        self.session.stop(now);
        self.perform();
    }

    /// Whether a line is for us and not for the host.
    pub(super) fn is_control(&self, text: &[u8]) -> bool {
        self.upstream.shared().is_some_and(|shared| text.first() == Some(&b'!') || shared.link.comes_back)
    }

    /// Takes in such a line. False if what follows it is of no interest.
    pub(super) fn on_control(&mut self, text: &[u8]) -> bool {
        let (generation, now) = (self.session.generation(), self.now());
        let Some(shared) = self.upstream.shared_mut() else { return false };
        let (ends_with_child, is_daemon) = (shared.ends_with_child(), shared.is_daemon());
        let respawns = shared.child_policy.respawn;
        let link = &mut shared.link;
        if std::mem::take(&mut link.comes_back) {
            if link.is_up {
                link.unread.extend_from_slice(&[text, b"\n"].concat());
                return true;
            }
            self.session.take_back(text, now);
            self.perform();
            return true;
        }
        let Some(message) = parse_control::<ToFront>(text) else { return true };
        // A steward that says one of these has let go of the shortcut, or has not taken it.
        let untaken = match &message {
            ToFront::Down { .. } | ToFront::Leaving | ToFront::Over { .. } | ToFront::Elsewhere { .. } => {
                self.take_shortcut_back()
            }
            ToFront::ShortcutOver(number) => self.shortcut_is_over(*number),
            _ => Vec::new(),
        };
        self.hear_again(&untaken);
        let Some(shared) = self.upstream.shared_mut() else { return false };
        let link = &mut shared.link;
        match message {
            ToFront::ShortcutMayBegin(number) => self.begin_shortcut(number),
            ToFront::ShortcutOver(_) => {}
            ToFront::KeptBy(steward) => link.handed_to(steward),
            ToFront::Welcome { .. } if !link.is_welcome() => {
                // No more files can be opened. The steward finds its ends closed.
                self.link_is_lost();
                return false;
            }
            ToFront::Welcome { id, name } => {
                link.say(&ToSteward::Wake);
                self.status.attached(&id, &name);
                let details = Some(format!("nostray log {id} --output"));
                self.session.call_server(ServerLabel { name, details });
            }
            ToFront::Up(_) if link.is_up => {}
            ToFront::Up(number) => {
                (link.is_up, link.had_child) = (true, true);
                self.status.up(number);
                // Connect also if no call waits: the host may want to know what has changed with the new child.
                self.session.wake(now);
                self.session.child_started(generation, now);
            }
            ToFront::Down { cause, stderr, orderly, for_good } => {
                if for_good {
                    self.session.ends_with_child();
                }
                (link.is_up, link.is_settling) = (false, true);
                self.status.down(&cause);
                link.lost = (!orderly).then_some((cause, stderr));
                let unread = std::mem::take(&mut link.unread);
                link.say(&ToSteward::Heard);
                self.session.child_rested(generation, None, now);
                self.session.child_has_not_read(&unread, now);
            }
            ToFront::News { text } => write_to_stderr_at_once(&format!("nostray: {text}\n")),
            ToFront::Back => link.comes_back = true,
            ToFront::Settled => {
                link.is_settling = false;
                let lost = link.lost.take();
                self.settle(lost);
            }
            ToFront::Elsewhere { variant, why } => {
                link.share.attach.variant = Some(variant);
                link.share.attach.because = Some(why);
                link.had_child = false; // it was never this session's
                link.part();
                self.settle(None);
                self.session.wake(now);
                self.perform();
                // What has come back waits for a child already, and it is another one.
                if let State::Starting(generation) = *self.session.state() {
                    self.attach(generation);
                }
                return false;
            }
            ToFront::Refused { cause, stderr, outlook } => {
                self.session.stderr(stderr.join("\n").as_bytes());
                self.session.refuse(&cause, outlook, now);
            }
            ToFront::Leaving => {
                link.part();
                let cause = Cause::because("was stopped", "the broker that kept it was stopped");
                self.status.down(&cause);
                // The next call brings the child back, and to a daemon there is none.
                if ends_with_child || is_daemon {
                    self.end_with_child(cause, nostray_pen::OWN_FAILURE);
                    return false;
                }
                self.session.keep_handshake();
                let is_needed = self.session.is_waited_for();
                self.session.child_rested(generation, Some(&cause), now);
                if is_needed {
                    self.session.wake(now);
                }
                self.perform();
                return false;
            }
            ToFront::Over { code, why } => {
                let (was_settling, lost) = (link.is_settling, link.lost.take());
                link.part();
                if !respawns {
                    self.session.ends_with_child();
                }
                self.keeper.code = code;
                match &why {
                    Some(why) => self.status.over(why),
                    None => self.status.over(&"it was stopped"),
                }
                if let Some(why) = why {
                    write_to_stderr_at_once(&format!("nostray: the shared child is not started again: {why}\n"));
                    self.session.child_is_over(generation, why, now);
                } else if was_settling {
                    // What has not come back by now will not.
                    self.settle(lost);
                }
                self.session.stop(now);
                self.perform();
                return false;
            }
            ToFront::No { why, for_good } => {
                link.part();
                link.share.required |= for_good;
                self.fall_back(&why);
                return false;
            }
        }
        self.perform();
        true
    }
}
