//! Children that come and go all the time neither break the page nor make it flicker; its connection ends and comes back.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use nostray_sys::Signal;
use serde_json::json;
use testkit::nostray;
use testkit::stage::Stage;

use super::browser::Browser;
use super::http::Web;
use crate::supervised;

#[test]
fn children_that_come_and_go_leave_the_page_as_it_is() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let caller = supervised(&stage, "stays");
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    browser.open_child("stays");
    // The line that stays must be the same element, and selected, all the time; and no look may show nothing.
    browser.run(
        "(() => { window.line = document.querySelector('#rows tr'); window.lost = 0; window.most = 0; \
         new MutationObserver(() => { const rows = document.querySelectorAll('#rows tr'); window.most = Math.max(window.most, rows.length); \
         if (!window.line.isConnected || window.line.getAttribute('aria-selected') !== 'true') window.lost += 1; }) \
         .observe(document.getElementById('rows'), { childList: true, subtree: true }); })()",
    );
    let is_over = AtomicBool::new(false);
    let started = std::thread::scope(|scope| {
        let starters: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut started = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let mut command = stage.scene.command(&nostray());
                        command.args(["run", "--", "sleep", "0.05"]).stdin(Stdio::null()).stdout(Stdio::null());
                        assert!(command.status().expect("run").success());
                        started += 1;
                    }
                    started
                })
            })
            .collect();
        // Time itself is tested here: some looks.
        browser.wait("window.most > 1");
        for _ in 0..5 {
            let took = browser.run("document.getElementById('footer').textContent");
            browser.wait(&format!("document.getElementById('footer').textContent !== {took}"));
        }
        is_over.store(true, Ordering::Relaxed);
        starters.into_iter().map(|starter| starter.join().expect("no panic")).sum::<u32>()
    });
    assert!(started > 20, "{started}");
    browser.wait("document.querySelectorAll('#rows tr').length === 1");
    assert_eq!(browser.run("window.lost"), 0);
    assert_eq!(browser.run("document.querySelectorAll('#journal li').length <= 500"), true);
    browser.expect_clean(&web);
    browser.end();
    web.end();
    caller.end(&stage);
}

#[test]
fn the_end_of_the_server_is_said_and_a_lost_connection_comes_back() {
    let stage = Stage::new();
    let web = Web::start(&stage);
    let Some(mut browser) = Browser::at(&stage, &web) else { return };
    assert_eq!(browser.text("#connection"), "Live");
    let file = stage.file("token");
    std::fs::write(&file, format!("{}\n", web.token)).expect("write");
    std::process::Command::new("chmod").args(["600", &file]).status().expect("chmod");
    let port = web.host.rsplit(':').next().expect("a port").to_owned();
    // Killed, it cannot say that it ends.
    web.signal(Signal::KILL);
    browser.wait("document.getElementById('connection').textContent.startsWith('Connection lost')");
    drop(web);
    let web = Web::start_with(&stage, &["--port", &port, "--token-file", &file]);
    browser.wait("document.getElementById('connection').textContent === 'Live'");
    web.end();
    browser.wait("document.getElementById('connection').textContent === 'nostray web has ended'");
    assert_eq!(browser.run("document.body.classList.contains('ended')"), json!(true));
    browser.end();
    stage.scene.expect_empty();
}
