//! Where ratatui draws to: the bytes of one frame, in memory. [`crate::screen`] writes them to the terminal without waiting for it.

use std::convert::Infallible;
use std::io::Write;

use nostray_sys::descriptors::terminal_size;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

/// A terminal that does not know its size.
const USUAL_SIZE: Size = Size { width: 80, height: 24 };

/// The bytes of one frame.
#[derive(Debug, Default)]
pub(crate) struct FrameBytes {
    bytes: Vec<u8>,
    /// ratatui says with each frame whether there is a cursor. Only a change is drawn, so that a frame that is like the last one is empty.
    has_cursor: bool,
}

impl FrameBytes {
    /// What was drawn since the last call.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.bytes.write_fmt(text).ok(); // memory takes everything
    }
}

/// The numbers of an escape sequence that sets this look.
fn look_of(cell: &Cell) -> String {
    let mut look = "0".to_owned();
    for (modifier, number) in
        [(Modifier::BOLD, ";1"), (Modifier::DIM, ";2"), (Modifier::UNDERLINED, ";4"), (Modifier::REVERSED, ";7")]
    {
        if cell.modifier.contains(modifier) {
            look += number;
        }
    }
    look += match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    };
    look
}

impl Backend for FrameBytes {
    type Error = Infallible;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let (mut at, mut look) = (None, String::new());
        for (x, y, cell) in content {
            // A character may be wider than the terminal draws it, so a place is named whenever it is not the next column.
            if at != Some((x, y)) {
                self.put(format_args!("\x1b[{};{}H", y + 1, x + 1));
            }
            let wanted = look_of(cell);
            if wanted != look {
                self.put(format_args!("\x1b[{wanted}m"));
                look = wanted;
            }
            self.put(format_args!("{}", cell.symbol()));
            at = cell.symbol().is_ascii().then(|| (x + 1, y));
        }
        if !look.is_empty() {
            self.put(format_args!("\x1b[0m"));
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        if std::mem::replace(&mut self.has_cursor, false) {
            self.put(format_args!("\x1b[?25l"));
        }
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        if !std::mem::replace(&mut self.has_cursor, true) {
            self.put(format_args!("\x1b[?25h"));
        }
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(Position::ORIGIN) // asked for only by a view that is a part of the screen
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> Result<(), Infallible> {
        let Position { x, y } = position.into();
        self.put(format_args!("\x1b[{};{}H", y + 1, x + 1));
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, what: ClearType) -> Result<(), Infallible> {
        let sequence = match what {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        };
        self.put(format_args!("{sequence}"));
        Ok(())
    }

    fn size(&self) -> Result<Size, Infallible> {
        let number = |cells: usize| u16::try_from(cells).ok().filter(|cells| *cells > 0);
        let size = terminal_size(std::io::stdout());
        let size = size.and_then(|size| Some(Size { width: number(size.columns)?, height: number(size.rows)? }));
        Ok(size.unwrap_or(USUAL_SIZE))
    }

    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}
