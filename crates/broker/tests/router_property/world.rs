//! What happens, in which order, and what must be true of it.

mod server;
mod sessions;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use nostray_broker::{Effect, FromChild, FromSession, ReverseTo, Router, Routing, SessionId, WireIds};
use nostray_supervise::{Moment, Protocol};
use serde_json::{Value, json};

use crate::child::Child;
use crate::host::{Era, Host, Open, What, raw_member, tag};
use crate::luck::Luck;

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const STAMP: &str = "io.modelcontextprotocol/subscriptionId";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// How much has happened, so that a test of nothing is noticed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    lines: u64,
    answers: u64,
    progress: u64,
    cancels: u64,
    questions: u64,
    refused_questions: u64,
    turns: u64,
    streams: u64,
    batches: u64,
    elsewhere: u64,
    deaths: u64,
    news: u64,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.lines += other.lines;
        self.answers += other.answers;
        self.progress += other.progress;
        self.cancels += other.cancels;
        self.questions += other.questions;
        self.refused_questions += other.refused_questions;
        self.turns += other.turns;
        self.streams += other.streams;
        self.batches += other.batches;
        self.elsewhere += other.elsewhere;
        self.deaths += other.deaths;
        self.news += other.news;
    }
}

impl Seen {
    pub(crate) fn is_enough(&self) {
        let Self { lines, answers, progress, cancels, questions, refused_questions, .. } = self;
        let Self { turns, streams, batches, elsewhere, deaths, news, .. } = self;
        for count in [
            lines,
            answers,
            progress,
            cancels,
            questions,
            refused_questions,
            turns,
            streams,
            batches,
            elsewhere,
            deaths,
            news,
        ] {
            assert!(*count > 100, "{self:?}");
        }
    }
}

/// What a case is about.
#[derive(Debug)]
struct Setting {
    mcp: bool,
    reverse: ReverseTo,
    window: usize,
    eras: Vec<Era>,
    refuses_levels: bool,
    refuses_discovery: bool,
    steps: usize,
}

impl Setting {
    fn new(luck: &mut Luck) -> Self {
        let eras = match luck.below(8) {
            0..3 => vec![Era::Legacy("2025-06-18")],
            3..5 => vec![Era::Modern],
            5 => vec![Era::Legacy("2025-06-18"), Era::Bare],
            _ => vec![Era::Legacy("2025-06-18"), Era::Legacy("2025-03-26"), Era::Modern, Era::Bare],
        };
        Self {
            mcp: !luck.once_in(5),
            reverse: if luck.once_in(3) { ReverseTo::Newest } else { ReverseTo::Certain },
            window: [1, 2, 20, 1024][luck.below(4)],
            eras,
            refuses_levels: luck.once_in(4),
            refuses_discovery: luck.once_in(2),
            steps: 40 + luck.below(160),
        }
    }
}

pub(crate) struct World {
    router: Router,
    now: Moment,
    luck: Luck,
    setting: Setting,
    hosts: BTreeMap<u64, Host>,
    child: Child,
    session_ids: u64,
    serial: u64,
    highest: i64,
    loud: bool,
    seen: Seen,
    /// The sessions that were told what the child said last.
    told: BTreeSet<u64>,
    /// The sessions that are to be sent away.
    away: Vec<u64>,
}

/// Ids that can be compared with what the child heard before.
fn counted() -> WireIds {
    let mut last = 0;
    Box::new(move || {
        last += 1;
        last
    })
}

impl World {
    pub(crate) fn new(seed: u64, loud: bool) -> Self {
        let mut luck = Luck::new(seed);
        let setting = Setting::new(&mut luck);
        let protocol = if setting.mcp { Protocol::Mcp } else { Protocol::JsonRpc };
        let router = Router::new(
            Routing { protocol, reverse: setting.reverse, route_by: Vec::new(), window: setting.window },
            counted(),
        );
        if loud {
            eprintln!("{setting:?}");
        }
        Self {
            router,
            now: Moment::ZERO,
            luck,
            setting,
            hosts: BTreeMap::new(),
            child: Child::default(),
            session_ids: 0,
            serial: 0,
            highest: 0,
            loud,
            seen: Seen::default(),
            told: BTreeSet::new(),
            away: Vec::new(),
        }
    }

    pub(crate) fn live(mut self) -> Seen {
        for _ in 0..self.setting.steps {
            self.now += Duration::from_millis(self.luck.below(3000) as u64);
            self.step();
            if self.luck.once_in(25) {
                self.come_to_rest();
            }
        }
        self.come_to_rest();
        self.all_sessions_leave();
        self.seen.turns += u64::from(self.router.takes_turns());
        self.seen
    }

    fn step(&mut self) {
        if self.hosts.is_empty() || (self.hosts.len() < 5 && self.luck.once_in(12)) {
            return self.session_comes();
        }
        match self.luck.below(40) {
            0 => self.session_leaves(),
            1 if self.luck.once_in(4) => self.child_dies(),
            1..3 => self.session_learns_of_the_next_child(),
            3..16 => self.session_asks(),
            16 => self.session_asks_several_things(),
            17..20 => self.session_cancels(),
            20..22 => self.session_answers(),
            22 => self.session_tells(),
            23..33 => self.child_answers(),
            33..35 => self.child_makes_progress(),
            35..37 => self.child_asks(),
            37 => self.child_takes_back(),
            38 => self.child_speaks_on_a_stream(),
            _ => self.child_tells(),
        }
    }

