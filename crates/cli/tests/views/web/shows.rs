//! What the page shows is what `nostray ps --json` says.

use badchild::{PATIENCE, comes_true};
use serde_json::{Value, json};
use testkit::stage::{Caller, Stage};

use super::browser::Browser;
use super::http::{Web, next_event};
use super::pens;

/// Two shared sessions, a supervised child, a plain one, and one that sleeps.
fn cast(stage: &Stage) -> Vec<Caller> {
    let shared: Vec<Caller> =
        ["chat-1", "chat-2"].map(|name| stage.shared(&["--key", "memory", "--session", name], &[])).into();
    let label = |name: &str| format!("name={name}");
    let mut supervised = stage.start(&["--respawn", "--label", &label("files")], &[]);
    supervised.initialize();
    let mut plain = stage.start(&["--label", &label("plain")], &[]);
    plain.initialize();
    let mut sleeper = stage.start(&["--hibernate", "200ms", "--label", &label("sleeper")], &[]);
    sleeper.initialize();
    let is_asleep = |pens: Vec<Value>| pens.iter().any(|pen| pen["state"] == "asleep");
    assert!(comes_true(PATIENCE, &mut || is_asleep(pens(stage))));
    shared.into_iter().chain([supervised, plain, sleeper]).collect()
}

fn end(stage: &Stage, callers: Vec<Caller>) {
    for mut caller in callers {
        caller.close();
        assert_eq!(caller.code(), 0, "{}", caller.errors());
    }
    stage.scene.expect_empty();
}

/// A state as people are told it.
fn state(pen: &Value) -> &str {
    if pen["lingering"] == true { "lingering" } else { pen["state"].as_str().expect("a state") }
}

/// The list as it is on the page: id, name, state, sessions.
const LIST: &str = "[...document.querySelectorAll('#rows tr')].map((row) => [row.dataset.id, row.querySelector('.c-name').textContent, \
    row.querySelector('.c-state').textContent, Number(row.querySelector('.c-sessions').textContent)])";

#[test]
fn the_list_is_what_ps_says() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let callers = cast(&stage);
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    let pens = pens(&stage);
    let told = pens.iter().map(|pen| {
        let sessions = pen["shared"]["leases"].as_array().or(pen["used_by"].as_array()).map_or(0, Vec::len);
        json!([pen["id"], pen["name"], state(pen), sessions])
    });
    let told: Vec<Value> = told.collect();
    browser.wait("document.querySelectorAll('#rows tr').length === 4");
    let shown = browser.run(LIST);
    assert_eq!(shown, json!(told));
    let mut by_name: Vec<Value> = told;
    by_name.sort_by_key(|row| row[1].as_str().unwrap_or_default().to_owned());
    browser.click("#headings .c-name button");
    assert_eq!(browser.run(LIST), json!(by_name));
    by_name.reverse();
    browser.click("#headings .c-name button");
    assert_eq!(browser.run(LIST), json!(by_name));
    assert_eq!(browser.run("document.querySelector('#headings .c-name').getAttribute('aria-sort')"), "descending");
    // Chips and the filter.
    browser.click("#chip-asleep");
    assert_eq!(browser.run(&format!("({LIST}).map((row) => row[1])")), json!(["sleeper"]));
    browser.click("#chip-asleep");
    browser.ask(json!({ "do": "fill", "selector": "#filter", "text": "chat-2" }));
    assert_eq!(browser.run(&format!("({LIST}).map((row) => row[1])")), json!(["memory"]));
    browser.ask(json!({ "do": "fill", "selector": "#filter", "text": "no such child" }));
    assert!(browser.text("#empty").contains("there are 4"));
    assert!(browser.text("#totals").starts_with("5 sessions, 4 children: "), "{}", browser.text("#totals"));
    browser.expect_clean(&web);
    browser.end();
    web.end();
    end(&stage, callers);
}

