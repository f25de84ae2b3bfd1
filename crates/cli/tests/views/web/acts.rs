//! A click and its confirmation restart or stop a child, once; without the confirmation nothing happens.

use badchild::{PATIENCE, comes_true};
use testkit::stage::Stage;

use super::browser::Browser;
use super::http::Web;
use super::{pen, pens};
use crate::supervised;

#[test]
fn a_restart_by_click_is_one_and_the_session_goes_on() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = supervised(&stage, "files");
    let before = caller.pid();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.open_child("files");
    browser.click("#restart");
    assert!(browser.text("#confirm").contains("Restart files"));
    // Two clicks before the page can react are one restart.
    browser
        .run("(document.getElementById('confirm-yes').click(), document.getElementById('confirm-yes').click(), 0)");
    browser.wait("document.getElementById('result').className === 'good'");
    assert_eq!(pen(&stage, "files")["generation"], 2);
    assert!(browser.text("#result").contains("number 2 runs"), "{}", browser.text("#result"));
    browser.wait("document.getElementById('facts').innerText.includes('Restarts\\n1') || document.getElementById('facts').textContent.includes('Restarts1')");
    assert_ne!(caller.pid(), before);
    // Time itself is tested here: no second restart follows.
    assert!(!comes_true(std::time::Duration::from_secs(2), &mut || pen(&stage, "files")["generation"] != 2));
    browser.expect_clean(&web);
    browser.end();
    web.end();
    caller.end(&stage);
}

#[test]
fn cancel_and_escape_do_nothing_and_stop_ends_the_child() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = supervised(&stage, "files");
    let before = caller.pid();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.open_child("files");
    for button in ["#restart", "#stop"] {
        browser.click(button);
        browser.click("#confirm-no");
        browser.click(button);
        // Cancel has the focus.
        browser.press("Enter");
        browser.click(button);
        browser.press("Escape");
        browser.wait("!document.getElementById('confirm').open");
    }
    assert_eq!((caller.pid(), &pen(&stage, "files")["generation"]), (before, &serde_json::json!(1)));
    browser.click("#stop");
    assert!(browser.text("#confirm").contains("Stop files"));
    browser.click("#confirm-yes");
    browser.wait("document.getElementById('result').className === 'good'");
    assert!(comes_true(PATIENCE, &mut || pens(&stage).is_empty()));
    browser.wait("document.querySelectorAll('#rows tr').length === 0");
    browser.wait("document.getElementById('details-state').textContent === 'has ended'");
    assert!(browser.text("#empty").contains("Nothing runs under nostray"));
    assert!(stage.journal().contains("stopping"), "{}", stage.journal());
    browser.expect_clean(&web);
    browser.end();
    web.end();
    caller.code();
    stage.scene.expect_empty();
}

#[test]
fn what_cannot_be_restarted_says_so() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let mut caller = stage.start(&["--label", "name=plain"], &[]);
    caller.initialize();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.open_child("plain");
    assert_eq!(browser.run("document.getElementById('restart').disabled"), true);
    // By another way than the button, the command itself refuses.
    let (bearer, origin) = (web.bearer(), format!("http://{}", web.host));
    let headers = [
        ("Host", web.host.as_str()),
        ("Authorization", &bearer),
        ("Origin", &origin),
        ("Content-Type", "application/json"),
    ];
    let body = serde_json::json!({ "id": pen(&stage, "plain")["id"] }).to_string();
    let answer = web.ask("POST", "/api/restart", &headers, &body);
    assert!(
        answer.status == 200 && answer.body.contains("not supervised") && answer.body.contains(r#""code":1"#),
        "{answer:?}"
    );
    browser.end();
    web.end();
    caller.end(&stage);
}
