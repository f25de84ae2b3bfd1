//! The steward is killed between any two of its steps: what the host has said, and what was answered, is lost in none of them, and
//! nothing is there twice.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nostray_rpc::{Found, Id};
use nostray_sys::local;
use nostray_sys::stream::{self, Pipe, do_not_wait};

use super::front_end::{FrontEnd, TakenBack};
use super::memory::{FIRST_LINE, HALF, Inbox, MAX_CALLS, Memory};
use super::steward_end::{StewardEnd, Unusual};
use crate::session::Protocol;

fn call(id: impl std::fmt::Display) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{}}}}\n")
}

fn result(id: impl std::fmt::Display, filler: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"text\":\"{filler}\"}}}}\n")
}

fn ids(ids: impl IntoIterator<Item = i64>) -> Vec<Id> {
    ids.into_iter().map(Id::Int).collect()
}

/// A host with both ends of a shortcut.
struct Stage {
    says: File,
    hears: File,
    front: FrontEnd,
    steward: StewardEnd,
}

impl Stage {
    fn new(calls: &[Id]) -> Self {
        let (stdin, stdout) = (Pipe::new().expect("pipe"), Pipe::new().expect("pipe"));
        do_not_wait(&stdin.reader).expect("a pipe");
        do_not_wait(&stdout.reader).expect("a pipe");
        let (a, b) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let (a, b) = (OwnedFd::from(a), OwnedFd::from(b));
        let front = FrontEnd::open(calls, &a, [stdin.reader.as_fd(), stdout.writer.as_fd()]).expect("a shortcut");
        let mut handed = Vec::new();
        local::receive_with(b.as_fd(), &mut [0], &mut handed).expect("descriptors");
        let steward = StewardEnd::take(handed, Protocol::JsonRpc, usize::MAX).expect("a shortcut");
        Self { says: File::from(stdin.writer), hears: File::from(stdout.reader), front, steward }
    }

    /// The host says this, and the steward takes what it may. Returns how many lines that were.
    fn say(&mut self, text: &str) -> usize {
        self.says.write_all(text.as_bytes()).expect("there is room");
        let (mut room, mut taken) = (Vec::new(), 0);
        let mut lines = self.steward.read(&mut room).expect("usual").expect("lines");
        while let Some(Found::Whole(span)) = lines.next_found() {
            if !self.steward.takes(lines.bytes(span.text), span.raw.len()) {
                break;
            }
            taken += 1;
        }
        self.steward.return_lines(lines, &mut room);
        taken
    }

    /// The steward has this for the host.
    fn answer(&mut self, out: &mut Vec<u8>, line: &str) -> bool {
        out.extend_from_slice(line.as_bytes());
        self.steward.passes(line.trim_end().as_bytes(), out.len())
    }

    fn heard(&mut self) -> String {
        let mut heard = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.hears.read(&mut buffer) {
            heard.extend_from_slice(&buffer[..count]);
        }
        String::from_utf8(heard).expect("text")
    }

    /// The steward is gone, however.
    fn over(self) -> TakenBack {
        drop(self.steward);
        self.front.take_back()
    }
}

#[test]
fn what_is_usual_passes_and_what_was_in_flight_before_counts() {
    let mut stage = Stage::new(&ids([7, 8]));
    assert_eq!(stage.say(&(call(1) + &call("\"one\""))), 2);
    let mut out = Vec::new();
    for line in [result(8, "early"), result("\"one\"", "late")] {
        assert!(stage.answer(&mut out, &line));
    }
    stage.steward.write(&mut out).expect("the host reads");
    assert!(out.is_empty());
    assert_eq!(stage.heard(), result(8, "early") + &result("\"one\"", "late"));
    assert!(stage.front.passed() > 0);
    assert_eq!(stage.over(), TakenBack { calls: ids([7, 1]), ..TakenBack::default() });
}

#[test]
fn from_the_first_unusual_line_on_all_is_the_fronts() {
    let unusual = [
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n".to_owned(),
        "garbage\n".to_owned(),
        "\n".to_owned(),
        "!{\"end-shortcut\":1}\n".to_owned(),
        call(1),
        call(format!("\"{}\"", "x".repeat(50))),
        "[]\n".to_owned(),
        // Two readers could take it for two calls.
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{},\"id\":4}\n".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"method\":\"other\"}\n".to_owned(),
    ];
    for line in unusual {
        let mut stage = Stage::new(&[]);
        let rest = line + &call(2) + "{\"half";
        assert_eq!(stage.say(&(call(1) + &rest)), 1, "{rest}");
        let expected = TakenBack { calls: ids([1]), untaken: rest.clone().into_bytes(), ..TakenBack::default() };
        assert_eq!(stage.over(), expected, "{rest}");
    }
}

