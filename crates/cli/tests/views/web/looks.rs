//! Narrow, wide, light and dark.

use serde_json::json;
use testkit::stage::Stage;

use super::browser::Browser;
use super::http::Web;

#[test]
fn a_phone_shows_all_of_it_without_scrolling_sideways_and_dark_is_dark() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let long = format!("name={}", "a-very-long-name-without-any-blank-".repeat(8));
    let mut caller =
        stage.start(&["--respawn", "--label", &long, "--session", &"s".repeat(200)], &["--x", &"y".repeat(500)]);
    caller.initialize();
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.run("document.querySelector('#rows tr').click()");
    browser
        .wait("!document.getElementById('details').hidden && Boolean(document.querySelector('#memory-plot .curve'))");
    for width in [320, 360, 700, 1000, 1280, 1920] {
        browser.ask(json!({ "do": "resize", "width": width, "height": 800 }));
        let wide = "[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && \
            getComputedStyle(one).position !== 'absolute' && !one.closest('svg')).map((one) => one.tagName + '#' + one.id)";
        assert_eq!(browser.run(wide), json!([]), "at {width}");
        assert_eq!(browser.run("document.documentElement.scrollWidth <= innerWidth"), true, "at {width}");
        // What matters most is there at every width.
        for cell in [".c-name", ".c-state", ".c-sessions", ".c-memory"] {
            let shown = format!("document.querySelector('#rows {cell}').getBoundingClientRect().width > 20");
            assert_eq!(browser.run(&shown), true, "{cell} at {width}");
        }
    }
    let colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]";
    assert_eq!(browser.run(colours), json!(["rgb(255, 255, 255)", "rgb(31, 35, 40)"]));
    browser.ask(json!({ "do": "scheme", "dark": true }));
    assert_eq!(browser.run(colours), json!(["rgb(13, 17, 23)", "rgb(240, 246, 252)"]));
    browser.expect_clean(&web);
    browser.end();
    web.end();
    caller.end(&stage);
}

/// A child's name and arguments are text, whatever is in them.
#[test]
fn hostile_names_are_shown_and_do_nothing() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let name = "<img src=x onerror=alert(1)><script>alert(2)</script>\u{202e}\n\u{1b}[31m";
    let mut caller =
        stage.start(&["--respawn", "--label", &format!("name={name}"), "--session", "</script><b>"], &[]);
    caller.initialize();
    caller.error("<svg onload=alert(3)>\"'\u{202e}", json!({}));
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.run("document.querySelector('#rows tr').click()");
    browser.wait("document.querySelector('#methods').textContent.includes('<svg onload=alert(3)>')");
    let shown = browser.text("#details-name");
    assert!(
        shown.starts_with("<img src=x onerror=alert(1)><script>") && shown.contains("\\u{202e}\\u{a}\\u{1b}[31m"),
        "{shown}"
    );
    assert_eq!(browser.run("document.querySelectorAll('img, b b, script').length"), 1);
    browser.expect_clean(&web);
    browser.end();
    web.end();
    caller.end(&stage);
}
