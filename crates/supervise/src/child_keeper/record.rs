//! What is on record of a child: its state for `ps`, its story for the journal, and the output that was no message.

use nostray_registry::{SAYS_STOPPING, SeriesKeeper, Story, Traffic, masked, short_name};
use nostray_slot::HeldSlot;
use nostray_sys::descriptors::write_to_stderr_at_once;

use super::ChildKeeper;
use super::child::Says;
use crate::machine::{Generation, Moment, State, Why};
use nostray_pen::Rate;

impl ChildKeeper {
    /// Puts the child on record, before there is one. It is contained all the same if that is not possible.
    pub fn open_record(&mut self) {
        let Self { config, opener, id, series, warned, .. } = self;
        if series.is_none() {
            match SeriesKeeper::open(id, &config.spec, &config.details, opener.host()) {
                Ok(opened) => *series = Some(opened),
                Err(_) if *warned => {}
                Err(why) => {
                    write_to_stderr_at_once(&format!("nostray: this child is contained, but not on record: {why}\n"))
                }
            }
        }
    }

    /// Counters for what passes between the sessions and the child, which are on record from now on. None without a record, or without
    /// room for them.
    #[must_use]
    pub fn counters(&mut self) -> Option<Traffic> {
        let series = self.series.as_mut()?;
        let traffic = Traffic::new().ok()?;
        series.counts(traffic.number());
        Some(traffic)
    }

    /// What people call this child.
    #[must_use]
    pub fn name(&self) -> String {
        let unrecorded = || short_name(&masked(&self.config.spec.command));
        self.series.as_ref().map_or_else(unrecorded, SeriesKeeper::name)
    }

    /// Holds a slot from now on, for every child that is started. Fails without a record: if front, spare and guard were killed, the next
    /// claimant of the slot could not find the tree.
    pub fn hold(&mut self, mut tenancy: HeldSlot) -> Result<(), String> {
        let slot = tenancy.slot().to_string();
        let Some(series) = &mut self.series else {
            tenancy.is_over();
            return Err(format!("slot {slot} is only for a child that can be put on record"));
        };
        series.hold(&slot);
        self.config.details.slot = Some(slot);
        self.tenancy = Some(tenancy);
        Ok(())
    }

    /// Whether it holds a slot.
    #[must_use]
    pub fn holds_slot(&self) -> bool {
        self.tenancy.is_some()
    }

    /// What is on record, if it is.
    pub fn record(&mut self) -> Option<&mut SeriesKeeper> {
        self.series.as_mut()
    }

    /// It is over, and the record is not needed any more.
    pub fn close_record(&mut self) {
        if let Some(series) = self.series.take() {
            series.close();
        }
        if let Some(tenancy) = &mut self.tenancy {
            tenancy.is_over();
        }
    }

    /// Logs output of the child that was passed on to no session.
    pub fn log(&mut self, why: &str, line: &[u8]) {
        if let Some(series) = &mut self.series {
            series.printed(why, line);
        }
    }

    /// Sweeps what dead hosts have left.
    pub fn sweep(&mut self) {
        if let Some(sweeper) = self.series.as_ref().and_then(SeriesKeeper::sweep) {
            self.opener.is_sweeper(sweeper);
        }
    }

    /// Writes down what has become of the child. False if that is on record already. `pause` is how long it is until the next
    /// start.
    pub fn put_on_record(
        &mut self,
        state: &State,
        generation: Generation,
        pause: impl FnOnce() -> Moment,
        limit: Rate,
    ) -> bool {
        let nothing = Says::default();
        let says = self.child.as_ref().map_or(&nothing, |child| &child.says);
        if self.told.as_ref().is_some_and(|(told, of, said)| told == state && *of == generation && said == says) {
            return false;
        }
        let says = says.clone();
        let before = self.told.replace((state.clone(), generation, says.clone())).map(|(state, ..)| state);
        let Some(series) = &mut self.series else { return true };
        use nostray_registry::State as Recorded;
        let recorded = match state {
            State::Asleep | State::Ended => Recorded::Asleep,
            State::Starting(_) | State::Ready { .. } if says.is_stopping => {
                Recorded::Stopping { reason: SAYS_STOPPING.to_owned() }
            }
            State::Starting(_) => Recorded::Starting,
            // It has answered, but that is not what the user takes for ready.
            State::Ready { .. } if !says.is_ready => Recorded::Starting,
            State::Ready { .. } => Recorded::Ready,
            State::Stopping { why, .. } => Recorded::Stopping { reason: why.cause().to_string() },
            State::Falling { cause, .. } => Recorded::Stopping { reason: cause.to_string() },
            State::BackingOff { cause } => Recorded::BackingOff { cause: cause.to_string() },
            State::Tripped { cause } => Recorded::Tripped { cause: cause.to_string() },
        };
        let (is_ready, is_stopping) = (recorded == Recorded::Ready, matches!(recorded, Recorded::Stopping { .. }));
        series.enter(recorded, generation.0);
        series.status(says.status.as_deref());
        if let Some(tenancy) = &mut self.tenancy {
            if is_ready {
                tenancy.is_ready();
            } else if is_stopping {
                tenancy.is_stopping();
            }
        }
        let milliseconds = |time: Moment| u64::try_from(time.as_millis()).unwrap_or(0);
        match (state, before) {
            // That a daemon is ready is in the story of its pen, and no call wakes it.
            (State::Ready { .. }, Some(State::Starting(_))) if !self.config.spec.daemon => {
                let after = self.child.as_ref().map_or(Moment::ZERO, |child| child.started.elapsed());
                series.tell(Story::Answering { generation: generation.0, after: milliseconds(after) });
            }
            (State::BackingOff { cause }, _) => series.tell(Story::Respawning {
                generation: generation.0 + 1,
                pause: milliseconds(pause()),
                cause: cause.to_string(),
            }),
            (State::Tripped { cause }, _) => {
                let what =
                    if self.config.spec.daemon { "it is not started" } else { "calls are answered with an error" };
                write_to_stderr_at_once(&format!(
                    "nostray: {cause}; it failed too often ({limit}), and {what} for a while\n"
                ));
                series.tell(Story::Tripped { cause: cause.to_string() });
            }
            // A child that was let go does not come back with a call.
            (State::Asleep, Some(State::Stopping { why, .. }))
                if !self.config.spec.daemon && why != Why::Released =>
            {
                series.tell(Story::Asleep);
            }
            _ => {}
        }
        true
    }
}
