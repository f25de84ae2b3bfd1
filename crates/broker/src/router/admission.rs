//! What becomes of a request: it goes to the child, is answered here, waits, or needs another child.

use std::ops::Range;

use nostray_rpc::{Id, error_to, find, result_to};
use nostray_supervise::Protocol;

use super::calls::{Call, Note};
use super::claim::{Claim, Fit, Need};
use super::edits::{Edits, Token};
use super::gate::Checked;
use super::levels::{self, Level};
use super::meta::Meta;
use super::queue::QueuedMessage;
use super::sessions::{Elsewhere, SessionId};
use super::{INTERNAL, INVALID, Router, subscriptions};

/// No client opens so many; and what is open for as long as a session is must have an end.
const MAX_STREAMS: usize = 256;

/// A request, by where its parts are.
pub(super) struct Ask<'a> {
    pub(super) text: &'a [u8],
    pub(super) id: Range<usize>,
    pub(super) method: &'a str,
    pub(super) params: Option<Range<usize>>,
    pub(super) batch: Option<u64>,
    /// The line that it is, if it comes straight from the gate.
    pub(super) line: Option<Checked<'a>>,
}

/// What becomes of it if it does not go to the child.
pub(super) enum Otherwise {
    /// It was answered here.
    Done,
    /// Not yet.
    Wait,
    /// Not to this child.
    Elsewhere(Elsewhere),
}

/// What there is to do for a request that goes to the child.
struct Plan {
    note: Note,
    /// What it claims, if no session has claimed anything.
    claims: Option<Need>,
    /// What the child is told in place of these bytes: another log level, or capabilities as they were understood.
    instead: Option<(Range<usize>, Token)>,
}

impl Plan {
    fn new(note: Note) -> Self {
        Self { note, claims: None, instead: None }
    }
}

impl<'a> Ask<'a> {
    /// By parts of the text.
    pub(super) fn new(
        text: &'a [u8],
        id: &'a [u8],
        method: &'a str,
        params: Option<&'a [u8]>,
        batch: Option<u64>,
    ) -> Self {
        let params = params.map(|params| place_in(text, params));
        Self { text, id: place_in(text, id), method, params, batch, line: None }
    }

    /// The params.
    pub(super) fn json(&self) -> Option<&'a [u8]> {
        self.params.clone().map(|params| &self.text[params])
    }

    pub(super) fn raw_id(&self) -> &'a [u8] {
        &self.text[self.id.clone()]
    }

    /// Where something is inside the params.
    fn find(&self, path: &[&str]) -> Option<Range<usize>> {
        let params = self.params.clone()?;
        let at = find(&self.text[params.clone()], path)?;
        Some(params.start + at.start..params.start + at.end)
    }

    fn text_at(&self, path: &[&str]) -> Option<String> {
        self.find(path).and_then(|at| serde_json::from_slice(&self.text[at]).ok())
    }

    /// For the queue.
    pub(super) fn waiting(&self) -> QueuedMessage {
        QueuedMessage {
            text: self.text.to_vec(),
            id: Id::from_json(self.raw_id()),
            batch: self.batch,
            plain: !means_something(self.method),
        }
    }
}

/// Where a part of a text is in it.
pub(super) fn place_in(text: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// Whether a request with this method may be answered here, or does not wait for a turn.
pub(super) fn means_something(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "server/discover"
            | "logging/setLevel"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "subscriptions/listen"
    )
}

impl Router {
    /// Decides what becomes of a request that nothing of its session is ahead of. What goes to the child is changed like this.
    pub(super) fn admit(&mut self, session_id: SessionId, ask: &Ask<'_>) -> Result<Edits, Otherwise> {
        let (meta, plan) = match self.protocol {
            Protocol::JsonRpc => (Meta::default(), Plan::new(Note::Nothing)),
            Protocol::Mcp => {
                let meta = ask.line.map_or_else(|| Meta::of(ask.text, ask.params.clone()), Meta::noted);
                let plan = self.plan(session_id, ask, &meta)?;
                (meta, plan)
            }
        };
        let Some(session) = self.sessions.get(session_id) else { return Err(Otherwise::Done) };
        if plan.note.is_stream() {
            if session.streams >= MAX_STREAMS {
                let line = error_to(ask.raw_id(), INTERNAL, "too many streams are open in this session");
                self.answer(session_id, ask.batch, line);
                return Err(Otherwise::Done);
            }
        } else if !self.may_start(session) {
            return Err(Otherwise::Wait);
        }
        Ok(self.take_off(session_id, ask, &meta, plan))
    }

