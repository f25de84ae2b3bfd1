//! The smallest host: two owners, one child, and nothing left of it.
#![expect(clippy::print_stderr, reason = "an example has something to say")]

use nostray::{Handshake, LeaseSpec, Supervisor};
use serde_json::{Value, json};

nostray::guard!(); // this program guards its own children

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (program, args) = words.split_first().ok_or("give me the command of an MCP server")?;
    let handshake = Handshake::mcp("2025-06-18", "embed", "1.0");
    let spec = LeaseSpec::builder(program).args(args).handshake(handshake).session("chat-17").build()?;
    let first = Supervisor::global().lease(&spec)?;
    let second = Supervisor::global().lease(&spec)?; // the same child
    let tools: Value = first.call("tools/list", &json!({})).await?;
    let count = tools["tools"].as_array().map_or(0, Vec::len);
    eprintln!("{count} tools, of child number {:?}", second.generation());
    drop((first, second)); // and it ends, with its whole tree; as it would if this program were killed
    Supervisor::global().shutdown().await;
    Ok(())
}
