//! Parses `sd_notify` messages of a child: assignments, a line each. A message may contain anything.

use std::time::{Duration, Instant};

/// The longest message that is looked at; systemd takes no longer one either.
pub(super) const MAX_MESSAGE: usize = 4096;
/// The most time that one message can ask for, so that a runaway child does not live on unnoticed.
const MAX_EXTENSION: Duration = Duration::from_secs(3600);
/// What is kept of a status.
const MAX_STATUS: usize = 512;
/// A status that changes faster is told less often: each one is a file written.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// Something that the child says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    Ready,
    Stopping,
    /// It needs so much more time, to be ready or to end.
    Extend(Duration),
    Status(String),
}

/// All that is said in a message.
pub(super) fn read(message: &[u8]) -> impl Iterator<Item = Notice> {
    message.split(|&b| b == b'\n').filter_map(|line| {
        let equals = line.iter().position(|&b| b == b'=')?;
        let (name, value) = (&line[..equals], &line[equals + 1..]);
        match name {
            b"READY" if value == b"1" => Some(Notice::Ready),
            b"STOPPING" if value == b"1" => Some(Notice::Stopping),
            b"EXTEND_TIMEOUT_USEC" => {
                let time = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
                Some(Notice::Extend(Duration::from_micros(time).min(MAX_EXTENSION)))
            }
            b"STATUS" => Some(Notice::Status(legible(value))),
            _ => None,
        }
    })
}

/// For a terminal, on one line.
fn legible(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_STATUS)]);
    text.chars().filter(|c| !c.is_control()).collect::<String>().trim().to_owned()
}

/// The child's status, with a limit on how often a change is passed on.
#[derive(Debug, Default)]
pub(super) struct Status {
    told: Option<(String, Instant)>,
    waiting: Option<String>,
}

impl Status {
    pub(super) fn is(&mut self, text: String) {
        let is_told = self.told.as_ref().is_some_and(|(told, _)| *told == text);
        self.waiting = (!is_told).then_some(text);
    }

    /// When the waiting status is to be told.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.as_ref()?;
        Some(self.told.as_ref().map_or_else(Instant::now, |(_, at)| *at + STATUS_INTERVAL))
    }

    /// The status that is to be told now.
    pub(super) fn due(&mut self, now: Instant) -> Option<String> {
        if self.told.as_ref().is_some_and(|(_, at)| now < *at + STATUS_INTERVAL) {
            return None;
        }
        let text = self.waiting.take()?;
        self.told = Some((text.clone(), now));
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &[u8]) -> Vec<Notice> {
        read(message).collect()
    }

    #[test]
    fn several_assignments_are_read_in_their_order_and_the_rest_is_skipped() {
        let message = b"STATUS=half \x1b[1mway\nMAINPID=12\nREADY=1\n\nEXTEND_TIMEOUT_USEC=1500000\nSTOPPING=1";
        let expected = [
            Notice::Status("half [1mway".to_owned()),
            Notice::Ready,
            Notice::Extend(Duration::from_millis(1500)),
            Notice::Stopping,
        ];
        assert_eq!(said(message), expected);
    }

    #[test]
    fn garbage_says_nothing() {
        for garbage in [
            &b""[..],
            b"READY",
            b"READY=0",
            b"READY=1 ",
            b"ready=1",
            b" READY=1",
            b"XREADY=1",
            b"=1",
            b"\0\0\0",
            b"\xff\xfe=1",
            b"EXTEND_TIMEOUT_USEC=-1",
            b"EXTEND_TIMEOUT_USEC=x",
            b"EXTEND_TIMEOUT_USEC=99999999999999999999999",
        ] {
            assert_eq!(said(garbage), [], "{garbage:?}");
        }
    }

    #[test]
    fn a_child_gets_no_more_than_an_hour_at_a_time() {
        assert_eq!(said(format!("EXTEND_TIMEOUT_USEC={}", u64::MAX).as_bytes()), [Notice::Extend(MAX_EXTENSION)]);
    }

    #[test]
    fn a_status_that_changes_all_the_time_is_told_now_and_then_and_the_last_one_always() {
        let (mut status, t) = (Status::default(), Instant::now());
        let mut told = Vec::new();
        for number in 0..100u32 {
            status.is(number.to_string());
            told.extend(status.due(t + number * Duration::from_millis(10)));
        }
        assert_eq!(told, ["0", "25", "50", "75"]);
        assert_eq!(status.deadline(), Some(t + Duration::from_secs(1)));
        assert_eq!(status.due(t + Duration::from_secs(1)).as_deref(), Some("99"));
        status.is("99".to_owned());
        assert_eq!(status.deadline(), None, "nothing new");
    }
}