    // What is said.

    fn session_says(&mut self, session_id: u64, raw: &str) {
        if self.loud {
            eprintln!("{session_id} > {raw}");
        }
        self.seen.lines += 1;
        let verdict = self.router.session_says(SessionId(session_id), raw.as_bytes(), self.now);
        if let Some(host) = self.hosts.get_mut(&session_id).filter(|host| host.heard && !raw.is_empty()) {
            (host.has_spoken, host.has_ever_spoken) = (true, true);
        }
        match verdict {
            FromSession::ToChild(edits) => self.child_hears(edits.line(raw.as_bytes())),
            FromSession::Swallow => {}
            FromSession::Elsewhere { variant, .. } => self.is_sent_away(session_id, &variant),
        }
        self.perform();
    }

    fn child_says(&mut self, raw: &str) {
        if self.loud {
            eprintln!("      child > {raw}");
        }
        self.told.clear();
        match self.router.child_says(raw.as_bytes(), self.now) {
            FromChild::To(session_id, edits) => self.session_hears(session_id.0, edits.line(raw.as_bytes())),
            FromChild::ToSeveral(session_ids, edits) => {
                for session_id in session_ids {
                    self.session_hears(session_id.0, edits.line(raw.as_bytes()));
                }
            }
            FromChild::Swallow => {}
            FromChild::Log(why) => panic!("{why}: {raw}"),
        }
        self.perform();
    }

    fn perform(&mut self) {
        while self.router.has_effects() {
            for effect in self.router.effects() {
                match effect {
                    Effect::ToChild(line) => self.child_hears(line),
                    Effect::ToSession(session_id, line) => self.session_hears(session_id.0, line),
                    Effect::Elsewhere { session_id, variant, .. } => self.is_sent_away(session_id.0, &variant),
                }
            }
        }
        for session_id in self.hosts.keys() {
            assert!(self.router.in_flight(SessionId(*session_id)) <= self.setting.window);
        }
        for session_id in std::mem::take(&mut self.away) {
            self.leave(session_id);
        }
    }

    fn is_sent_away(&mut self, session_id: u64, variant: &str) {
        let known = self.router.variant().expect("no session is sent away before it is known what the child is for");
        assert_ne!(known, variant);
        self.seen.elsewhere += 1;
        self.away.push(session_id);
    }

    fn child_hears(&mut self, line: Vec<u8>) {
        let line = String::from_utf8(line).expect("lines are text");
        if self.loud {
            eprint!("      child < {line}");
        }
        let hosts = &self.hosts;
        let is_here = |session_id: u64| hosts.contains_key(&session_id);
        self.child.hears(line.trim_end(), &mut self.highest, &is_here, self.router.takes_turns());
    }

    fn session_hears(&mut self, session_id: u64, line: Vec<u8>) {
        let line = String::from_utf8(line).expect("lines are text");
        if self.loud {
            eprint!("{session_id} < {line}");
        }
        let raw = line.trim_end();
        let value: Value = serde_json::from_str(raw).expect("lines are JSON");
        self.told.insert(session_id);
        let host = self.hosts.get_mut(&session_id).expect("only who is there is spoken to");
        assert!(host.heard, "{session_id} hears a child that it does not know: {raw}");
        match &value {
            Value::Array(parts) => {
                self.seen.batches += 1;
                let batch = parts.iter().find_map(|part| {
                    let number = tag(part.get("result").unwrap_or(&part["error"]["data"]), "n")?;
                    host.open.get(&number)?.batch
                });
                for part in parts {
                    self.seen.answers += 1;
                    // As it was written: values would make 1.0 of 1.
                    let number = tag(part.get("result").unwrap_or(&part["error"]["data"]), "n").expect("a call");
                    let id = host.open.get(&number).expect("an open call").id.clone();
                    assert!(raw.contains(&format!("\"id\":{id}")), "{raw}");
                    host.hears_answer(&format!("{{\"id\":{id},"), part, true);
                }
                assert!(
                    !host.open.values().any(|open| open.batch.is_some() && open.batch == batch && !open.cancelled),
                    "a batch is not complete: {raw}"
                );
            }
            value if value.get("method").is_none() => {
                self.seen.answers += 1;
                host.hears_answer(raw, value, false);
            }
            value if value.get("id").is_some() => {
                let id = raw_member(raw, "id").expect("an id");
                let of = tag(&value["params"], "of").filter(|_| self.setting.reverse == ReverseTo::Certain);
                assert!(of.is_none_or(|of| of == session_id), "{session_id} is asked what is for {of:?}: {raw}");
                self.seen.questions += 1;
                host.asked.push(id.clone());
                self.child.questions.insert(id, session_id);
            }
            value => self.hears_news(session_id, raw, value),
        }
    }