    fn plan(&mut self, session_id: SessionId, ask: &Ask<'_>, meta: &Meta) -> Result<Plan, Otherwise> {
        if ask.method == "initialize" {
            return self.plan_handshake(session_id, ask);
        }
        if meta.is_modern {
            return self.plan_modern(session_id, ask);
        }
        match ask.method {
            "logging/setLevel" => match ask.text_at(&["level"]).and_then(|name| Level::named(&name)) {
                Some(level) => self.plan_level(session_id, ask, level),
                None => Ok(Plan::new(Note::Nothing)),
            },
            "resources/subscribe" | "resources/unsubscribe" => match ask.text_at(&["uri"]) {
                Some(uri) => self.plan_subscription(session_id, ask, uri),
                None => Ok(Plan::new(Note::Nothing)),
            },
            "subscriptions/listen" => Ok(Plan::new(Note::Listen)),
            "tasks/list" => Ok(Plan::new(Note::ListTasks)),
            "ping" => Ok(Plan::new(Note::Ping)),
            _ => Ok(Plan::new(Note::Nothing)),
        }
    }

    /// The older era's handshake is made with the child once.
    fn plan_handshake(&mut self, session_id: SessionId, ask: &Ask<'_>) -> Result<Plan, Otherwise> {
        let need = Need::of_initialize(ask.json());
        let go = |need: Need| {
            let instead = ask.find(&["capabilities"]).zip(need.capabilities());
            Plan { claims: Some(need), instead, ..Plan::new(Note::Initialize) }
        };
        match self.claim.fits(&need) {
            Fit::Free => Ok(go(need)),
            // A client that asks for a handshake has given up on what it tried before.
            Fit::Open if self.is_trying(session_id) => Ok(go(need)),
            Fit::Open | Fit::Likely => Err(Otherwise::Wait),
            Fit::Other(elsewhere) => Err(Otherwise::Elsewhere(elsewhere)),
            Fit::Same => {
                let hello = self.hello.as_deref().unwrap_or(b"{}");
                Err(self.answered_here(session_id, ask, hello.to_vec()))
            }
        }
    }

    /// Whether this session has asked the child for the newer era, and has no answer yet.
    fn is_trying(&self, session_id: SessionId) -> bool {
        let call = self.claim.by().and_then(|by| self.calls.get(by));
        call.is_some_and(|call| call.session_id == Some(session_id) && call.note == Note::Discover)
    }

    fn plan_modern(&mut self, session_id: SessionId, ask: &Ask<'_>) -> Result<Plan, Otherwise> {
        let note = match ask.method {
            "server/discover" => Note::Discover,
            "subscriptions/listen" => Note::Listen,
            "tools/call" | "prompts/get" | "resources/read" => Note::MayAskBack,
            "tasks/list" => Note::ListTasks,
            _ => Note::Nothing,
        };
        if note == Note::Discover
            && let Some(error) = &self.no_discovery
        {
            let mut line = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
            line.extend_from_slice(ask.raw_id());
            line.extend_from_slice(b",\"error\":");
            line.extend_from_slice(error);
            line.extend_from_slice(b"}\n");
            self.answer(session_id, ask.batch, line);
            return Err(Otherwise::Done);
        }
        match self.claim.fits(&Need::Modern) {
            Fit::Free => Ok(Plan { claims: Some(Need::Modern), ..Plan::new(note) }),
            Fit::Same | Fit::Likely => Ok(Plan::new(note)),
            Fit::Open => Err(Otherwise::Wait),
            Fit::Other(elsewhere) => Err(Otherwise::Elsewhere(elsewhere)),
        }
    }

    fn plan_level(&mut self, session_id: SessionId, ask: &Ask<'_>, asked: Level) -> Result<Plan, Otherwise> {
        match self.decide_level(session_id, asked) {
            levels::LevelDecision::Wait => Err(Otherwise::Wait),
            levels::LevelDecision::Granted => {
                if let Some(session) = self.sessions.get_mut(session_id) {
                    session.level = Some(asked);
                }
                Err(self.answered_here(session_id, ask, b"{}".to_vec()))
            }
            levels::LevelDecision::Tell(told) => {
                let instead = ask.find(&["level"]).filter(|_| told != asked).map(|place| (place, told.token()));
                Ok(Plan { instead, ..Plan::new(Note::SetLevel { asked: Some(asked), told }) })
            }
        }
    }

