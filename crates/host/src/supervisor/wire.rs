//! JSON-RPC 2.0 messages, as far as a client needs them. `nostray_rpc` writes them. They are read by serde: unlike a relay, a client
//! needs the contents; and it takes answers without `"jsonrpc": "2.0"`, which `nostray_rpc::read` refuses.

use nostray_rpc::Id;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A notification of the child.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// What it is about.
    pub method: String,
    /// What it says.
    pub params: Value,
}

/// A message of the child's.
pub(super) enum Message {
    Answer { id: u64, result: Result<Box<RawValue>, AnswerError> },
    Request { id: Value, method: String, params: Value },
    Notification(Notification),
}

#[derive(Debug)]
pub(super) struct AnswerError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl AnswerError {
    /// Any value makes an error: a call waits for it.
    fn new(error: Value) -> Self {
        let message = match &error["message"] {
            Value::String(message) => message.clone(),
            _ => error.to_string(),
        };
        Self { code: error["code"].as_i64().unwrap_or_default(), message, data: error.get("data").cloned() }
    }
}

#[derive(Deserialize)]
struct Any {
    id: Option<Value>,
    method: Option<String>,
    params: Option<Value>,
    result: Option<Box<RawValue>>,
    error: Option<Value>,
}

/// A call or a notification of our own, read again.
#[derive(Deserialize)]
pub(super) struct Own {
    pub(super) id: Option<u64>,
    pub(super) method: String,
    #[serde(default)]
    pub(super) params: Box<RawValue>,
}

/// What a line of our own says, unless it is an answer.
pub(super) fn parse_own(line: &[u8]) -> Option<Own> {
    serde_json::from_slice(line).ok()
}

/// What a line says, if it is a message.
pub(super) fn parse(line: &[u8]) -> Option<Message> {
    // A list would be taken for the fields of an object in their order.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    let any: Any = serde_json::from_slice(line).ok()?;
    match (any.method, any.id) {
        (Some(method), Some(id)) => Some(Message::Request { id, method, params: any.params.unwrap_or_default() }),
        (Some(method), None) => {
            Some(Message::Notification(Notification { method, params: any.params.unwrap_or_default() }))
        }
        (None, Some(id)) => {
            let result = match (any.error, any.result) {
                (Some(error), _) => Err(AnswerError::new(error)),
                (None, Some(result)) => Ok(result),
                // `"result": null` is read as nothing.
                (None, None) => Ok(RawValue::from_string("null".to_owned()).ok()?),
            };
            Some(Message::Answer { id: id.as_u64()?, result })
        }
        (None, None) => None,
    }
}

pub(super) fn request(id: u64, method: &str, params: &RawValue) -> Vec<u8> {
    nostray_rpc::request(&Id::from(id.cast_signed()), method, given(params))
}

pub(super) fn notification(method: &str, params: &RawValue) -> Vec<u8> {
    nostray_rpc::notification(method, given(params))
}

/// JSON-RPC knows no parameters that are null.
fn given(params: &RawValue) -> Option<&[u8]> {
    Some(params.get().trim_ascii()).filter(|params| *params != "null").map(str::as_bytes)
}

pub(super) fn answer(id: &Value, result: &Result<Value, super::HandlerError>) -> Vec<u8> {
    let id = id.to_string();
    match result {
        Ok(result) => nostray_rpc::result_to(id.as_bytes(), result.to_string().as_bytes()),
        Err(error) => nostray_rpc::error_to(id.as_bytes(), error.code, &error.message),
    }
}
