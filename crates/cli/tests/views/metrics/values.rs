//! The values are those of `nostray ps --json`, and the names stay.

use badchild::wait_until;
use serde_json::json;
use testkit::stage::Stage;

use super::{printed, series};
use crate::supervised;
use crate::web::pen;

#[test]
fn the_values_are_those_of_ps() {
    let stage = Stage::new();
    let mut sessions = [stage.shared(&["--key", "memory"], &[]), stage.shared(&["--key", "memory"], &[])];
    let mut supervised = supervised(&stage, "files");
    for _ in 0..3 {
        supervised.who();
    }
    supervised.error("no-such-method", json!({}));
    assert!(stage.nostray(&["restart", "files"]).status.success());
    supervised.who();
    sessions[1].who();
    // The records lag behind sessions and answers for a moment.
    stage.wait_for_leases(&[2]);
    wait_until("both are ready", || stage.states() == ["ready", "ready"]);
    let series = series(&printed(&stage));
    let of = |name: &str, child: &str, rest: &str| {
        let id = pen(&stage, child)["id"].as_str().expect("an id").to_owned();
        let key = format!("{name}{{id=\"{id}\",name=\"{child}\"{rest}}}");
        *series.get(&key).unwrap_or_else(|| panic!("{key} is not in {series:#?}"))
    };
    for child in ["memory", "files"] {
        let pen = pen(&stage, child);
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        assert_eq!(of("nostray_child_restarts_total", child, ""), number(&pen["restarts"]));
        assert_eq!(of("nostray_child_processes", child, ""), number(&pen["processes"]));
        assert_eq!(of("nostray_messages_total", child, ""), number(&pen["traffic"]["messages"]));
        assert_eq!(of("nostray_child_start_time_seconds", child, ""), number(&pen["started"]) / 1000.0);
        let (memory, told) = (of("nostray_child_memory_bytes", child, ""), number(&pen["memory"]));
        assert!((memory - told).abs() <= told / 2.0, "{memory} and {told}");
        for method in pen["traffic"]["methods"].as_array().expect("methods") {
            let name = format!(",mcp_method_name={}", method["name"]);
            assert_eq!(of("nostray_calls_total", child, &name), number(&method["calls"]));
            assert_eq!(of("nostray_call_errors_total", child, &name), number(&method["errors"]));
        }
    }
    assert_eq!(of("nostray_child_sessions", "memory", ""), 2.0);
    assert_eq!(of("nostray_calls_total", "files", ",mcp_method_name=\"who\""), 4.0);
    assert_eq!(of("nostray_call_errors_total", "files", ",mcp_method_name=\"no-such-method\""), 1.0);
    assert_eq!(of("nostray_call_duration_seconds_count", "files", ",mcp_method_name=\"who\""), 4.0);
    assert_eq!(series["nostray_children{state=\"ready\"}"], 2.0);
    assert_eq!(series["nostray_sessions"], 3.0);
    assert!(series["nostray_saved_bytes{by=\"sharing\"}"] > 0.0);
    for caller in sessions.iter_mut().chain([&mut supervised]) {
        caller.close();
        assert_eq!(caller.code(), 0);
    }
    stage.scene.expect_empty();
}

/// A dashboard is made of these.
#[test]
fn the_names_and_labels_stay() {
    let stage = Stage::new();
    let mut caller = supervised(&stage, "files");
    caller.who();
    let text = printed(&stage);
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert_eq!(
        kinds,
        [
            "nostray_build_info gauge",
            "nostray_children gauge",
            "nostray_sessions gauge",
            "nostray_saved_bytes gauge",
            "nostray_ends_total counter",
            "nostray_child_memory_bytes gauge",
            "nostray_child_processes gauge",
            "nostray_child_cpu_seconds_total counter",
            "nostray_child_sessions gauge",
            "nostray_child_restarts_total counter",
            "nostray_child_start_time_seconds gauge",
            "nostray_messages_total counter",
            "nostray_calls_total counter",
            "nostray_call_errors_total counter",
            "nostray_call_duration_seconds histogram",
        ]
    );
    let named = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(&format!("{name}{{"))).unwrap_or_else(|| panic!("{name}"));
        let labels = line.split('{').nth(1).and_then(|rest| rest.split('}').next()).expect("labels");
        labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(named("nostray_child_memory_bytes"), ["id", "name"]);
    assert_eq!(named("nostray_calls_total"), ["id", "name", "mcp_method_name"]);
    assert_eq!(named("nostray_call_duration_seconds_bucket"), ["id", "name", "mcp_method_name", "le"]);
    caller.end(&stage);
}
