//! How a host and the child of a lease speak with each other: the protocol, and the handshake with which every new child is greeted.

use serde_json::{Value, json};

/// The protocol that the child of a [`crate::Lease`] speaks. Both are JSON-RPC 2.0, one message a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// The Model Context Protocol. A call that is dropped or times out is cancelled by `notifications/cancelled`.
    #[default]
    Mcp,
    /// Any other JSON-RPC 2.0. A call that is dropped or times out is cancelled by `$/cancelRequest`, as in the Language Server Protocol.
    JsonRpc,
}

impl Protocol {
    /// The notification by which a call is cancelled.
    pub(crate) fn cancel_method(self) -> &'static str {
        match self {
            Self::Mcp => "notifications/cancelled",
            Self::JsonRpc => "$/cancelRequest",
        }
    }

    /// The parameters of that notification, for the call with this id.
    pub(crate) fn cancel_params(self, id: u64) -> Value {
        match self {
            Self::Mcp => json!({ "requestId": id, "reason": "the caller does not wait any more" }),
            Self::JsonRpc => json!({ "id": id }),
        }
    }
}

/// What every new child of a [`crate::Lease`] is told before anything else.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Handshake {
    /// No handshake: the child is ready with its first answer.
    #[default]
    None,
    /// These requests, one after the other, each when the child has answered the one before; then these notifications.
    Messages {
        /// Methods with their parameters.
        requests: Vec<(String, Value)>,
        /// Methods with their parameters.
        notifications: Vec<(String, Value)>,
    },
}

impl Handshake {
    /// The handshake of an MCP client without capabilities; see [`McpClient`] for one with.
    #[must_use]
    pub fn mcp(protocol_version: &str, client_name: &str, client_version: &str) -> Self {
        McpClient::new(protocol_version, client_name, client_version).into()
    }
}

/// What an MCP client says of itself in the handshake of MCP up to 2025-11-25. Later versions of MCP have no handshake.
///
/// ```
/// use nostray::{LeaseSpec, McpClient};
/// use serde_json::json;
///
/// // A host that answers `sampling/createMessage` says so, or no server asks.
/// let client = McpClient::new("2025-06-18", "my-host", "1.0").capability("sampling", json!({}));
/// let spec = LeaseSpec::builder("some-server").handshake(client).build()?;
/// # Ok::<(), nostray::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct McpClient {
    protocol_version: String,
    name: String,
    version: String,
    capabilities: serde_json::Map<String, Value>,
}

impl McpClient {
    /// A client without capabilities.
    pub fn new(protocol_version: &str, name: &str, version: &str) -> Self {
        let (protocol_version, name, version) = (protocol_version.into(), name.into(), version.into());
        Self { protocol_version, name, version, capabilities: serde_json::Map::new() }
    }

    /// Adds a capability: `sampling`, `roots`, `elicitation` and so on. Answer what the server asks then with [`crate::Lease::handle`].
    pub fn capability(mut self, name: &str, settings: Value) -> Self {
        self.capabilities.insert(name.to_owned(), settings);
        self
    }
}

impl From<McpClient> for Handshake {
    fn from(client: McpClient) -> Self {
        let McpClient { protocol_version, name, version, capabilities } = client;
        let params = json!({
            "protocolVersion": protocol_version,
            "capabilities": capabilities,
            "clientInfo": { "name": name, "version": version },
        });
        Self::Messages {
            requests: vec![("initialize".to_owned(), params)],
            notifications: vec![("notifications/initialized".to_owned(), json!({}))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_declares_its_capabilities() {
        let client = McpClient::new("2025-06-18", "host", "1").capability("roots", json!({ "listChanged": true }));
        let Handshake::Messages { requests, .. } = client.capability("sampling", json!({})).into() else { panic!() };
        assert_eq!(requests[0].1["capabilities"], json!({ "roots": { "listChanged": true }, "sampling": {} }));
        let Handshake::Messages { requests, .. } = Handshake::mcp("2025-06-18", "host", "1") else { panic!() };
        assert_eq!(requests[0].1["capabilities"], json!({}));
    }
}
