//! A running `nostray web`, and plain HTTP to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use badchild::{PATIENCE, comes_true};
use nostray_sys::signal::{Signal, send_to_own_child};
use testkit::nostray;
use testkit::stage::Stage;

/// A running `nostray web`.
pub(crate) struct Web {
    pub(crate) process: Child,
    /// `127.0.0.1:41234`
    pub(crate) host: String,
    pub(crate) token: String,
    /// Kept open: it ends when no process reads what it prints.
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header, if there is exactly one.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut values = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let value = values.next()?;
        assert!(values.next().is_none(), "{name} twice: {}", self.head);
        Some(value)
    }
}

/// `nostray web WORDS`, with its output piped.
pub(crate) fn command(stage: &Stage, words: &[&str]) -> Command {
    let mut command = stage.scene.command(&nostray());
    command.arg("web").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Web {
    pub(crate) fn start(stage: &Stage) -> Self {
        Self::start_with(stage, &["--port", "0"])
    }

    pub(crate) fn start_with(stage: &Stage, words: &[&str]) -> Self {
        let mut process = command(stage, words).spawn().expect("start");
        let mut stdout = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("read");
        let (host, token) = parts(&line);
        Self { process, host, token, stdout: Some(stdout) }
    }

    /// The address that it has printed.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/?token={}", self.host, self.token)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("connect");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends these bytes, and reads until the server closes.
    pub(crate) fn send(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // The server may refuse a long request before its end.
        stream.write_all(request).ok();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A request with exactly these headers.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        self.send(format!("{request}\r\n{body}").as_bytes())
    }

    /// A request with the token and our Host, and these headers.
    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let bearer = self.bearer();
        self.ask("GET", path, &[&[("Host", self.host.as_str()), ("Authorization", &bearer)], headers].concat(), "")
    }

    pub(crate) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Opens the stream of events, and returns it behind the head of the answer.
    pub(crate) fn events(&self) -> BufReader<TcpStream> {
        let mut stream = self.connect();
        let (host, bearer) = (&self.host, self.bearer());
        write!(stream, "GET /api/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n\r\n").expect("write");
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(stream.read_line(&mut line).expect("read") > 0, "no answer");
        }
        stream
    }

    /// Waits for its end, and returns its code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        let mut status = None;
        comes_true(PATIENCE, &mut || {
            status = self.process.try_wait().expect("look");
            status.is_some()
        });
        status.expect("it does not end").code()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = badchild::pid(i32::try_from(self.process.id()).expect("a pid"));
        send_to_own_child(pid, signal).expect("signal");
    }

    /// Ends it as a person does.
    pub(crate) fn end(mut self) {
        self.signal(Signal::INT);
        assert_eq!(self.code(), Some(0));
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Host and token of the address that it prints.
pub(crate) fn parts(line: &str) -> (String, String) {
    let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("no address: {line:?}"));
    let (host, token) = address.split_once("/?token=").expect("a token");
    (host.to_owned(), token.to_owned())
}

/// The next event of this name, as JSON.
pub(crate) fn next_event(stream: &mut impl BufRead, name: &str) -> serde_json::Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).expect("read") > 0, "the stream has ended before {name}");
        if line.trim_end() == format!("event: {name}") {
            line.clear();
            stream.read_line(&mut line).expect("read");
            // The end of a piece of the body may stand between; hyper writes an event as one piece.
            let data = line.strip_prefix("data: ").unwrap_or_else(|| panic!("no data: {line:?}"));
            return serde_json::from_str(data).expect("JSON");
        }
    }
}
