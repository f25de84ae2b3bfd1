//! What is written down: the state of the session for `ps`, its story for the journal, what a server says about itself.

use nostray_registry::Story;
use nostray_sys::descriptors::write_to_stderr_at_once;

use super::Front;
use crate::machine::State;

impl Front<'_> {
    pub(super) fn log(&mut self, why: &str, line: &[u8]) {
        if let Some(series) = &mut self.series {
            series.printed(why, line);
        }
    }

    pub(super) fn save(&mut self) {
        if let Some(cache) = self.session.cache()
            && let Err(error) = cache.save()
        {
            write_to_stderr_at_once(&format!("nostray: what --lazy needs could not be written down: {error}\n"));
        }
    }

    /// Writes down what has become of the child, if it is something else than before.
    pub(super) fn put_on_record(&mut self) {
        let (state, generation) = (self.session.state(), self.session.generation());
        if self.told.as_ref().is_some_and(|(told, of)| told == state && *of == generation) {
            return;
        }
        let state = state.clone();
        let before = self.told.replace((state.clone(), generation)).map(|(state, _)| state);
        if matches!(state, State::Asleep | State::Tripped { .. }) {
            self.save();
        }
        let Some(series) = &mut self.series else { return };
        use nostray_registry::State as Recorded;
        let recorded = match &state {
            State::Asleep | State::Ended => Recorded::Asleep,
            State::Starting(_) => Recorded::Starting,
            State::Ready { .. } => Recorded::Ready,
            State::Stopping { why, .. } => Recorded::Stopping { reason: why.cause().0 },
            State::Falling { cause, .. } => Recorded::Stopping { reason: cause.0.clone() },
            State::BackingOff { cause } => Recorded::BackingOff { cause: cause.0.clone() },
            State::Tripped { cause } => Recorded::Tripped { cause: cause.0.clone() },
        };
        series.enter(recorded, generation.0);
        match (&state, before) {
            (State::Ready { .. }, Some(State::Starting(_))) => {
                let after = self.child.as_ref().map_or(0, |child| child.started.elapsed().as_millis());
                series.tell(Story::Answering { generation: generation.0, after: u64::try_from(after).unwrap_or(0) });
            }
            (State::BackingOff { cause }, _) => {
                let pause =
                    self.session.deadline().map_or(0, |at| at.saturating_sub(self.began.elapsed()).as_millis());
                series.tell(Story::Respawning {
                    generation: generation.0 + 1,
                    pause: u64::try_from(pause).unwrap_or(0),
                    cause: cause.0.clone(),
                });
            }
            (State::Tripped { cause }, _) => {
                write_to_stderr_at_once(&format!(
                    "nostray: {cause}; it failed too often ({}), and calls are answered with an error for a while\n",
                    self.options.settings.policy.max_failures
                ));
                series.tell(Story::Tripped { cause: cause.0.clone() });
            }
            (State::Asleep, Some(State::Stopping { .. })) => series.tell(Story::Asleep),
            _ => {}
        }
    }
}
