//! The server at the other end: enough of MCP for a host to believe it, and otherwise as fast as a server can be, so that
//! what is measured is the way and not the destination. Every request but the first ones of a session is answered with its
//! own params; to the call of a tool they are the structured content, so that a library that knows results of tools lets it pass. All answers to what one read has brought go out in one write.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::lines::Lines;
use crate::Failure;

const HELLO: &[u8] =
    br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#;
const TOOLS: &[u8] = br#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#;

/// Answers until its input ends.
pub(crate) fn run(start_up: Duration) -> Result<ExitCode, Failure> {
    be_busy(start_up);
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut lines = Lines::new();
    let mut answers = Vec::new();
    while lines.read(&mut input)? {
        while let Some(line) = lines.next() {
            answer(line, &mut answers);
        }
        output.write_all(&answers)?;
        answers.clear();
    }
    Ok(ExitCode::SUCCESS)
}

/// What an interpreter does before its program is loaded.
fn be_busy(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// What a request is made of, as it was written.
#[derive(Default)]
struct Parts<'a> {
    id: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    params: Option<&'a [u8]>,
}

/// Adds the answer, if it is a request.
fn answer(line: &[u8], to: &mut Vec<u8>) {
    let Parts { id: Some(id), method: Some(method), params } = parts(line) else { return };
    let params = params.unwrap_or(b"{}");
    let (before, result, after): (&[u8], _, &[u8]) = match method {
        br#""initialize""# => (b"", HELLO, b""),
        br#""tools/list""# => (b"", TOOLS, b""),
        br#""tools/call""# => (br#"{"content":[],"structuredContent":"#, params, b"}"),
        _ => (b"", params, b""),
    };
    for part in [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#, before, result, after, b"}\n"] {
        to.extend_from_slice(part);
    }
}

/// Takes an object apart, without a look into params where that can be: a client that is in a hurry writes them last, and
/// then they end where the object does.
fn parts(line: &[u8]) -> Parts<'_> {
    let mut found = Parts::default();
    let Some(mut rest) = line.trim_ascii().strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")) else {
        return found;
    };
    loop {
        rest = rest.trim_ascii_start();
        let (key, after) = rest.split_at(value_length(rest));
        let Some(after) = after.trim_ascii_start().strip_prefix(b":") else { return found };
        let after = after.trim_ascii_start();
        if key.trim_ascii_end() == br#""params""# && found.id.is_some() && found.method.is_some() {
            found.params = Some(after);
            return found;
        }
        let (value, after) = after.split_at(value_length(after));
        let value = value.trim_ascii_end();
        match key.trim_ascii_end() {
            br#""id""# => found.id = Some(value),
            br#""method""# => found.method = Some(value),
            br#""params""# => found.params = Some(value),
            _ => {}
        }
        let Some(after) = after.trim_ascii_start().strip_prefix(b",") else { return found };
        rest = after;
    }
}

/// How long the value is with which this begins.
fn value_length(bytes: &[u8]) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b',' | b':' if depth == 0 => return at,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 && !in_string && matches!(byte, b'"' | b'}' | b']') {
            return at + 1;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(line: &str) -> String {
        let mut to = Vec::new();
        answer(line.as_bytes(), &mut to);
        String::from_utf8(to).expect("text")
    }

    #[test]
    fn a_request_is_answered_with_its_params() {
        let expected = "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":[1,\"}\"]}}\n";
        for line in [
            r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":[1,"}"]}}"#,
            r#"{"params":{"a":[1,"}"]},"jsonrpc":"2.0","method":"x","id":7}"#,
            " { \"id\" : 7 , \"method\" : \"x\" , \"params\" : {\"a\":[1,\"}\"]}}\r",
        ] {
            assert_eq!(answered(line), expected, "{line}");
        }
        assert_eq!(
            answered(r#"{"id":"q\"","method":"ping"}"#),
            "{\"jsonrpc\":\"2.0\",\"id\":\"q\\\"\",\"result\":{}}\n"
        );
    }

    #[test]
    fn a_call_of_a_tool_has_a_result_of_one() {
        assert_eq!(
            answered(r#"{"id":7,"method":"tools/call","params":{"name":"echo"}}"#),
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"content\":[],\"structuredContent\":{\"name\":\"echo\"}}}\n"
        );
    }

    #[test]
    fn what_is_no_request_is_not_answered() {
        for line in [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, r#"{"id":1,"result":{}}"#, "", "[]"]
        {
            assert_eq!(answered(line), "", "{line}");
        }
    }

    #[test]
    fn a_host_can_begin_a_session() {
        assert!(answered(r#"{"id":0,"method":"initialize","params":{}}"#).contains("protocolVersion"));
        assert!(answered(r#"{"id":1,"method":"tools/list"}"#).contains("echo"));
    }
}
