//! JSON-RPC over a pipe: splits a stream into lines, classifies each message, and writes messages. There is no I/O here.
//!
//! A process between a host and its child needs a message's id and method, and nothing else. [`Lines`] splits the stream,
//! and [`read`] looks at the outermost members of a line. The values of these members pass as the bytes they came in: they are
//! checked for balanced brackets, and never parsed, copied or serialized again. A line above the size limit is not buffered.
//! [`LongLineReader`] finds its id and method as the pieces arrive, so that the caller that waits for this message gets an error.

mod agreement;
mod envelope;
mod framing;
mod id;
mod long_line;
mod members;
mod quick_read;
mod reply;
mod scan;
mod shapes;
mod text;

pub use agreement::{Agreed, Agreement, Disagreement, Member, Places, Refusal};
pub use envelope::{Envelope, Kind, Message, NotAMessage, Outcome, read};
pub use framing::{Found, Line, Lines, Span};
pub use id::{Id, IdToken};
pub use long_line::{LineSummary, LongLineReader};
pub use members::{find, members};
pub use quick_read::{QuickEnvelope, QuickSpans, quick_read, quick_read_spans};
pub use reply::{error, error_to, errors, notification, request, result, result_to, with_id};
