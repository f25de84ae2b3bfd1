//! Real MCP clients and servers (folder `peers`; they need Python and Node) get the same answers with nostray as
//! without it.

mod conformance;
mod hostile;
mod managed;
mod servers;
mod shared;

use testkit::peers as install;
