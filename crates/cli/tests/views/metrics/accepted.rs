//! `promtool check metrics` accepts what both print, whatever a child's methods and names are.

use std::io::Write;
use std::process::{Command, Stdio};

use badchild::Folder;
use serde_json::json;
use testkit::stage::Stage;

use super::{has, printed, series};
use crate::supervised;
use crate::web::http::Web;

fn expect_accepted(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("promtool");
    let mut stdin = promtool.stdin.take().expect("piped");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(text.as_bytes()));
    });
    let output = promtool.wait_with_output().expect("wait");
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn promtool_accepts_both_with_shared_and_supervised_children_and_calls() {
    if !has("promtool") {
        return;
    }
    let stage = Stage::new();
    expect_accepted(&printed(&stage));
    let web = Web::start(&stage);
    let mut shared = stage.shared(&["--key", "memory"], &[]);
    let mut supervised = supervised(&stage, "files");
    let mut plain = stage.start(&["--label", "name=plain"], &[]);
    plain.initialize();
    for caller in [&mut shared, &mut supervised] {
        caller.who();
        caller.result("slow", json!({ "ms": 20 }));
        caller.error("no-such-method", json!({}));
    }
    let served = web.get("/metrics", &[]);
    assert_eq!(served.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    expect_accepted(&served.body);
    expect_accepted(&printed(&stage));
    // The same series, by either way.
    let names = |text: &str| series(text).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&served.body), names(&printed(&stage)));
    web.end();
    for mut caller in [shared, supervised, plain] {
        caller.close();
        assert_eq!(caller.code(), 0);
    }
    stage.scene.expect_empty();
}

#[test]
fn hostile_names_do_not_break_the_text_and_a_thousand_methods_do_not_flood_it() {
    if !has("promtool") {
        return;
    }
    let stage = Stage::new();
    let name = "name=a\"b\\c\nd{}=,# HELP 日本\u{202e}";
    let mut caller = stage.start(&["--respawn", "--label", name], &[]);
    caller.initialize();
    let hostile = [
        "a\"b",
        "a\\",
        "a\nb 1",
        "\n# TYPE x gauge\nx 1",
        "",
        " ",
        "日本",
        "\u{0}\u{1b}[31m",
        "}",
        &"x".repeat(5000),
    ];
    for method in hostile {
        caller.error(method, json!({}));
    }
    for number in 0..1000 {
        caller.error(&format!("method-{number}"), json!({}));
    }
    let text = printed(&stage);
    expect_accepted(&text);
    let calls: Vec<(String, f64)> =
        series(&text).into_iter().filter(|(name, _)| name.starts_with("nostray_calls_total")).collect();
    // Every call is counted, whichever name it is counted under.
    let total: f64 = calls.iter().map(|(_, times)| times).sum();
    assert_eq!(total, 1.0 + hostile.len() as f64 + 1000.0);
    assert!(calls.len() < 200, "{} methods", calls.len());
    assert!(text.len() < 500_000, "{} bytes", text.len());
    caller.end(&stage);
}

#[test]
fn promtool_accepts_the_configuration_in_the_page() {
    if !has("promtool") {
        return;
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).expect("read the page");
    let block = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let folder = Folder::new("config");
    let file = folder.path().join("prometheus.yml");
    std::fs::write(&file, block).expect("write");
    let output = Command::new("promtool").args(["check", "config", "--syntax-only"]).arg(file).output().expect("run");
    assert!(output.status.success(), "{output:?}");
}
