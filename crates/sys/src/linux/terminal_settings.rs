//! The settings of a terminal: taken, changed for a program that reads single keys, and put back.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};

/// The settings of a terminal at one moment.
#[derive(Debug, Clone)]
pub struct TerminalSettings(Termios);

impl TerminalSettings {
    /// The current settings. An error if it is no terminal.
    pub fn of(terminal: impl AsFd) -> io::Result<Self> {
        Ok(Self(tcgetattr(terminal)?))
    }

    /// The same for a program that reads single keys: no lines, no echo, no Ctrl-S. Ctrl-C, Ctrl-Z and Ctrl-\ stay signals, which the
    /// whole foreground group gets.
    #[must_use]
    pub fn for_single_keys(&self) -> Self {
        let mut settings = self.0.clone();
        settings.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        settings.input_modes.remove(InputModes::IXON);
        settings.special_codes[SpecialCodeIndex::VMIN] = 1;
        settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        Self(settings)
    }

    /// Makes them the settings of a terminal, at once: a terminal whose output is held would never let the output drain.
    pub fn apply_to(&self, terminal: impl AsFd) -> io::Result<()> {
        Ok(tcsetattr(terminal, OptionalActions::Now, &self.0)?)
    }

    /// Whether the terminal still has these settings, as far as they decide how keys are read.
    pub fn are_those_of(&self, terminal: impl AsFd) -> bool {
        let same = |now: Termios| (now.local_modes, now.input_modes) == (self.0.local_modes, self.0.input_modes);
        tcgetattr(terminal).is_ok_and(same)
    }
}

/// Whether it is a terminal.
#[must_use]
pub fn is_terminal(fd: impl AsFd) -> bool {
    isatty(fd)
}
