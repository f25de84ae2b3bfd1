//! The journal on the page: what has happened, what happens now, and filters.

use serde_json::json;
use testkit::stage::Stage;

use super::browser::Browser;
use super::http::Web;
use crate::supervised;

const SHOWN: &str = "[...document.querySelectorAll('#journal li')].map((item) => item.textContent)";

#[test]
fn it_shows_what_log_shows_goes_on_live_and_filters() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let first = supervised(&stage, "first");
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    let id = super::pen(&stage, "first")["id"].as_str().expect("an id").to_owned();
    browser.wait(&format!("({SHOWN}).some((text) => text.includes({id:?}) && text.includes('started'))"));
    let mut second = stage.start(&["--label", "name=second"], &[]);
    second.initialize();
    let other = super::pen(&stage, "second")["id"].as_str().expect("an id").to_owned();
    second.close();
    assert_eq!(second.code(), 0);
    browser.wait(&format!(
        "({SHOWN}).some((text) => text.includes({other:?}) && text.includes('nothing is left of it'))"
    ));
    // Every entry, the newest first.
    let log = stage.nostray(&["log", "--json"]).stdout;
    let entries = String::from_utf8(log).expect("text").lines().count();
    browser.wait(&format!("document.querySelectorAll('#journal li').length === {entries}"));
    let times = "[...document.querySelectorAll('#journal time')].map((time) => time.dateTime)";
    assert_eq!(browser.run(&format!("JSON.stringify({times}) === JSON.stringify(({times}).sort().reverse())")), true);
    browser.ask(json!({ "do": "fill", "selector": "#journal-filter", "text": other }));
    assert_eq!(
        browser.run(&format!("({SHOWN}).length > 2 && ({SHOWN}).every((text) => text.includes({other:?}))")),
        true
    );
    browser.ask(json!({ "do": "choose", "selector": "#journal-kind", "value": "exited" }));
    assert_eq!(browser.run(&format!("({SHOWN}).length")), 1);
    browser.ask(json!({ "do": "fill", "selector": "#journal-filter", "text": "nothing like this" }));
    browser.wait("!document.getElementById('journal-empty').hidden");
    browser.ask(json!({ "do": "fill", "selector": "#journal-filter", "text": "" }));
    browser.ask(json!({ "do": "choose", "selector": "#journal-kind", "value": "" }));
    // An id leads to its child, whose own journal is a part of it.
    browser.run(&format!("[...document.querySelectorAll('#journal button')].find((button) => button.textContent.startsWith({id:?})).click()"));
    browser.wait("document.getElementById('details-name').textContent === 'first'");
    assert!(browser.text("#own-journal").contains("started"));
    browser.expect_clean(&web);
    browser.end();
    web.end();
    first.end(&stage);
}
