//! A message as it comes, read and answered.
use nostray_rpc::{Id, Kind, Line, Lines, Message, read, with_id};

#[test]
fn a_request_is_read_and_gets_another_id() {
    let mut lines = Lines::new(1 << 20);
    let text =
        b"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"a\":[1,{\"b\":\"]}\\\"\"}]},\"id\":7}\r\nrest";
    lines.space()[..text.len()].copy_from_slice(text);
    lines.filled(text.len());
    let Some(Line::Whole { text, .. }) = lines.next_line() else { panic!("no line") };
    let Ok(Message::One(envelope)) = read(text) else { panic!("{:?}", read(text)) };
    let Kind::Request { id, method, params } = &envelope.kind else { panic!("{envelope:?}") };
    assert_eq!(
        (id.id(), method.as_ref(), *params),
        (Id::Int(7), "tools/call", Some(&b"{\"a\":[1,{\"b\":\"]}\\\"\"}]}"[..]))
    );
    assert!(with_id(&envelope, &Id::from("x")).ends_with(b",\"id\":\"x\"}\n"));
    assert_eq!(lines.rest(), Some(Line::Whole { text: b"rest", raw: b"rest" }));
    assert_eq!(lines.next_line(), None);
}