    fn hears_news(&mut self, session_id: u64, raw: &str, value: &Value) {
        let host = self.hosts.get_mut(&session_id).expect("it is there");
        let params = &value["params"];
        match value["method"].as_str() {
            Some("notifications/progress") if self.setting.mcp => {
                self.seen.progress += 1;
                host.hears_progress(raw, params);
            }
            Some("notifications/cancelled") if params.get("stream").is_some() => {
                let open = host.open.remove(&tag(params, "n").expect("a number")).expect("a stream");
                assert_eq!(raw_member(raw, "requestId"), Some(open.id));
            }
            Some("notifications/cancelled") if self.setting.mcp => {
                let id = raw_member(raw, "requestId").expect("an id");
                assert!(host.asked.contains(&id), "{session_id} was not asked that: {raw}");
                host.asked.retain(|asked| *asked != id);
            }
            _ if params["_meta"].get(STAMP).is_some() => {
                self.seen.streams += 1;
                host.hears_on_stream(raw, params);
            }
            _ => self.seen.news += 1,
        }
    }

    // What sessions do.

    /// Child and sessions answer all that they were asked.
    fn come_to_rest(&mut self) {
        let streams: Vec<_> =
            self.child.pending.iter().filter(|(_, call)| call.is_stream() && !call.cancelled).collect();
        for id in streams.into_iter().map(|(id, _)| *id).collect::<Vec<_>>() {
            self.child_acknowledges(id);
        }
        for session_id in self.hosts.keys().copied().collect::<Vec<_>>() {
            self.rejoin(session_id);
        }
        loop {
            let streams = self.child.pending.values().filter(|call| call.is_stream() && !call.cancelled).count();
            if self.child.pending.len() > streams {
                let ids: Vec<i64> = self
                    .child
                    .pending
                    .iter()
                    .filter(|(_, call)| !call.is_stream() || call.cancelled)
                    .map(|(id, _)| *id)
                    .collect();
                for id in ids {
                    self.child_answers_this(id);
                }
                continue;
            }
            let asked: Vec<(u64, String)> = self
                .hosts
                .values_mut()
                .flat_map(|host| host.asked.drain(..).map(|id| (host.session_id, id)).collect::<Vec<_>>())
                .collect();
            if asked.is_empty() {
                break;
            }
            for (session_id, id) in asked {
                self.answer(session_id, &id);
            }
        }
        for host in self.hosts.values_mut() {
            host.open.retain(|_, open| !open.cancelled);
            assert!(host.open.values().all(|open| open.what == What::Listen), "{host:?} was not answered");
            assert_eq!(self.router.in_flight(SessionId(host.session_id)), 0);
        }
        assert!(self.child.questions.is_empty(), "{:?}", self.child.questions);
        assert!(!self.router.is_busy(self.now) && !self.router.has_effects());
        let streams = self.hosts.values().map(|host| host.open.len()).sum::<usize>();
        assert_eq!(
            self.router.footprint(),
            self.hosts.len() + streams + self.held().len(),
            "something is not forgotten"
        );
        self.what_is_shared_is_right();
    }

    fn held(&self) -> BTreeSet<String> {
        self.hosts.values().flat_map(|host| host.holds.iter().cloned()).collect()
    }

    fn what_is_shared_is_right(&mut self) {
        if !self.setting.mcp {
            return;
        }
        assert_eq!(self.child.holds, self.held());
        let wanted = self.hosts.values().filter_map(|host| host.level).min();
        assert!(wanted.is_none() || wanted == self.child.level, "{wanted:?} {:?}", self.child.level);
        if self.child.is_modern {
            return;
        }
        let level = self.luck.below(8);
        let message = json!({ "level": LEVELS[level] });
        self.child_says(
            &json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": message }).to_string(),
        );
        let there = self.hosts.values().filter(|host| host.heard && host.has_spoken);
        let want = there.filter(|host| host.level.is_none_or(|wanted| level >= wanted)).map(|host| host.session_id);
        assert!(self.told.iter().copied().eq(want), "{:?}", self.told);
        let uri = format!("a://{}/part", self.luck.below(3));
        self.child_says(
            &json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } })
                .to_string(),
        );
        let whole = uri.trim_end_matches("/part");
        let mut want: Vec<_> =
            self.hosts.values().filter(|host| host.holds.contains(whole)).map(|host| host.session_id).collect();
        if want.is_empty() {
            want.extend(self.hosts.values().filter(|host| !host.holds.is_empty()).map(|host| host.session_id));
        }
        assert!(self.told.iter().copied().eq(want), "{uri} {:?}", self.told);
    }

    fn all_sessions_leave(&mut self) {
        for session_id in self.hosts.keys().copied().collect::<Vec<_>>() {
            self.leave(session_id);
        }
        for id in self.child.pending.keys().copied().collect::<Vec<_>>() {
            self.child_answers_this(id);
        }
        assert!(self.child.holds.is_empty() || !self.setting.mcp);
        assert_eq!(self.router.footprint(), 0);
        assert!(!self.router.is_busy(self.now));
    }
}