#[test]
fn the_stream_has_the_numbers_of_ps() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut callers = cast(&stage);
    for _ in 0..7 {
        callers[2].who();
    }
    callers[2].error("no-such-method", json!({}));
    let mut viewer = web.events();
    let snapshot = next_event(&mut viewer, "snapshot");
    let rows = snapshot["rows"].as_array().expect("rows");
    let pens = pens(&stage);
    assert_eq!(rows.len(), pens.len());
    for pen in &pens {
        let row = rows.iter().find(|row| row["id"] == pen["id"]).expect("the same child");
        for field in [
            "name",
            "command",
            "cwd",
            "started",
            "since",
            "generation",
            "restarts",
            "slot",
            "processes",
            "tier",
            "saved",
        ] {
            // What sharing saves is a multiple of memory, which may have changed meanwhile.
            if field != "saved" || pen["shared"].is_null() {
                assert_eq!(row[field], pen[field], "{field} of {pen:#}");
            }
        }
        assert_eq!(row["state"], state(pen));
        for field in ["messages", "calls", "errors"] {
            assert_eq!(row["traffic"][field], pen["traffic"][field], "{field} of {pen:#}");
        }
        let (shown, told) = (row["memory"].as_f64().expect("a number"), pen["memory"].as_f64().expect("a number"));
        assert!((shown - told).abs() <= told.max(4e6) / 2.0, "{shown} and {told}");
        let commands = |tree: &Value| {
            tree.as_array().expect("a tree").iter().map(|one| one["command"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(commands(&row["tree"]), commands(&pen["tree"]));
    }
    // Then only what changes, and what is gone.
    let gone = pens.iter().find(|pen| pen["name"] == "plain").expect("plain")["id"].clone();
    let mut plain = callers.remove(3);
    plain.close();
    assert_eq!(plain.code(), 0);
    let change = loop {
        let change = next_event(&mut viewer, "change");
        if change["gone"] != json!([]) {
            break change;
        }
        assert!(change["rows"].as_array().expect("rows").len() <= pens.len());
    };
    assert_eq!(change["gone"], json!([gone]));
    drop(viewer);
    web.end();
    end(&stage, callers);
}

#[test]
fn details_show_holders_tree_plots_and_calls() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut callers = cast(&stage);
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    for _ in 0..5 {
        callers[0].who();
    }
    callers[0].error("no-such-method", json!({}));
    browser.open_child("memory");
    let pen = super::pen(&stage, "memory");
    browser.wait("[...document.querySelectorAll('#methods tbody tr')].some((row) => row.cells[0].textContent === 'who' && row.cells[1].textContent === '5')");
    let methods = browser.text("#methods");
    assert!(methods.lines().any(|line| line.starts_with("no-such-method") && line.contains("\t1\t1\t")), "{methods}");
    let holders = browser.text("#holders");
    assert!(holders.contains("chat-1") && holders.contains("chat-2"), "{holders}");
    assert!(browser.text("#holders-title").contains("2 sessions"));
    let tree = browser.run("document.querySelector('#tree svg').textContent").as_str().expect("text").to_owned();
    for process in ["front", "spare", "guard", "child"].iter().filter_map(|role| pen[role]["pid"].as_i64()) {
        assert!(tree.contains(&process.to_string()), "{process} is not in {tree}");
    }
    assert!(tree.contains("steward") && tree.contains("badchild"), "{tree}");
    // Two looks make a curve.
    browser.wait("Boolean(document.querySelector('#memory-plot .curve')) && Boolean(document.querySelector('#traffic-plot .curve'))");
    browser.ask(json!({ "do": "hover", "selector": "#memory-plot svg" }));
    browser.wait("document.querySelector('#memory-plot b').textContent.includes(' at ')");
    // A second child has details of its own.
    browser.open_child("sleeper");
    browser.wait("document.getElementById('details-state').textContent === 'asleep'");
    assert_eq!(browser.run("document.getElementById('restart').disabled"), true);
    browser.expect_clean(&web);
    browser.end();
    web.end();
    end(&stage, callers);
}
