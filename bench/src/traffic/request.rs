//! What is sent, and what has to come back: calls of a tool named `echo`, of an exact length, with a number in each; and an
//! account of the answers: a missing, doubled, cut or garbled answer fails the measurement.

use std::ops::Range;

use crate::Failure;

/// All numbers have as many digits, so that all lines of a kind are equally long.
const FIRST: u64 = 1_000_000;
const DIGITS: usize = 7;
/// The number is within so many bytes of one end of an answer, and the payload within three times as many of its begin.
const EDGE: usize = 64;

/// What a message is filled with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// One long string: what a file or an image is.
    Text,
    /// Small objects all over: what a list of results is, and hard work for a reader that looks for the structure.
    Dense,
}

/// A line that is sent again and again, with another number each time.
pub(crate) struct Request {
    line: Vec<u8>,
    number_at: usize,
    payload: Range<usize>,
}

impl Request {
    /// A call whose line is exactly so long, if that is long enough for a call at all.
    pub(crate) fn new(length: usize, filling: Filling) -> Self {
        let before_number = r#"{"jsonrpc":"2.0","id":"#;
        let call = r#","method":"tools/call","params":{"name":"echo","arguments":"#;
        let mut line = format!("{before_number}{FIRST}{call}").into_bytes();
        let (open, close) = match filling {
            Filling::Text => (r#"{"message":""#, "\"}}}\n"),
            Filling::Dense => (r#"{"items":["#, "]}}}\n"),
        };
        line.extend_from_slice(open.as_bytes());
        let start = line.len();
        let end = (length - close.len()).max(start + 1);
        match filling {
            Filling::Text => line.resize(end, b'x'),
            Filling::Dense => fill_densely(&mut line, end),
        }
        line.extend_from_slice(close.as_bytes());
        Self { line, number_at: before_number.len(), payload: start..end }
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// The line with this number.
    pub(crate) fn numbered(&mut self, number: u64) -> &[u8] {
        let digits = (FIRST + number).to_string();
        self.line[self.number_at..self.number_at + DIGITS].copy_from_slice(digits.as_bytes());
        &self.line
    }

    /// Whether an answer has the payload in it.
    pub(crate) fn is_in(&self, answer: &[u8]) -> bool {
        let payload = &self.line[self.payload.clone()];
        (0..answer.len().min(3 * EDGE)).any(|at| answer[at..].starts_with(payload))
    }
}

fn fill_densely(line: &mut Vec<u8>, end: usize) {
    let object = br#"{"k":1,"s":"ab","l":[2,null]},"#;
    while line.len() + 2 * object.len() < end {
        line.extend_from_slice(object);
    }
    line.push(b'"');
    line.resize(end - 1, b'x');
    line.push(b'"');
}

/// The account of the answers to a run of requests.
pub(crate) struct Answers {
    first: u64,
    /// One that was looked at in whole: the others are the same, but for the number.
    model: Vec<u8>,
    number_at: Range<usize>,
    came: Vec<bool>,
}

impl Answers {
    pub(crate) fn to(first: u64, count: usize, model: &[u8]) -> Result<Self, Failure> {
        let number_at = number_in(model).ok_or("an answer without a number")?;
        Ok(Self { first, model: model.to_vec(), number_at, came: vec![false; count] })
    }

    /// Which of the requests a line answers; none if the server says something by itself.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<Option<usize>, Failure> {
        let Some(number) = number_of(line)? else { return Ok(None) };
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let came = at
            .and_then(|at| self.came.get_mut(at))
            .ok_or_else(|| format!("an answer to no request: {}", cut(line)))?;
        if std::mem::replace(came, true) {
            return Err(format!("answered twice: {}", cut(line)).into());
        }
        if line.len() != self.model.len() {
            return Err(format!("{} bytes instead of {}: {}", line.len(), self.model.len(), cut(line)).into());
        }
        let Range { start, end } = self.number_at;
        if line[..start] != self.model[..start] || line[end..] != self.model[end..] {
            return Err(format!("not what the first answer was: {}", cut(line)).into());
        }
        Ok(at)
    }
}

/// The number of the request that a line answers; none if it is no answer.
pub(crate) fn number_of(line: &[u8]) -> Result<Option<u64>, Failure> {
    let head = &line[..line.len().min(EDGE)];
    if is_said_by_itself(line) {
        return Ok(None);
    }
    if position(head, b"\"error\":").is_some() {
        return Err(format!("the server refuses: {}", cut(line)).into());
    }
    let digits = number_in(line).map(|at| &line[at]);
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let number = number.and_then(|number| number.checked_sub(FIRST));
    Ok(Some(number.ok_or_else(|| format!("no answer to anything: {}", cut(line)))?))
}

/// Where an answer has its number: near one of its ends.
fn number_in(line: &[u8]) -> Option<Range<usize>> {
    let edges = [0..line.len().min(EDGE), line.len().saturating_sub(EDGE)..line.len()];
    edges.into_iter().find_map(|edge| {
        let start = edge.start + position(&line[edge.clone()], b"\"id\":")? + 5;
        Some(start..start + line[start..edge.end].iter().take_while(|byte| byte.is_ascii_digit()).count())
    })
}

/// Whether the server says it without being asked.
pub(super) fn is_said_by_itself(line: &[u8]) -> bool {
    position(&line[..line.len().min(EDGE)], b"\"method\":").is_some()
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// As much of a line as a person wants to read.
pub(crate) fn cut(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_long_as_it_was_asked_to_be() {
        for filling in [Filling::Text, Filling::Dense] {
            for length in [200, 64 * 1024, 1 << 20] {
                let mut request = Request::new(length, filling);
                assert_eq!((request.len(), request.numbered(17).len()), (length, length));
                let line = request.numbered(17);
                assert_eq!(line.iter().position(|&byte| byte == b'\n'), Some(length - 1));
                assert!(line.starts_with(br#"{"jsonrpc":"2.0","id":1000017,"#));
            }
        }
    }

    #[test]
    fn an_answer_is_known_whichever_way_round_it_is() {
        let long = "x".repeat(500);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":1000003,"result":"{long}"}}"#),
            format!(r#"{{"result":"{long}","jsonrpc":"2.0","id":1000003}}"#),
        ] {
            assert_eq!(number_of(line.as_bytes()).expect("an answer"), Some(3));
        }
        assert_eq!(number_of(br#"{"method":"notifications/x","jsonrpc":"2.0"}"#).expect("no answer"), None);
        assert!(number_of(br#"{"jsonrpc":"2.0","id":1000003,"error":{"code":1}}"#).is_err());
    }

    #[test]
    fn what_is_missing_doubled_cut_or_garbled_is_noticed() {
        let line = br#"{"jsonrpc":"2.0","id":1000005,"result":{"a":"x"}}"#;
        let to = |first, model: &[u8]| Answers::to(first, 1, model).expect("a number");
        let mut answers = to(5, br#"{"jsonrpc":"2.0","id":1000004,"result":{"a":"x"}}"#);
        assert_eq!(answers.take(line).expect("fine"), Some(0));
        assert!(answers.take(line).is_err_and(|error| error.to_string().contains("twice")));
        assert!(to(6, line).take(line).is_err());
        assert!(to(5, br#"{"jsonrpc":"2.0","id":1000004,"result":{"a":"xx"}}"#).take(line).is_err());
        assert!(to(5, br#"{"jsonrpc":"2.0","id":1000004,"result":{"a":"y"}}"#).take(line).is_err());
    }
}
