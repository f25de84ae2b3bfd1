//! One session as its host sees it: what it has asked, what it was asked, and what it may be told.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What a session says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Era {
    /// It makes a handshake, with this version.
    Legacy(&'static str),
    /// Each request says its version.
    Modern,
    /// It just calls.
    Bare,
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Call,
    Initialize,
    Discover,
    SetLevel(usize),
    Subscribe(String),
    Unsubscribe(String),
    Listen,
}

/// A request that was not answered yet.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// As it was written.
    pub(crate) id: String,
    pub(crate) token: Option<String>,
    pub(crate) what: What,
    pub(crate) cancelled: bool,
    pub(crate) batch: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) session_id: u64,
    pub(crate) era: Era,
    /// It knows which child it speaks to.
    pub(crate) heard: bool,
    pub(crate) has_spoken: bool,
    /// To this child or to one before.
    pub(crate) has_ever_spoken: bool,
    /// The child knows all that it must know of it.
    pub(crate) is_told: bool,
    /// It has made its handshake, if it makes one.
    pub(crate) shook_hands: bool,
    pub(crate) discovered: bool,
    /// By a number that no other request has.
    pub(crate) open: BTreeMap<u64, Open>,
    pub(crate) level: Option<usize>,
    pub(crate) holds: BTreeSet<String>,
    /// The ids of questions that it was asked, as they came.
    pub(crate) asked: Vec<String>,
}

/// Where a number stands in a payload.
pub(crate) fn tag(payload: &Value, name: &str) -> Option<u64> {
    payload.get(name)?.as_u64()
}

impl Host {
    pub(crate) fn new(session_id: u64, era: Era) -> Self {
        Self {
            session_id,
            era,
            heard: true,
            has_spoken: false,
            has_ever_spoken: false,
            is_told: true,
            shook_hands: false,
            discovered: false,
            open: BTreeMap::new(),
            level: None,
            holds: BTreeSet::new(),
            asked: Vec::new(),
        }
    }

    /// The child is gone. (The front answers what was open itself.)
    pub(crate) fn child_gone(&mut self) {
        let has_ever_spoken = self.has_ever_spoken;
        *self =
            Self { heard: false, is_told: false, has_ever_spoken, ..Self::new(self.session_id, self.era.clone()) };
    }

    /// Whether it waits for a handshake.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.open.values().any(|open| matches!(open.what, What::Initialize | What::Discover) && !open.cancelled)
    }

    /// It is answered.
    pub(crate) fn hears_answer(&mut self, raw: &str, answer: &Value, in_batch: bool) {
        let id = raw_member(raw, "id").expect("answers have ids");
        let payload = answer.get("result").or_else(|| answer["error"].get("data")).unwrap_or(&Value::Null);
        let of = tag(payload, "of");
        assert!(of.is_none_or(|of| of == self.session_id), "{} hears what belongs to {of:?}: {raw}", self.session_id);
        // What is answered here says nothing but its id, which then is like no other.
        let number = match tag(payload, "n") {
            Some(number) => number,
            None => {
                *self
                    .open
                    .iter()
                    .find(|(_, open)| open.id == id)
                    .unwrap_or_else(|| panic!("{} hears an answer to nothing: {raw}", self.session_id))
                    .0
            }
        };
        let open =
            self.open.remove(&number).unwrap_or_else(|| panic!("{} is answered twice: {raw}", self.session_id));
        assert_eq!(open.id, id, "ids come back as they were written");
        assert!(open.cancelled || open.batch.is_some() == in_batch, "what came together is answered together: {raw}");
        assert!(of.is_some() || open.what != What::Call || open.cancelled, "only the child answers calls: {raw}");
        let went_well = answer.get("result").is_some();
        match open.what {
            What::Call | What::Listen => {}
            What::Initialize => self.shook_hands = went_well,
            What::Discover => self.discovered = true,
            What::SetLevel(level) if went_well && !open.cancelled => self.level = Some(level),
            What::Subscribe(uri) if went_well && !open.cancelled => drop(self.holds.insert(uri)),
            What::Unsubscribe(uri) if went_well && !open.cancelled => drop(self.holds.remove(&uri)),
            What::SetLevel(_) | What::Subscribe(_) | What::Unsubscribe(_) => {}
        }
    }

    /// It is told how far a call is.
    pub(crate) fn hears_progress(&self, raw: &str, params: &Value) {
        assert_eq!(
            tag(params, "of"),
            Some(self.session_id),
            "{} hears of another's progress: {raw}",
            self.session_id
        );
        let number = tag(params, "n").expect("a number");
        if let Some(open) = self.open.get(&number) {
            assert_eq!(raw_member(raw, "progressToken").as_deref(), open.token.as_deref(), "{raw}");
        }
    }

    /// It is told something on a stream.
    pub(crate) fn hears_on_stream(&self, raw: &str, params: &Value) {
        assert_eq!(tag(params, "of"), Some(self.session_id), "{} hears another's stream: {raw}", self.session_id);
        let open = &self.open[&tag(params, "n").expect("a number")];
        let name = raw_member(raw, "io.modelcontextprotocol/subscriptionId");
        assert_eq!((&open.what, name.as_deref()), (&What::Listen, Some(open.id.as_str())), "{raw}");
    }
}

/// The token behind a name, as it was written. The payloads of these tests have no such name twice.
pub(crate) fn raw_member(raw: &str, name: &str) -> Option<String> {
    let key = format!("\"{name}\":");
    let rest = &raw[raw.find(&key)? + key.len()..];
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"')? + 2,
        None => rest.find([',', '}'])?,
    };
    Some(rest[..end].to_owned())
}
