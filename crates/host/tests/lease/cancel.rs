//! Cancelling a call: dropping its future, or a timeout, tells the child so in the words of its protocol.

use crate::apart::apart;
use crate::children::{build, called, expect_all_gone, expect_told, in_time, lives, ms, pid_of, play, server};
use badchild::wait_until;
use nostray::{CallError, Protocol, Supervisor};
use serde_json::{Value, json};

#[test]
fn a_call_that_is_dropped_or_late_is_cancelled_in_the_words_of_the_protocol() {
    apart(|| {
        play(async {
            let supervisor = Supervisor::new();
            for (record, protocol, method, other, id) in [
                ("mcp", Protocol::Mcp, "notifications/cancelled", "$/cancelRequest", "requestId"),
                ("plain", Protocol::JsonRpc, "$/cancelRequest", "notifications/cancelled", "id"),
            ] {
                let lease = supervisor.lease(&build(server(record, &[]).protocol(protocol))).expect("a lease");
                pid_of(&lease).await;
                let dropped = called(&lease, "hang", json!({})).await;
                wait_until("it is read", || lives(record)[0].told("hang").len() == 1);
                dropped.abort();
                expect_told(record, method, 1);
                let late = in_time(lease.call_within::<Value>("hang", &json!({}), Some(ms(50)))).await;
                assert_eq!(late, Err(CallError::TimedOut(ms(50))));
                expect_told(record, method, 2);
                let life = &lives(record)[0];
                for (cancel, call) in life.told(method).iter().zip(life.told("hang")) {
                    assert_eq!(cancel["params"][id], call["id"]);
                }
                assert!(life.told(other).is_empty());
                // A call that was answered is not cancelled.
                pid_of(&lease).await;
                expect_told(record, method, 2);
            }
            expect_all_gone(&supervisor).await;
        });
    });
}
