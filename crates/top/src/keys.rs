//! Keys, from the bytes that a terminal sends for them.

use std::time::{Duration, Instant};

/// The rest of a sequence may come later than its ESC, over a slow connection. After this time the ESC was the key of that name.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(50);
/// A longer sequence is none that a terminal sends for a key.
const MAX_SEQUENCE: usize = 32;
const ESC: u8 = 0x1b;

/// A key that was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// With the control key.
    Ctrl(char),
}

/// Reads bytes, and keeps those that do not make a key yet.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    begun: Vec<u8>,
    since: Option<Instant>,
}

enum Parsed {
    /// This key, or none that matters, and how many bytes it was.
    Whole(Option<Key>, usize),
    Begun,
}

impl Keys {
    /// The keys that these bytes complete.
    pub(crate) fn read(&mut self, bytes: &[u8], now: Instant) -> Vec<Key> {
        self.begun.extend(bytes);
        let mut keys = Vec::new();
        while !self.begun.is_empty() {
            let Parsed::Whole(key, length) = parse(&self.begun) else { break };
            self.begun.drain(..length);
            keys.extend(key);
        }
        self.since = (!self.begun.is_empty()).then_some(now);
        keys
    }

    /// When what has begun is over, if nothing more comes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.since.map(|since| since + ESCAPE_TIMEOUT)
    }

    /// What has begun and was not continued in time: an ESC alone is a key.
    pub(crate) fn overdue(&mut self, now: Instant) -> Vec<Key> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return Vec::new();
        }
        self.since = None;
        let begun = std::mem::take(&mut self.begun);
        if begun == [ESC] { vec![Key::Escape] } else { Vec::new() }
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    match bytes {
        [ESC] => Parsed::Begun,
        [ESC, b'[', ..] => sequence(bytes),
        [ESC, b'O'] => Parsed::Begun,
        [ESC, b'O', letter, ..] => Parsed::Whole(by_letter(*letter), 3),
        [ESC, ESC, ..] => Parsed::Whole(Some(Key::Escape), 1),
        // A letter with Alt.
        [ESC, ..] => Parsed::Whole(None, 2),
        [b'\r' | b'\n', ..] => Parsed::Whole(Some(Key::Enter), 1),
        [0x7f | 0x08, ..] => Parsed::Whole(Some(Key::Backspace), 1),
        [control @ 1..=26, ..] => Parsed::Whole(Some(Key::Ctrl(char::from(control - 1 + b'a'))), 1),
        [0..0x20, ..] => Parsed::Whole(None, 1),
        _ => character(bytes),
    }
}

/// ESC `[`, numbers, and a letter or a tilde.
fn sequence(bytes: &[u8]) -> Parsed {
    let is_last = |byte: &u8| (0x40..=0x7e).contains(byte);
    match bytes.iter().skip(2).position(is_last) {
        None if bytes.len() >= MAX_SEQUENCE => Parsed::Whole(None, bytes.len()),
        None => Parsed::Begun,
        Some(at) => {
            let (numbers, last) = (&bytes[2..at + 2], bytes[at + 2]);
            let first = numbers.split(|byte| *byte == b';').next().unwrap_or_default();
            let key = match (last, first) {
                (b'~', b"1" | b"7") => Some(Key::Home),
                (b'~', b"4" | b"8") => Some(Key::End),
                (b'~', b"5") => Some(Key::PageUp),
                (b'~', b"6") => Some(Key::PageDown),
                (letter, _) => by_letter(letter),
            };
            Parsed::Whole(key, at + 3)
        }
    }
}

fn by_letter(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        _ => None,
    }
}

fn character(bytes: &[u8]) -> Parsed {
    let length = match bytes[0] {
        ..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return Parsed::Whole(None, 1),
    };
    match bytes.get(..length).map(std::str::from_utf8) {
        None => Parsed::Begun,
        Some(Ok(text)) => Parsed::Whole(text.chars().next().map(Key::Char), length),
        Some(Err(_)) => Parsed::Whole(None, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_what_terminals_send() {
        let now = Instant::now();
        let pressed = |bytes: &[u8]| Keys::default().read(bytes, now);
        assert_eq!(pressed(b"q/"), [Key::Char('q'), Key::Char('/')]);
        assert_eq!(pressed(b"\x1b[A\x1b[B\x1bOA\x1bOB"), [Key::Up, Key::Down, Key::Up, Key::Down]);
        assert_eq!(pressed(b"\x1b[5~\x1b[6~\x1b[1~\x1b[4~"), [Key::PageUp, Key::PageDown, Key::Home, Key::End]);
        assert_eq!(pressed(b"\x1b[1;5A"), [Key::Up]);
        assert_eq!(pressed("é日".as_bytes()), [Key::Char('é'), Key::Char('日')]);
        assert_eq!(pressed(b"\n\r\x7f\x0c"), [Key::Enter, Key::Enter, Key::Backspace, Key::Ctrl('l')]);
        // A mouse, a paste, a key with Alt, no text.
        assert_eq!(pressed(b"\x1b[<0;3;4Mx\x1b[200~y\x1bz\xffw"), [Key::Char('x'), Key::Char('y'), Key::Char('w')]);
    }

    #[test]
    fn a_sequence_may_come_in_pieces_and_escape_alone_is_a_key() {
        let (mut keys, now) = (Keys::default(), Instant::now());
        for piece in [&b"\x1b"[..], b"[", b"5"] {
            assert_eq!(keys.read(piece, now), []);
            assert_eq!(keys.overdue(now), []);
        }
        assert_eq!(keys.read(b"~", now), [Key::PageUp]);
        assert_eq!(keys.deadline(), None);
        assert_eq!(keys.read(b"\x1b", now), []);
        assert_eq!(keys.overdue(now + ESCAPE_TIMEOUT), [Key::Escape]);
        assert_eq!(keys.read(b"\xe6\x97", now), []);
        assert_eq!(keys.read(b"\xa5", now), [Key::Char('日')]);
        assert_eq!(keys.read(&[b"\x1b[", &[b'1'; 100][..]].concat(), now), []);
        assert_eq!(keys.read(b"q", now), [Key::Char('q')]);
    }
}
