//! JSON-RPC as it goes over a pipe: where a line ends, what it is, whose it is, and how to write one. There is no I/O here.
//!
//! Whoever stands between a host and its child must know a message's id and method, and nothing else about it. So a line is
//! cut out of what was read ([`Lines`]), its outermost members are looked at ([`read`]), and what is inside them passes as
//! the bytes it came in: it is only counted through, never parsed, copied or written anew. A line that is longer than anybody
//! wants to keep is looked at while it goes by ([`LongLineReader`]), so that whoever waits for it can be told.

mod agreement;
mod envelope;
mod framing;
mod id;
mod long_line;
mod members;
mod quick_read;
mod reply;
mod scan;
mod text;

pub use agreement::{Agreed, Agreement, Disagreement, Refusal};
pub use envelope::{Envelope, Kind, Message, NotAMessage, Outcome, read};
pub use framing::{Found, Line, Lines, Span};
pub use id::{Id, IdToken};
pub use long_line::{LineSummary, LongLineReader};
pub use members::{find, members};
pub use quick_read::{QuickEnvelope, QuickSpans, quick_read, quick_read_spans};
pub use reply::{error, error_to, errors, notification, request, result, result_to, with_id};
