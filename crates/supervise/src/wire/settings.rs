//! How a shared child is run: as the first session that attaches to it wants it.

use std::time::Duration;

use nostray_pen::{Graces, Isolation, Ready};
use nostray_slot::Name;
use serde::{Deserialize, Serialize};

use super::OsText;
use crate::machine::Policy;
use crate::session::Protocol;

/// How a shared child is run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildSettings {
    /// How long a tear-down waits before it escalates.
    #[serde(with = "GracesOnWire")]
    pub graces: Graces,
    /// Whether the child gets a pid namespace.
    #[serde(with = "IsolationOnWire")]
    pub isolation: Isolation,
    /// When the child is started and ended.
    pub policy: Policy,
    /// How much memory the child's tree may use, in bytes.
    pub max_memory: Option<u64>,
    /// The longest line that is passed on, in bytes.
    pub max_line: usize,
    /// What the child speaks.
    pub protocol: Protocol,
    /// Which session answers what the child asks.
    pub reverse: ReverseTo,
    /// Where a message says which session it belongs to: for each such place, the names that lead there.
    pub route_by: Vec<Vec<String>>,
    /// The slot that the child needs.
    pub slot: Option<SlotSettings>,
    /// The child is a daemon: its sessions hold it and do not talk to it.
    pub daemon: Option<DaemonSettings>,
}

/// Which session answers what a shared child asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReverseTo {
    /// The session that the question certainly belongs to, or none.
    #[default]
    Certain,
    /// Where that is not certain, the newest session, and the next newest if that one leaves.
    Newest,
}

/// When a daemon is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonSettings {
    /// The condition that makes it ready.
    #[serde(with = "ready")]
    pub ready: Ready,
    /// How long it may take to become ready.
    pub ready_timeout: Option<Duration>,
}

/// The slot that a shared child needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSettings {
    /// Its name.
    #[serde(with = "crate::as_text")]
    pub name: Name,
    /// How long to wait for it.
    pub wait_timeout: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Isolation", rename_all = "kebab-case")]
enum IsolationOnWire {
    None,
    Pid,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Graces")]
struct GracesOnWire {
    #[serde(getter = "eof_of")]
    eof: Duration,
    #[serde(getter = "term_of")]
    term: Duration,
}

fn eof_of(graces: &Graces) -> Duration {
    graces.eof()
}

fn term_of(graces: &Graces) -> Duration {
    graces.term()
}

impl From<GracesOnWire> for Graces {
    fn from(GracesOnWire { eof, term }: GracesOnWire) -> Self {
        Self::new(eof, term)
    }
}

mod ready {
    use super::{Deserialize, OsText, Ready, Serialize};
    use serde::{Deserializer, Serializer, de, ser};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum OnWire {
        Started,
        Line(String),
        Port(String),
        File(OsText),
        Command(OsText),
        Notify,
    }

    pub(super) fn serialize<S: Serializer>(ready: &Ready, to: S) -> Result<S::Ok, S::Error> {
        match ready {
            Ready::Started => OnWire::Started,
            Ready::Line(pattern) => OnWire::Line(pattern.to_string()),
            Ready::Port(port) => OnWire::Port(port.to_string().trim_start_matches("port ").to_owned()),
            Ready::File(path) => OnWire::File(OsText(path.into())),
            Ready::Command(command) => OnWire::Command(OsText(command.clone())),
            Ready::Notify => OnWire::Notify,
            other => return Err(ser::Error::custom(format!("a condition that has no form on the wire: {other}"))),
        }
        .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ready, D::Error> {
        Ok(match OnWire::deserialize(from)? {
            OnWire::Started => Ready::Started,
            OnWire::Line(pattern) => Ready::Line(pattern.parse().map_err(de::Error::custom)?),
            OnWire::Port(port) => Ready::Port(port.parse().map_err(de::Error::custom)?),
            OnWire::File(path) => Ready::File(path.0.into()),
            OnWire::Command(command) => Ready::Command(command.0),
            OnWire::Notify => Ready::Notify,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn settings(ready: Ready) -> ChildSettings {
        ChildSettings {
            graces: Graces::new(Duration::from_millis(1500), Duration::ZERO),
            isolation: Isolation::Pid,
            policy: Policy {
                respawn: true,
                backoff: "90s..1h 5m".parse().expect("right"),
                max_failures: "7/1m 30s".parse().expect("right"),
                hibernate: Some(Duration::from_micros(1)),
                max_age: None,
                ..Policy::default()
            },
            max_memory: Some(u64::MAX),
            max_line: 1,
            protocol: Protocol::JsonRpc,
            reverse: ReverseTo::Newest,
            route_by: vec![vec!["params".to_owned(), "sessionId".to_owned()]],
            slot: Some(SlotSettings { name: "a".parse().expect("right"), wait_timeout: None }),
            daemon: Some(DaemonSettings { ready, ready_timeout: Some(Duration::from_secs(3)) }),
        }
    }

    #[test]
    fn settings_come_through_as_they_are() {
        let port = |text: &str| Ready::Port(text.parse().expect("right"));
        let conditions = [
            Ready::Started,
            Ready::Line(r"listening on port \d+".parse().expect("right")),
            port("8080"),
            port("localhost:80"),
            port("127.0.0.1:80"),
            port("[::1]:80"),
            Ready::File("run/pid".into()),
            Ready::Command("true".into()),
            Ready::Notify,
        ];
        for ready in conditions {
            let sent = settings(ready);
            let json = serde_json::to_string(&sent).expect("json");
            assert_eq!(serde_json::from_str::<ChildSettings>(&json).expect("back"), sent, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_no_default() {
        let right = serde_json::to_value(settings(Ready::Started)).expect("json");
        let wrong: [(&str, Value); 7] = [
            ("/policy/backoff", json!("soon")),
            ("/policy/max_failures", json!("0/1m")),
            ("/policy/hibernate", json!("1m")),
            ("/graces", json!({ "eof": 1 })),
            ("/slot/name", json!("a/b")),
            ("/daemon/ready", json!({ "port": "0" })),
            ("/reverse", json!("oldest")),
        ];
        for (at, value) in wrong {
            let mut settings = right.clone();
            *settings.pointer_mut(at).expect("there") = value;
            assert!(serde_json::from_value::<ChildSettings>(settings).is_err(), "{at}");
        }
    }
}
