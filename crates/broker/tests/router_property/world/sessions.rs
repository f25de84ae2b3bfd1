//! What sessions do.

use super::*;

impl World {
    pub(super) fn any_session(&mut self) -> u64 {
        let session_ids: Vec<u64> = self.hosts.keys().copied().collect();
        self.luck.pick(&session_ids).copied().unwrap_or(0)
    }

    pub(super) fn session_comes(&mut self) {
        self.session_ids += 1;
        let era = self.luck.pick(&self.setting.eras).cloned().expect("there is one");
        self.router.join(SessionId(self.session_ids));
        self.hosts.insert(self.session_ids, Host::new(self.session_ids, era));
    }

    pub(super) fn session_leaves(&mut self) {
        let session_id = self.any_session();
        self.leave(session_id);
    }

    pub(super) fn leave(&mut self, session_id: u64) {
        if self.loud {
            eprintln!("{session_id} leaves");
        }
        self.hosts.remove(&session_id);
        self.router.leave(SessionId(session_id), self.now);
        self.perform();
    }

    pub(super) fn session_learns_of_the_next_child(&mut self) {
        let session_id = self.any_session();
        self.rejoin(session_id);
    }

    pub(super) fn rejoin(&mut self, session_id: u64) {
        if let Some(host) = self.hosts.get_mut(&session_id) {
            host.heard = true;
            self.router.rejoin(SessionId(session_id));
            if self.luck.once_in(2) {
                host.is_told = true;
                self.router.told(SessionId(session_id));
            }
        }
    }

    /// A payload that says whose it is.
    pub(super) fn payload(&mut self, session_id: u64) -> (u64, Value) {
        self.serial += 1;
        (self.serial, json!({ "of": session_id, "n": self.serial }))
    }

    pub(super) fn session_asks(&mut self) {
        let session_id = self.any_session();
        if !self.router.has_room(SessionId(session_id)) {
            return;
        }
        let raw = self.request(session_id, None);
        if let Some(raw) = raw {
            self.session_says(session_id, &raw);
        }
    }

