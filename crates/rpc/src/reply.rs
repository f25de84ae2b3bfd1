//! Writes messages as lines. Each ends in 0x0A and contains no other 0x0A.

use serde_json::Value;

use crate::envelope::Envelope;
use crate::id::Id;
use crate::text::escape;

/// An error response.
#[must_use]
pub fn error(id: &Id, code: i64, message: &str, data: Option<&Value>) -> Vec<u8> {
    let mut line = Vec::with_capacity(128 + message.len());
    push_error(&mut line, id, code, message, data);
    line.push(b'\n');
    line
}

/// A batch of the same error response to each request.
#[must_use]
pub fn errors(ids: &[Id], code: i64, message: &str, data: Option<&Value>) -> Vec<u8> {
    let mut line = vec![b'['];
    for (index, id) in ids.iter().enumerate() {
        if index > 0 {
            line.push(b',');
        }
        push_error(&mut line, id, code, message, data);
    }
    line.extend_from_slice(b"]\n");
    line
}

/// An error response to an id that is JSON already: a token as it came, or null.
#[must_use]
pub fn error_to(raw_id: &[u8], code: i64, message: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(128 + message.len());
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    line.extend_from_slice(raw_id);
    push_error_member(&mut line, code, message, None);
    line.push(b'\n');
    line
}

fn push_error(line: &mut Vec<u8>, id: &Id, code: i64, message: &str, data: Option<&Value>) {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(line);
    push_error_member(line, code, message, data);
}

fn push_error_member(line: &mut Vec<u8>, code: i64, message: &str, data: Option<&Value>) {
    line.extend_from_slice(b",\"error\":{\"code\":");
    line.extend_from_slice(code.to_string().as_bytes());
    line.extend_from_slice(b",\"message\":");
    escape(message, line);
    if let Some(data) = data {
        line.extend_from_slice(b",\"data\":");
        line.extend_from_slice(data.to_string().as_bytes());
    }
    line.extend_from_slice(b"}}");
}

/// A response with a result that is JSON already.
#[must_use]
pub fn result(id: &Id, raw_result: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(64 + raw_result.len());
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(&mut line);
    line.extend_from_slice(b",\"result\":");
    push_raw(&mut line, raw_result);
    line.extend_from_slice(b"}\n");
    line
}

/// A response with an id and a result that are JSON already.
#[must_use]
pub fn result_to(raw_id: &[u8], raw_result: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(64 + raw_id.len() + raw_result.len());
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    line.extend_from_slice(raw_id);
    line.extend_from_slice(b",\"result\":");
    push_raw(&mut line, raw_result);
    line.extend_from_slice(b"}\n");
    line
}

/// A notification, with params that are JSON already.
#[must_use]
pub fn notification(method: &str, raw_params: Option<&[u8]>) -> Vec<u8> {
    let mut line = Vec::with_capacity(64 + method.len() + raw_params.map_or(0, <[u8]>::len));
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    push_call(&mut line, method, raw_params);
    line
}

/// A request, with params that are JSON already.
#[must_use]
pub fn request(id: &Id, method: &str, raw_params: Option<&[u8]>) -> Vec<u8> {
    let mut line = Vec::with_capacity(64 + method.len() + raw_params.map_or(0, <[u8]>::len));
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    id.write(&mut line);
    push_call(&mut line, method, raw_params);
    line
}

fn push_call(line: &mut Vec<u8>, method: &str, raw_params: Option<&[u8]>) {
    line.extend_from_slice(b",\"method\":");
    escape(method, line);
    if let Some(params) = raw_params {
        line.extend_from_slice(b",\"params\":");
        push_raw(line, params);
    }
    line.extend_from_slice(b"}\n");
}

/// Appends JSON, and replaces line ends by spaces: within JSON, a line end can only be whitespace.
fn push_raw(line: &mut Vec<u8>, raw: &[u8]) {
    let from = line.len();
    line.extend_from_slice(raw);
    let mut at = from;
    while let Some(ending) = memchr::memchr2(b'\n', b'\r', &line[at..]) {
        line[at + ending] = b' ';
        at += ending + 1;
    }
}

/// The same message with another id; all other bytes stay the same. A notification has no id and stays as it is.
#[must_use]
pub fn with_id(envelope: &Envelope<'_>, id: &Id) -> Vec<u8> {
    let mut line = Vec::with_capacity(envelope.text.len() + 32);
    match envelope.around_id() {
        Some((before, after)) => {
            line.extend_from_slice(before);
            id.write(&mut line);
            line.extend_from_slice(after);
        }
        None => line.extend_from_slice(envelope.text),
    }
    line.push(b'\n');
    line
}
