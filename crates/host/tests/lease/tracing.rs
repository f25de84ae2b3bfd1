//! What a host's subscriber is told of a lease's life.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use crate::apart::apart;
use crate::children::{build, in_time, pid_of, play, server};
use badchild::wait_until;
use nostray::Supervisor;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the events of `nostray`, a line each.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("memory");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "nostray"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(event.metadata().level().to_string());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push(fields.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_is_told_of_starts_ready_exits_respawns_and_leases() {
    apart(|| {
        let lines = Lines::default();
        tracing::subscriber::set_global_default(lines.clone()).expect("the first one");
        play(async {
            let supervisor = Supervisor::new();
            let lease =
                supervisor.lease(&build(server("r", &[]).env("TOKEN", "secret").session("s"))).expect("a lease");
            pid_of(&lease).await;
            in_time(lease.call::<Value>("die", &json!({ "code": 3 }))).await.expect_err("it exits");
            pid_of(&lease).await;
            drop(lease);
            in_time(supervisor.shutdown()).await;
        });
        let has = |words: &[&str]| {
            let lines = lines.0.lock().expect("no panic");
            lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count()
        };
        wait_until("both exits are told", || has(&["message=exited"]) == 2);
        let all = lines.0.lock().expect("no panic").join("\n");
        assert_eq!(has(&["message=lease taken", "leases=1"]), 1, "{all}");
        assert_eq!(has(&["message=lease released", "leases=0"]), 1, "{all}");
        assert_eq!(has(&["message=started", "badchild", "session=\"s\""]), 2, "{all}");
        assert_eq!(has(&["message=ready"]), 2, "{all}");
        assert_eq!(has(&["message=respawned", "generation=2"]), 1, "{all}");
        assert_eq!(has(&["message=exited", "code=3", "cause="]), 1, "{all}");
        assert_eq!(has(&["secret"]) + has(&["--plain"]), 0, "neither arguments nor the environment are told");
    });
}
