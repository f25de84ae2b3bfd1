//! What the child does.

use super::*;

impl World {
    pub(super) fn child_dies(&mut self) {
        if self.loud {
            eprintln!("      child dies");
        }
        self.seen.deaths += 1;
        self.router.child_gone();
        self.child = Child::default();
        self.hosts.values_mut().for_each(Host::child_gone);
        assert!(!self.router.is_busy(self.now) && !self.router.has_effects());
    }

    pub(super) fn child_answers(&mut self) {
        let ids: Vec<i64> = self.child.pending.keys().copied().collect();
        let Some(id) = self.luck.pick(&ids).copied() else { return };
        let call = &self.child.pending[&id];
        // A stream stays open for a while, and most servers do not answer what was cancelled.
        if (call.is_stream() || call.cancelled) && !self.luck.once_in(4) {
            return;
        }
        self.child_answers_this(id);
    }

    pub(super) fn child_answers_this(&mut self, id: i64) {
        let Some(call) = self.child.pending.remove(&id) else { return };
        let payload = json!({ "of": call.of, "n": call.n });
        let text = |name: &str| call.params[name].as_str().unwrap_or_default().to_owned();
        let refuses = match call.method.as_str() {
            "logging/setLevel" => self.setting.refuses_levels,
            "server/discover" => self.setting.refuses_discovery,
            "resources/unsubscribe" => false,
            _ => self.luck.once_in(8),
        };
        if !refuses {
            match call.method.as_str() {
                _ if !self.setting.mcp => {}
                "initialize" => self.child.shook_hands = true,
                "logging/setLevel" => self.child.level = LEVELS.iter().position(|level| *level == text("level")),
                "resources/subscribe" => drop(self.child.holds.insert(text("uri"))),
                "resources/unsubscribe" => drop(self.child.holds.remove(&text("uri"))),
                _ => {}
            }
            self.child.is_modern |= call.modern;
        }
        let answer = match refuses {
            true => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no", "data": payload } })
            }
            // The handshake's answer is given to others too.
            false if call.method == "initialize" => json!({ "jsonrpc": "2.0", "id": id, "result": { "hello": 1 } }),
            false => json!({ "jsonrpc": "2.0", "id": id, "result": payload }),
        };
        // The same error is given to others too.
        let mut answer = answer;
        if refuses && matches!(call.method.as_str(), "server/discover" | "initialize") {
            answer["error"]["data"] = Value::Null;
        }
        let last = self.luck.once_in(2);
        let raw = match answer.get("result").filter(|_| last) {
            Some(result) => format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#),
            None => answer.to_string(),
        };
        self.child_says(&raw);
    }

    pub(super) fn child_makes_progress(&mut self) {
        let calls: Vec<_> = self.child.pending.iter().filter(|(_, call)| call.has_token).collect();
        let Some((id, call)) = self.luck.pick(&calls).copied() else { return };
        let (of, n) = (call.of, call.n);
        let params = json!({ "progressToken": id, "of": of, "n": n });
        self.child_says(
            &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }).to_string(),
        );
        assert!(!self.setting.mcp || self.told.iter().eq(of.iter().filter(|of| self.hosts.contains_key(of))));
    }

    /// The child asks something for a call that it works on, also for a cancelled call.
    pub(super) fn child_asks(&mut self) {
        let calls: Vec<_> =
            self.child.pending.values().filter(|call| !call.is_stream() && call.of.is_some()).collect();
        let Some(call) = self.luck.pick(&calls) else { return };
        // Nothing is known of a call that was cancelled long ago.
        let (of, was_cancelled) = (call.of, call.cancelled);
        if was_cancelled && self.setting.reverse == ReverseTo::Certain {
            return;
        }
        self.child.asked += 1;
        // A child that has streams asks nothing in earnest, and could not say which it takes back if it used the same numbers.
        let has_streams = self.setting.eras.contains(&Era::Modern);
        let id = match self.luck.once_in(2) && !has_streams {
            true => self.child.asked.to_string(),
            false => format!("\"q{}\"", self.child.asked),
        };
        self.child.questions.insert(id.clone(), 0);
        let raw = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{{"of":{}}}}}"#,
            json!(of)
        );
        self.child_says(&raw);
        self.seen.refused_questions += u64::from(self.told.is_empty());
        let alive = self.child.alive();
        let others = alive.iter().filter(|id| self.child.pending[id].of != of && self.child.pending[id].of.is_some());
        // If only one session calls, no call was given up, and the child knows all sessions, that session is asked.
        let is_certain = others.count() == 0
            && self.child.pending.values().all(|call| !call.cancelled)
            && (self.setting.mcp || self.hosts.values().all(|host| host.is_told))
            && of.is_some_and(|of| self.hosts.contains_key(&of));
        if is_certain {
            assert!(self.told.iter().eq(of.iter()), "{raw}");
        } else if self.setting.reverse == ReverseTo::Newest {
            let can_be_asked = self.hosts.values().any(|host| host.heard && host.has_ever_spoken);
            assert_eq!(self.told.len(), usize::from(can_be_asked), "{raw}");
        }
    }

    pub(super) fn child_takes_back(&mut self) {
        let ids: Vec<_> = self.child.questions.keys().cloned().collect();
        let Some(id) = self.luck.pick(&ids).cloned().filter(|_| self.setting.mcp) else { return };
        self.child.questions.remove(&id);
        self.child.withdrawn.insert(id.clone());
        self.child_says(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }

    pub(super) fn child_speaks_on_a_stream(&mut self) {
        let streams: Vec<_> =
            self.child.pending.iter().filter(|(_, call)| call.is_stream() && !call.cancelled).collect();
        let Some((id, call)) = self.luck.pick(&streams).map(|(id, call)| (**id, (*call).clone())) else { return };
        if self.luck.once_in(6) {
            self.child.pending.remove(&id);
            let params = json!({ "requestId": id, "of": call.of, "n": call.n, "stream": true });
            return self.child_says(
                &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }).to_string(),
            );
        }
        if self.luck.once_in(2) {
            return self.child_acknowledges(id);
        }
        self.child_says_on_stream(id, "notifications/tools/list_changed");
        assert!(self.told.iter().eq(call.of.iter().filter(|of| self.hosts.contains_key(of))));
    }

    pub(super) fn child_acknowledges(&mut self, id: i64) {
        self.child_says_on_stream(id, "notifications/subscriptions/acknowledged");
    }

    pub(super) fn child_says_on_stream(&mut self, id: i64, method: &str) {
        self.child.is_modern = true;
        let call = &self.child.pending[&id];
        let params = json!({ "_meta": { STAMP: id }, "of": call.of, "n": call.n });
        self.child_says(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    pub(super) fn child_tells(&mut self) {
        self.child_says(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        let mcp = self.setting.mcp;
        let there =
            self.hosts.values().filter(|host| host.heard && (host.has_spoken || !mcp)).map(|host| host.session_id);
        assert!(self.told.iter().copied().eq(there));
    }

    // What must be true when nothing goes on.
}