#[test]
fn an_answer_that_is_not_usual_does_not_pass() {
    let mut stage = Stage::new(&ids([1, 2]));
    let mut out = Vec::new();
    let unusual = [
        result(3, "for no call"),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}\n".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n".to_owned(),
        "{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"roots/list\"}\n".to_owned(),
    ];
    for line in unusual {
        assert!(!stage.answer(&mut out, &line), "{line}");
    }
    let mut broken = result(1, "").into_bytes();
    broken.splice(40..40, [0xff]);
    assert!(!stage.steward.passes(broken.trim_ascii_end(), broken.len()));
    assert!(stage.answer(&mut out, &result(1, "once")));
    assert!(!stage.answer(&mut out, &result(1, "twice")));
}

/// As the steward does it, with a kill after each step. What counts: each call is answered by what the host has heard, by what is taken back
/// for it, or is still in flight, and by one of them alone.
#[test]
fn whichever_step_an_answer_is_at_it_is_in_one_place() {
    let lines: Vec<_> = (1..=3).map(|id| result(id, &"x".repeat(20))).collect();
    let all = lines.concat();
    // Nothing was written to the transit yet.
    let mut stage = Stage::new(&ids(1..=3));
    let mut out = Vec::new();
    lines.iter().for_each(|line| assert!(stage.answer(&mut out, line)));
    assert_eq!(stage.over(), TakenBack { calls: ids(1..=3), ..TakenBack::default() });
    // Written, not marked.
    let stage = Stage::new(&ids(1..=4));
    stage.steward.write_to_transit(all.as_bytes());
    assert_eq!(
        stage.over(),
        TakenBack { calls: ids([4]), undelivered: all.clone().into_bytes(), ..TakenBack::default() }
    );
    // Marked, and moved as far as the host has room.
    let mut stage = Stage::new(&ids(1..=3));
    let filler = vec![b'.'; stream::capacity(stage.hears.as_fd())];
    stage.steward.write_to_host(&filler);
    let mut out = Vec::new();
    lines.iter().for_each(|line| assert!(stage.answer(&mut out, line)));
    stage.steward.write(&mut out).expect("the host is there");
    assert!(out.is_empty() && stage.steward.pending_to_host().is_some());
    let (mut hears, taken) = (stage.hears.try_clone().expect("clone"), stage.over());
    assert_eq!(taken, TakenBack { undelivered: all.clone().into_bytes(), ..TakenBack::default() });
    let mut heard = vec![0; filler.len()];
    hears.read_exact(&mut heard).expect("the filler alone");
    assert!(heard == filler && matches!(hears.read(&mut heard), Ok(0)), "the filler, and the end");
    // Delivered, the calls not yet forgotten.
    let mut stage = Stage::new(&ids(1..=3));
    let mut out = Vec::new();
    lines.iter().for_each(|line| assert!(stage.answer(&mut out, line)));
    stage.steward.write(&mut out).expect("the host reads");
    assert_eq!(stage.heard(), all);
    assert_eq!(stage.over(), TakenBack::default());
}

/// A host may use an id again before it has read the answer to the first call.
#[test]
fn an_id_that_is_used_twice_is_answered_twice() {
    let mut stage = Stage::new(&[]);
    stage.steward.write_to_host(&vec![b'.'; stream::capacity(stage.hears.as_fd())]);
    let mut out = Vec::new();
    for (round, answer) in ["first", "second"].into_iter().enumerate() {
        assert_eq!(stage.say(&call(1)), 1, "{round}");
        assert!(stage.answer(&mut out, &result(1, answer)));
        stage.steward.write(&mut out).expect("the host is there");
    }
    assert_eq!(stage.say(&call(1)), 1);
    // The first answer is in transit, the second waits behind it, and the third call is in flight.
    let back = stage.over();
    assert_eq!(back.calls, ids([1, 1]));
    assert_eq!(back.undelivered, result(1, "first").into_bytes());
}

