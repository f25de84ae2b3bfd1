//! What the program ends with. The standard library's own type does not tell its number, which a program without the standard
//! library's `main` has to return.

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(u8);

impl ExitCode {
    /// The command did what it was asked to do, and all is well.
    pub const SUCCESS: Self = Self(0);
    /// The command worked, and what it looked at is not well.
    pub const FAILURE: Self = Self(1);

    /// The number that the program returns to the kernel.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

impl From<u8> for ExitCode {
    fn from(number: u8) -> Self {
        Self(number)
    }
}
