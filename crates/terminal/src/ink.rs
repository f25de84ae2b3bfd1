//! Colours.

/// How a piece of text is to look, as the number of an escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Of more weight than the rest.
    Bold = 1,
    /// Of less weight than the rest.
    Dim = 2,
    /// Needs a person.
    Red = 31,
    /// All is well.
    Green = 32,
    /// Something happens that may need a person.
    Yellow = 33,
    /// Neither well nor ill.
    Cyan = 36,
}

impl Ink {
    /// The text in this colour.
    #[must_use]
    pub fn on(self, text: &str) -> String {
        format!("\x1b[{}m{text}\x1b[0m", self as u8)
    }

    /// The text in this colour, if `in_colour` and if there is any.
    #[must_use]
    pub fn paint(self, text: &str, in_colour: bool) -> String {
        if in_colour && !text.is_empty() { self.on(text) } else { text.to_owned() }
    }
}
