//! The servers that real clients are tested with.

use std::path::PathBuf;

use crate::install::Kit;

/// A server of the folder `peers`, or server-everything of the MCP project.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Server {
    Python1,
    Python2,
    TypeScript1,
    TypeScript2,
    Rmcp,
    Everything,
}

impl Server {
    /// The server's command.
    pub(crate) fn words(self) -> Option<Vec<PathBuf>> {
        match self {
            Self::Python1 => Kit::Python1.words("bin/python", &["server1.py"]),
            Self::Python2 => Kit::Python2.words("bin/python", &["server2.py"]),
            Self::TypeScript1 => Kit::Node.words("node", &["server1.mjs"]),
            Self::TypeScript2 => Kit::Node.words("node", &["server2.mjs"]),
            Self::Rmcp => Kit::Rmcp.words("debug/server", &[]),
            Self::Everything => {
                let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
                Kit::Node.words("node", &[script, "stdio"])
            }
        }
    }
}

/// A command prefix that appends a line to this file and then executes the server, so that each start is counted.
pub(crate) fn counted(file: PathBuf) -> Vec<PathBuf> {
    ["sh", "-c", "echo start >>\"$0\"; exec \"$@\""].map(PathBuf::from).into_iter().chain([file]).collect()
}
