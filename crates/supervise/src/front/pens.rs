//! Starting a child, ending it, and noticing that it has ended.

use std::time::{Duration, Instant};

use nostray_pen::{Spec, Witness, Yard, Yielded};
use nostray_registry::{Passport, RecordKeeper};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::poll::{self, Until};
use nostray_sys::process::Ended;
use nostray_sys::signal::Signal;

use super::child::{Child, Ending, KEEPERS_KILLED, order_for};
use super::news::Telling;
use super::{Front, gauge};
use crate::machine::{Cause, Generation, State, Why};

impl Front<'_> {
    pub(super) fn on_signals(&mut self) {
        while let Some(arrived) = self.yard.next_signal() {
            if let Some(at_once) = Yard::asks_to_stop(arrived) {
                self.session.stop(self.now());
                if let Some(child) = &mut self.child {
                    child.ask_to_stop(at_once);
                }
                continue;
            }
            let is_the_end = Yard::is_the_end(arrived);
            match &mut self.child {
                Some(child) if Yard::is_key(arrived) => {
                    child.saw_key(is_the_end);
                    continue;
                }
                None if arrived.signal == Signal::TSTP && Yard::is_key(arrived) => {
                    Yard::stop_with_terminal(arrived.signal);
                    continue;
                }
                _ => {}
            }
            // As without us: the child gets what the host sent, and what follows is the pen's affair.
            if is_the_end && self.child.is_none() && self.session.is_over() {
                self.farewell = Some(Instant::now()); // only the host is waited for, which has no patience left
                continue;
            }
            if is_the_end {
                self.session.stop(self.now());
            }
            match &mut self.child {
                Some(child) => child.pass(arrived, is_the_end),
                None if is_the_end => self.code = Ended::Killed(arrived.signal).shell_code(),
                None => {}
            }
        }
        self.look_after_pen();
    }

    pub(super) fn on_host_ended(&mut self) {
        let events: Vec<_> = self.yard.ends().map(|fd| (fd, Until::Readable)).collect();
        let came = poll::wait(&events, Some(Duration::ZERO)).unwrap_or_default();
        if came.contains(&true) {
            self.host_gone = true;
            self.from_host = None;
            self.session.release(self.now());
            if let Some(child) = &mut self.child {
                child.ending = Ending::EndOfInput(Instant::now());
            }
        }
    }

    /// Takes in what the pen's processes have told.
    pub(super) fn hear(&mut self) {
        let Some(child) = &mut self.child else { return };
        let (lost, generation) = (child.hear(), child.generation);
        if let Some(cause) = lost.filter(|_| !child.may_not_have_been_executed()) {
            self.child_is_lost(generation, &cause);
        }
        self.look_after_pen();
    }

    pub(super) fn child_is_lost(&mut self, generation: Generation, cause: &str) {
        // What it has said before counts.
        self.read_all();
        self.session.child_died(generation, Cause(cause.to_owned()), self.now());
        self.perform();
    }

    pub(super) fn read_all(&mut self) {
        if self.read_child(true).is_err() {
            self.host_is_deaf();
        }
        // Bounded, too: each time is no more than the buffer.
        for _ in 0..64 {
            if !self.read_errors() {
                break;
            }
        }
    }

    /// Looks after the processes of the pen, and notices when none is left.
    pub(super) fn look_after_pen(&mut self) {
        loop {
            let Some(child) = &mut self.child else { return self.yard.reap_others() };
            self.yard.abandon(&child.refused);
            match self.yard.reap(&mut child.penned) {
                Yielded::Front(how) => {
                    child.front_ended = true;
                    if let Ended::Exited(code) = how {
                        self.code = code;
                    }
                }
                Yielded::Stopped(by) => {
                    child.suspended = None;
                    Yard::stop_with_terminal(by);
                    child.penned.go_on();
                }
                Yielded::Nothing => {
                    // All of its keepers were killed: what is left of the tree has been handed to us.
                    let generation = child.generation;
                    if child.take_over(&self.yard, self.options.spec.graces.term()) {
                        self.child_is_lost(generation, KEEPERS_KILLED);
                    }
                    return;
                }
                Yielded::Empty => return self.child_is_gone(),
            }
        }
    }

    pub(super) fn child_is_gone(&mut self) {
        if let Some(child) = &mut self.child {
            child.hear();
        }
        self.read_all();
        let now = self.now();
        let Some(child) = self.child.take() else { return };
        self.next_look = None;
        let cause = match (&child.not_executed, &child.ended) {
            (Some(why), _) => why.clone(),
            (None, Some(how)) => format!("the child {how}"),
            (None, None) if child.guard.is_none() => "it could not be started".to_owned(),
            (None, None) => KEEPERS_KILLED.to_owned(),
        };
        let cause = match child.refused.first() {
            Some(left) => format!("process {} of the last one may not be signalled, and is still there", left.pid),
            None => cause,
        };
        // The first time there is somebody to be told that the command is wrong. And as long as somebody of the last one is
        // left, there is no next one.
        let hopeless = child.not_executed.is_some() && child.generation == Generation(1) || !child.refused.is_empty();
        if let Some(remains) = &child.remains {
            remains.dissolve();
        }
        let ended_by_others = child.ended_by_others && !matches!(self.session.state(), State::Stopping { .. });
        if ended_by_others || child.was_interrupted(self.options.spec.graces) {
            self.session.stop(now);
        }
        let was_put_to_rest =
            matches!(self.session.state(), State::Stopping { why: Why::Hibernate | Why::Memory | Why::Age, .. });
        if hopeless {
            self.session.child_hopeless(child.generation, Cause(cause), now);
        } else {
            self.session.child_emptied(child.generation, Cause(cause), now);
        }
        if was_put_to_rest {
            self.code = 0; // how it ended says nothing about the session
        }
        if let Some(series) = &self.series {
            series.bury(&child.penned.id);
        }
        if child.was_to_be_suspended() {
            Yard::stop_with_terminal(Signal::TSTP);
        }
        // The next one must not inherit what is ours of this one.
        drop(child);
        self.perform();
    }

    pub(super) fn start(&mut self, generation: Generation) {
        let now = self.now();
        // Its end may not have been seen yet, and nothing is started for nobody; nor in vain.
        self.on_host_ended();
        if *self.session.state() != State::Starting(generation) {
            self.session.child_emptied(generation, Why::Released.cause(), now);
            return;
        }
        let spec = Spec { die_with: Vec::new(), ..self.options.spec.clone() };
        let passport = Passport { sweep: false, ..self.options.passport.clone() };
        let keeper: Box<dyn Witness> = Box::new(RecordKeeper::new(passport));
        let id = self.id.in_series(generation.0);
        let started = Telling::new(keeper).map_err(|error| error.to_string()).and_then(|(telling, inbox)| {
            let penned = self.yard.start(&spec, id, Box::new(telling)).map_err(|error| error.to_string())?;
            Ok(Child::new(generation, penned, inbox, self.options.max_line))
        });
        match started {
            Ok(child) => {
                self.child = Some(child);
                self.next_look = self.options.max_memory.map(|_| Instant::now() + gauge::PERIOD);
                self.session.child_started(generation, now);
            }
            Err(why) => {
                write_to_stderr_at_once(&format!("nostray: {why}\n"));
                self.code = nostray_pen::OWN_FAILURE;
                self.session.child_emptied(generation, Cause(why), now);
            }
        }
    }

    pub(super) fn tear_down(&mut self, why: Why) {
        let patience = self.options.spec.graces.eof();
        let Some(child) = &mut self.child else { return };
        child.ending = match (order_for(why), why) {
            (Some(order), _) => Ending::Order(order),
            // Whoever stops it tells it himself; its input stays open until then.
            (None, Why::Stop) => child.ending,
            (None, _) => Ending::EndOfInput(Instant::now() + if self.host_gone { Duration::ZERO } else { patience }),
        };
        child.end_on();
    }

    pub(super) fn look_at_memory(&mut self) {
        self.next_look = Some(Instant::now() + gauge::PERIOD);
        let now = self.now();
        let (Some(child), Some(limit)) = (&self.child, self.options.max_memory) else { return };
        let (Some(gauge), Some((guard, _))) = (&child.gauge, &child.guard) else { return };
        let generation = child.generation;
        if let Some(used) = gauge.over(limit, *guard) {
            self.session.over_memory(generation, used > limit.saturating_mul(2), now);
            self.perform();
        }
    }
}
