//! An MCP server that offers nothing, for programs of which a test watches only the processes.

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use super::Incoming;
use crate::Failure;

/// Answers requests until its input ends.
pub(crate) fn serve_nothing() -> Result<(), Failure> {
    for line in std::io::stdin().lock().lines() {
        let Ok(Incoming { id: Some(id), method: Some(method), params }) = serde_json::from_str(&line?) else {
            continue;
        };
        let params: Value = params.map_or(Ok(Value::Null), |raw| serde_json::from_str(raw.get()))?;
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": {},
                "serverInfo": { "name": "badchild", "version": "1" },
            }),
            _ => json!({}),
        };
        writeln!(std::io::stdout(), r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)?;
    }
    Ok(())
}