#[test]
fn a_host_that_reads_slowly_gets_every_byte_once_and_in_order() {
    let mut stage = Stage::new(&[]);
    let (mut out, mut expected, mut heard) = (Vec::new(), String::new(), String::new());
    for id in 0..2000_i64 {
        assert_eq!(stage.say(&call(id)), 1);
        let line = result(id, &"y".repeat(usize::try_from(id * 7 % 300).expect("small")));
        assert!(stage.answer(&mut out, &line));
        expected += &line;
        stage.steward.write(&mut out).expect("the host is there");
        if id % 500 == 499 {
            while !out.is_empty() || stage.steward.pending_to_host().is_some() {
                heard += &stage.heard();
                stage.steward.go_on(&mut out).expect("the host is there");
            }
        }
    }
    heard += &stage.heard();
    assert!(heard == expected);
    assert_eq!(stage.over(), TakenBack::default());
}

#[test]
fn a_table_that_is_full_is_no_reason_to_lose_a_call() {
    let before = ids(0..100);
    let mut stage = Stage::new(&before);
    let mut taken = 0;
    while taken < MAX_CALLS - 100 {
        assert_eq!(stage.say(&call(1000 + taken)), 1);
        taken += 1;
    }
    assert_eq!(stage.say(&call("\"one too many\"")), 0);
    let back = stage.over();
    assert_eq!(back.calls.len(), MAX_CALLS);
    assert_eq!(back.calls[..100], before);
    assert_eq!(back.untaken, call("\"one too many\"").as_bytes());
}

#[test]
fn the_end_of_the_host_is_for_the_front() {
    let mut stage = Stage::new(&[]);
    assert_eq!(stage.say(&(call(1) + "{\"half")), 1);
    assert!(stage.steward.read(&mut Vec::new()).expect("nothing").is_none());
    let Stage { says, front, mut steward, .. } = stage;
    drop(says);
    assert_eq!(steward.read(&mut Vec::new()).err(), Some(Unusual));
    assert_eq!(front.take_back().untaken, b"{\"half");
}

/// Whatever the pieces are, what was not taken is found: also what a steward has read that was killed before it could say so.
#[test]
fn what_was_read_and_not_taken_is_found_however_much_has_passed() {
    let (memory, mut inbox) = (Memory::new().expect("memory"), Inbox::new());
    let Pipe { reader, writer } = Pipe::new().expect("pipe");
    do_not_wait(&reader).expect("a pipe");
    let mut writer = File::from(writer);
    let (mut said, mut taken, mut seed) = (Vec::new(), 0, 7_usize);
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % most
    };
    for round in 0..3000 {
        let piece: Vec<u8> =
            (0..1 + next(3000)).map(|at| b'a' + u8::try_from((round + at) % 26).unwrap_or(0)).collect();
        writer.write_all(&piece).expect("there is room");
        said.extend_from_slice(&piece);
        let range = inbox.read(&memory, &reader).expect("room").expect("something");
        assert_eq!(range.len(), piece.len());
        assert!(memory.untaken() == said[taken..], "{round}");
        // Of what is there, all or a part; never so little that the room runs out.
        let left = said.len() - taken;
        let some = if next(3) == 0 { left } else { left - next(left.min(HALF / 4)) };
        inbox.take(&memory, some);
        taken += some;
        assert!(memory.untaken() == said[taken..], "{round}");
        assert_eq!(inbox.taken(), FIRST_LINE + taken as u64);
    }
    // Read, and not said: the last page of a steward's life.
    writer.write_all(b"read by a steward that was killed\n").expect("there is room");
    inbox.read_and_be_killed(&memory, &reader);
    assert!(memory.untaken() == [&said[taken..], b"read by a steward that was killed\n"].concat());
}

#[test]
fn a_line_that_is_longer_than_the_room_is_for_the_front() {
    let mut stage = Stage::new(&[]);
    let mut text = String::from("{\"long\":\"");
    stage.says.write_all(text.as_bytes()).expect("there is room");
    let mut room = Vec::new();
    loop {
        match stage.steward.read(&mut room) {
            Ok(Some(mut lines)) => {
                assert!(lines.next_found().is_none());
                stage.steward.return_lines(lines, &mut room);
            }
            Ok(None) => panic!("there is something to read"),
            Err(Unusual) => break,
        }
        let more = "z".repeat(4000);
        stage.says.write_all(more.as_bytes()).expect("there is room");
        text += &more;
    }
    let untaken = stage.front.take_back().untaken;
    assert!(text.as_bytes().starts_with(&untaken) && untaken.len() > HALF / 2);
}