    /// Something that this session may ask now.
    pub(super) fn request(&mut self, session_id: u64, batch: Option<u64>) -> Option<String> {
        let host = &self.hosts[&session_id];
        let (era, heard) = (host.era.clone(), host.heard);
        let (shook_hands, discovered, waits) = (host.shook_hands, host.discovered, host.is_shaking_hands());
        let (number, mut params) = self.payload(session_id);
        let dice = self.luck.below(20);
        let uri = format!("a://{}", self.luck.below(3));
        let level = self.luck.below(8);
        let (method, what) = match (&era, dice) {
            _ if !self.setting.mcp => ("work", What::Call),
            (Era::Legacy(_), _) if !shook_hands && (waits || batch.is_some()) => return None,
            (Era::Legacy(version), _) if !shook_hands => {
                params["protocolVersion"] = json!(version);
                params["capabilities"] = json!({});
                ("initialize", What::Initialize)
            }
            (Era::Modern, _) if waits => return None,
            (Era::Modern, _) if !discovered && batch.is_none() && dice < 10 => ("server/discover", What::Discover),
            (Era::Modern, 10) if batch.is_none() => ("subscriptions/listen", What::Listen),
            (Era::Legacy(_), 10..12) if batch.is_none() => {
                params["level"] = json!(LEVELS[level]);
                ("logging/setLevel", What::SetLevel(level))
            }
            (Era::Legacy(_), 12..14) if batch.is_none() => {
                params["uri"] = json!(uri);
                ("resources/subscribe", What::Subscribe(uri))
            }
            (Era::Legacy(_), 14..16) if batch.is_none() => {
                params["uri"] = json!(uri);
                ("resources/unsubscribe", What::Unsubscribe(uri))
            }
            _ => (["tools/call", "tools/list"][self.luck.below(2)], What::Call),
        };
        if dice == 19 {
            params["long"] = json!("x".repeat(1500));
        }
        let ids = [
            "0",
            "1",
            "1.0",
            "\"1\"",
            "7",
            "\"a\"",
            "123456789012345678901234567890",
            "\"00000000-0000-0000-0000-000000000000\"",
        ];
        let id = match what {
            What::Call => ids[self.luck.below(ids.len())].to_owned(),
            _ => format!("\"only-{number}\""),
        };
        let tokens = ["1", "\"t\"", "2.50"];
        let token = self.luck.once_in(2).then(|| tokens[self.luck.below(3)].to_owned()).filter(|_| self.setting.mcp);
        let mut meta = Vec::new();
        if era == Era::Modern && self.setting.mcp {
            meta.push(format!("\"{VERSION}\":\"2026-07-28\""));
        }
        meta.extend(token.iter().map(|token| format!("\"progressToken\":{token}")));
        let mut params = params.to_string();
        if !meta.is_empty() {
            let at = if self.luck.once_in(2) { 1 } else { params.len() - 1 };
            let meta = format!("\"_meta\":{{{}}}", meta.join(","));
            let meta = if at == 1 { format!("{meta},") } else { format!(",{meta}") };
            params.insert_str(at, &meta);
        }
        if heard {
            let open = Open { id: id.clone(), token, what, cancelled: false, batch };
            self.hosts.get_mut(&session_id)?.open.insert(number, open);
        }
        Some(match self.luck.below(3) {
            0 => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
            1 => format!(r#"{{"method":"{method}","params":{params},"jsonrpc":"2.0","id":{id}}}"#),
            _ => format!(r#"{{"params":{params}, "id":{id}, "jsonrpc":"2.0","method":"{method}"}}"#),
        })
    }

    pub(super) fn session_asks_several_things(&mut self) {
        let session_id = self.any_session();
        // What needs another child is refused in a batch, and that is for another test.
        if self.setting.eras.len() > 2 || !self.router.has_room(SessionId(session_id)) {
            return;
        }
        self.serial += 1;
        let batch = Some(self.serial);
        let mut parts = Vec::new();
        for _ in 0..1 + self.luck.below(4) {
            match self.luck.below(4) {
                0 => parts.push(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned()),
                _ => parts.extend(self.request(session_id, batch)),
            }
        }
        if !parts.is_empty() {
            self.session_says(session_id, &format!("[{}]", parts.join(" , ")));
        }
    }

    pub(super) fn session_cancels(&mut self) {
        let session_id = self.any_session();
        let host = &self.hosts[&session_id];
        // With two open calls of one id, a cancel would not say which it means.
        let same = |id: &str| nostray_rpc::Id::from_json(id.as_bytes());
        let unique = |open: &Open| host.open.values().filter(|other| same(&other.id) == same(&open.id)).count() == 1;
        let open: Vec<_> = host.open.iter().filter(|(_, open)| !open.cancelled && unique(open)).collect();
        let Some((number, open)) = self.luck.pick(&open).map(|(number, open)| (**number, (*open).clone())) else {
            return;
        };
        if !self.setting.mcp || !matches!(open.what, What::Call | What::Listen) {
            return;
        }
        let id = if open.id == "1" { "1.0".to_owned() } else { open.id };
        let raw = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"of":{session_id},"n":{number}}}}}"#
        );
        let host = self.hosts.get_mut(&session_id).expect("it is there");
        host.open.get_mut(&number).expect("it is open").cancelled = true;
        self.seen.cancels += 1;
        self.session_says(session_id, &raw);
    }

    pub(super) fn session_answers(&mut self) {
        let session_id = self.any_session();
        let host = self.hosts.get_mut(&session_id).expect("it is there");
        if let Some(id) = host.asked.pop() {
            return self.answer(session_id, &id);
        }
        // Also what it was not asked; the child would notice.
        let others: Vec<_> = self.child.questions.keys().cloned().collect();
        if let Some(id) = self.luck.pick(&others).cloned() {
            self.answer(session_id, &id);
        }
    }

    pub(super) fn answer(&mut self, session_id: u64, id: &str) {
        let outcome = if self.luck.once_in(4) { "error" } else { "result" };
        self.session_says(session_id, &format!(r#"{{"jsonrpc":"2.0","id":{id},"{outcome}":{{"by":{session_id}}}}}"#));
    }

    pub(super) fn session_tells(&mut self) {
        let session_id = self.any_session();
        let shook_hands = self.hosts[&session_id].shook_hands;
        match self.luck.below(4) {
            0..2 if shook_hands => {
                self.session_says(session_id, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
            }
            2 => self.session_says(session_id, ""),
            _ => self.session_says(session_id, r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#),
        }
    }

    // What the child does.
}
