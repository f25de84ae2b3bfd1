//! Everything can be done without a mouse.

use serde_json::json;
use testkit::stage::{Caller, Stage};

use super::browser::Browser;
use super::http::Web;
use crate::supervised;

fn chosen(browser: &mut Browser) -> String {
    let name = browser.run("document.querySelector('#rows tr[aria-selected=true] .c-name')?.textContent ?? ''");
    name.as_str().expect("a text").to_owned()
}

#[test]
fn a_child_is_found_opened_and_restarted_by_keys_alone() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let start = |name: &str| supervised(&stage, name);
    let callers: Vec<Caller> = ["one", "two", "three"].map(start).into();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.wait("document.querySelectorAll('#rows tr').length === 3");
    let mut seen = Vec::new();
    for key in ["j", "j", "ArrowDown", "j", "k", "ArrowUp", "End", "Home"] {
        browser.press(key);
        seen.push(chosen(&mut browser));
    }
    assert_eq!(seen, ["one", "two", "three", "three", "two", "one", "three", "one"]);
    assert_eq!(
        browser
            .run("document.activeElement.dataset.id === document.querySelector('[aria-selected=true]').dataset.id"),
        true
    );
    browser.press("/");
    browser.ask(json!({ "do": "type", "text": "two" }));
    browser.press("Enter");
    assert_eq!(chosen(&mut browser), "two");
    browser.press("Enter");
    browser.wait(
        "document.getElementById('details-name').textContent === 'two' && document.activeElement.id === 'details'",
    );
    // Tab reaches the buttons, and each shows that it has the focus.
    browser.press("Tab");
    assert_eq!(browser.run("document.activeElement.id"), "restart");
    assert_ne!(browser.run("getComputedStyle(document.activeElement).outlineStyle"), "none");
    browser.press("r");
    browser.wait("document.getElementById('confirm').open");
    browser.press("Tab");
    browser.press("Enter");
    browser.wait("document.getElementById('result').className === 'good'");
    assert_eq!(super::pen(&stage, "two")["generation"], 2);
    browser.press("Escape");
    browser.wait("document.getElementById('details').hidden && document.activeElement.dataset.id");
    browser.press("?");
    browser.wait("document.getElementById('help').open");
    browser.press("Escape");
    browser.wait("!document.getElementById('help').open");
    // A plot is read by the arrows.
    browser.press("Enter");
    browser.wait("Boolean(document.querySelector('#memory-plot .curve'))");
    browser.run("document.querySelector('#memory-plot svg').focus()");
    browser.press("ArrowLeft");
    browser.wait("document.querySelector('#memory-plot b').textContent.includes(' at ')");
    browser.expect_clean(&web);
    browser.end();
    web.end();
    for mut caller in callers {
        caller.close();
        assert_eq!(caller.code(), 0);
    }
    stage.scene.expect_empty();
}

/// A screen reader gets names and roles.
#[test]
fn every_control_has_a_name() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "one");
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.open_child("one");
    let nameless = "[...document.querySelectorAll('button, input, select, svg, dialog, section')].filter((one) => \
        !(one.innerText || one.textContent.trim() || one.getAttribute('aria-label') || one.getAttribute('aria-labelledby'))).map((one) => one.outerHTML)";
    assert_eq!(browser.run(nameless), json!([]));
    browser.end();
    web.end();
    caller.end(&stage);
}
