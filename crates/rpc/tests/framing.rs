//! Lines are cut at 0x0A and nowhere else, however they come.

mod checks;

use std::time::{Duration, Instant};

use checks::{CORPUS, Dice, Owned, framing, lines, mutate, naive_lines};
use nostray_rpc::{Id, Line, LineSummary, Lines};

fn cut(stream: &[u8], max_line: usize) -> Vec<Owned> {
    lines(stream, max_line, || usize::MAX, || true)
}

fn texts(stream: &[u8]) -> Vec<Vec<u8>> {
    let text = |line| match line {
        Owned::Whole { text, .. } => text,
        Owned::TooLong { .. } => panic!("too long"),
    };
    cut(stream, 1 << 20).into_iter().map(text).collect()
}

#[test]
fn only_a_line_feed_ends_a_line() {
    assert_eq!(
        texts("a\u{2028}b\u{2029}c\u{85}d\x0be\rf\n".as_bytes()),
        ["a\u{2028}b\u{2029}c\u{85}d\x0be\rf".as_bytes()]
    );
}

#[test]
fn one_carriage_return_belongs_to_the_ending() {
    let lines = cut(b"a\r\nb\r\r\n\r\n\nc\r", 1 << 20);
    let line = |text: &[u8], raw: &[u8]| Owned::Whole { text: text.into(), raw: raw.into() };
    assert_eq!(
        lines,
        [line(b"a", b"a\r\n"), line(b"b\r", b"b\r\r\n"), line(b"", b"\r\n"), line(b"", b"\n"), line(b"c", b"c\r")]
    );
}

#[test]
fn half_a_line_is_held_until_its_end_comes() {
    let mut lines = Lines::new(100);
    for piece in [&b"{\"a\""[..], b":1", b"}"] {
        lines.space()[..piece.len()].copy_from_slice(piece);
        lines.filled(piece.len());
        assert_eq!(lines.next_line(), None);
    }
    assert_eq!(lines.len(), 7);
    lines.space()[0] = b'\n';
    lines.filled(1);
    assert_eq!(lines.next_line(), Some(Line::Whole { text: b"{\"a\":1}", raw: b"{\"a\":1}\n" }));
    assert_eq!(lines.next_line(), None);
    assert_eq!(lines.len(), 0);
    assert_eq!(lines.rest(), None);
}

#[test]
fn what_comes_after_the_last_line_feed_is_the_rest() {
    assert_eq!(texts(b"a\nb"), [b"a", b"b"]);
    assert_eq!(texts(b"a\n"), [b"a"]);
    assert_eq!(texts(b""), Vec::<Vec<u8>>::new());
}

#[test]
fn a_line_that_is_too_long_is_told_with_its_length_and_what_was_seen_of_it() {
    let text = br#"{"jsonrpc":"2.0","id":7,"result":"xxxxxxxxxx"}"#;
    for ending in [&b"\n"[..], b"\r\n", b""] {
        let stream = [text, ending].concat();
        let summary = LineSummary { id: Some(Id::Int(7)), method: None, is_response: true };
        let length = text.len();
        assert_eq!(cut(&stream, length - 1), [Owned::TooLong { length: length as u64, summary }]);
        assert_eq!(cut(&stream, length), [Owned::Whole { text: text.to_vec(), raw: stream.clone() }]);
    }
}

#[test]
fn a_line_may_be_longer_than_memory() {
    let mut lines = Lines::new(1 << 20);
    let pieces = 3000_u64;
    for _ in 0..pieces {
        let space = lines.space();
        assert!(space.len() < 4 << 20);
        let count = 64 << 10;
        let count = count.min(space.len());
        lines.filled(count);
        assert_eq!(lines.next_line(), None);
        assert!(lines.len() <= (1 << 20) + (64 << 10));
    }
    let Some(Line::TooLong { length, .. }) = lines.rest() else { panic!("kept") };
    assert!(length > pieces * (16 << 10));
}

#[test]
fn every_chunking_of_the_corpus_gives_the_same_lines() {
    for ending in [&b"\n"[..], b"\r\n"] {
        let stream = CORPUS.join(ending);
        for max_line in [0, 1, 20, 70, usize::MAX] {
            let expected = naive_lines(&stream, max_line);
            for size in 1..200 {
                assert_eq!(lines(&stream, max_line, || size, || true), expected, "pieces of {size}");
            }
            for at in 0..stream.len() {
                let mut sizes = [at.max(1), usize::MAX].into_iter();
                let cut = lines(&stream, max_line, || sizes.next().unwrap_or(usize::MAX), || true);
                assert_eq!(cut, expected, "cut at {at}");
            }
        }
    }
}

#[test]
fn every_chunking_of_generated_streams_gives_the_same_lines() {
    for seed in 0..400 {
        let mut dice = Dice::new(seed);
        let mut stream = Vec::new();
        for _ in 0..dice.below(60) {
            let mut line = dice.pick(CORPUS).to_vec();
            mutate(&mut line, &mut dice);
            if dice.below(20) == 0 {
                line.extend(std::iter::repeat_n(b'x', dice.below(200_000)));
            }
            stream.extend(line);
            stream.extend(dice.pick(&["\n", "\r\n", "\n\n", "\r", ""]).bytes());
        }
        let max_line = *dice.pick(&[0, 1, 60, 1000, 65_535, 65_536, 100_000, usize::MAX]);
        framing(&stream, max_line, seed);
    }
}

#[test]
fn a_line_of_64_mebibytes_in_pieces_of_4_kibibytes_is_searched_once() {
    let mut stream = vec![b'x'; 64 << 20];
    stream.push(b'\n');
    let mut lines = Lines::new(usize::MAX);
    let start = Instant::now();
    let mut length = 0;
    for piece in stream.chunks(4 << 10) {
        lines.space()[..piece.len()].copy_from_slice(piece);
        lines.filled(piece.len());
        if let Some(Line::Whole { text, .. }) = lines.next_line() {
            length = text.len();
        }
    }
    assert_eq!(length, 64 << 20);
    // Searching all of it again for each piece would be half a tebibyte, which takes any machine longer than this.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
