//! What the program ends with. The standard library's own type does not tell its number, which a program without the standard
//! library's `main` has to return.

use nostray_sys::process::Code;

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitCode(Code);

impl ExitCode {
    /// The command did what it was asked to do, and all is well.
    pub const SUCCESS: Self = Self(0);
    /// The command worked, and what it looked at is not well.
    pub const FAILURE: Self = Self(1);

    /// The number that the program returns to the kernel.
    #[must_use]
    pub fn number(self) -> Code {
        self.0
    }
}

impl From<Code> for ExitCode {
    fn from(number: Code) -> Self {
        Self(number)
    }
}