    fn plan_subscription(&mut self, session_id: SessionId, ask: &Ask<'_>, uri: String) -> Result<Plan, Otherwise> {
        let more = ask.method == "resources/subscribe";
        let wish = if more {
            self.subscriptions.decide_subscribe(&uri)
        } else {
            self.subscriptions.decide_unsubscribe(session_id, &uri)
        };
        match wish {
            subscriptions::SubscriptionDecision::Wait => Err(Otherwise::Wait),
            subscriptions::SubscriptionDecision::Tell if more => Ok(Plan::new(Note::Subscribe(uri.into()))),
            subscriptions::SubscriptionDecision::Tell => Ok(Plan::new(Note::Unsubscribe(uri.into()))),
            subscriptions::SubscriptionDecision::Granted => {
                if more {
                    self.subscriptions.hold(session_id, &uri);
                } else {
                    self.subscriptions.let_go(session_id, &uri);
                }
                Err(self.answered_here(session_id, ask, b"{}".to_vec()))
            }
        }
    }

    fn answered_here(&mut self, session_id: SessionId, ask: &Ask<'_>, result: Vec<u8>) -> Otherwise {
        self.answer(session_id, ask.batch, result_to(ask.raw_id(), &result));
        Otherwise::Done
    }

    /// The child gets it, under an id of ours.
    fn take_off(&mut self, session_id: SessionId, ask: &Ask<'_>, meta: &Meta, plan: Plan) -> Edits {
        let Plan { note, claims, instead } = plan;
        let modern = meta.is_modern;
        let stream = note.is_stream();
        let mut told = None;
        match &note {
            Note::Initialize => self.handshake.begun_by = Some(session_id),
            Note::MayAskBack => self.ends_a_leg(session_id, ask),
            Note::SetLevel { .. } => told = Some(Told::Level),
            Note::Subscribe(uri) | Note::Unsubscribe(uri) => told = Some(Told::Subscription(uri.clone())),
            Note::Nothing | Note::Ping | Note::Discover | Note::Listen | Note::ListTasks => {}
        }
        self.handshake.is_all &= note == Note::Initialize;

        let progress = meta.progress.clone().filter(|place| Id::from_json(&ask.text[place.clone()]).is_some());
        let (method, since) = (self.calls.method(ask.method), self.now);
        let id = self.calls.add(Call {
            session_id: Some(session_id),
            id: Token::new(ask.raw_id()),
            progress: progress.clone().map(|place| Token::new(&ask.text[place])),
            note,
            batch: ask.batch,
            modern,
            log: meta.log,
            given_up: false,
            serial: 0,
            method,
            since,
        });
        match told {
            None => {}
            Some(Told::Level) => self.level_is_told(id),
            Some(Told::Subscription(uri)) => self.subscriptions.is_told(id, Some(session_id), &uri),
        }
        if let Some(need) = claims {
            self.claim = Claim::Tentative { need, by: id };
        }
        if stream {
            if let Some(session) = self.sessions.get_mut(session_id) {
                session.streams += 1;
            }
        } else {
            self.takes_its_turn(session_id);
            self.sessions.took_off(session_id);
        }

        let ours = Token::number(id);
        let mut edits = Edits::none();
        if let Some(place) = progress {
            edits.replace(place, ours.clone());
        }
        if let Some((place, token)) = instead {
            edits.replace(place, token);
        }
        edits.replace(ask.id.clone(), ours);
        edits
    }

    /// The second half of a call, if it is one.
    fn ends_a_leg(&mut self, session_id: SessionId, ask: &Ask<'_>) {
        if let Some(session) = self.sessions.get_mut(session_id)
            && !session.input_rounds.is_empty()
            && (ask.find(&["requestState"]).is_some() || ask.find(&["inputResponses"]).is_some())
        {
            session.input_rounds.pop_front();
        }
    }

    /// A request in a batch needs another child; the rest of the batch may not.
    pub(super) fn refuse_in_batch(&mut self, session_id: SessionId, batch: Option<u64>, text: &[u8], why: &str) {
        let id = find(text, &["id"]).map_or(&b"null"[..], |at| &text[at]);
        let line = error_to(id, INVALID, &format!("this cannot be asked in a batch: {why}"));
        self.answer(session_id, batch, line);
    }
}

/// What the child is being told on behalf of all.
enum Told {
    Level,
    Subscription(Box<str>),
}
