//! A real browser, driven by `peers/browser/driver.mjs`.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use badchild::{PATIENCE, comes_true};
use serde_json::{Value, json};
use testkit::peers::Kit;
use testkit::stage::Stage;

use super::http::Web;

/// The browser, with one page.
pub(crate) struct Browser {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Browser {
    /// `None` where there is none, and the test is skipped.
    pub(crate) fn start(stage: &Stage) -> Option<Self> {
        let driver = Kit::Browser.folder()?.join("driver.mjs");
        let mut command = stage.scene.command("node".as_ref());
        command.arg(driver).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Its profile and its caches.
        command.env("HOME", stage.folder.path());
        let mut process = command.spawn().expect("start node");
        let stdin = process.stdin.take();
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        Some(Self { process, stdin, stdout })
    }

    /// Starts it, and opens the page of a `nostray web`, live.
    pub(crate) fn at(stage: &Stage, web: &Web) -> Option<Self> {
        let mut browser = Self::start(stage)?;
        assert_eq!(browser.ask(json!({ "do": "open", "url": web.address() })), 200);
        browser.wait("document.body.classList.contains('live')");
        Some(browser)
    }

    /// Takes a step, and returns what came of it.
    pub(crate) fn try_ask(&mut self, step: &Value) -> Result<Value, String> {
        writeln!(self.stdin.as_mut().expect("open"), "{step}").expect("write");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("read");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{step}: {line:?}"));
        match answer.get("failed") {
            Some(why) => Err(why.as_str().unwrap_or_default().to_owned()),
            None => Ok(answer["done"].clone()),
        }
    }

    /// The same for a step that works.
    pub(crate) fn ask(&mut self, step: Value) -> Value {
        self.try_ask(&step).unwrap_or_else(|why| {
            let text = self.try_ask(&json!({ "do": "run", "script": "document.body?.innerText" }));
            panic!("{step}: {why}\nthe page shows: {}", text.unwrap_or_default().as_str().unwrap_or_default())
        })
    }

    /// The value of an expression.
    pub(crate) fn run(&mut self, script: &str) -> Value {
        self.ask(json!({ "do": "run", "script": script }))
    }

    /// Waits until an expression is true.
    pub(crate) fn wait(&mut self, script: &str) {
        self.ask(json!({ "do": "wait", "script": script }));
    }

    pub(crate) fn click(&mut self, selector: &str) {
        self.ask(json!({ "do": "click", "selector": selector }));
    }

    pub(crate) fn press(&mut self, key: &str) {
        self.ask(json!({ "do": "press", "key": key }));
    }

    /// The text of an element.
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let text = self.run(&format!("document.querySelector({selector:?}).innerText"));
        text.as_str().expect("a text").to_owned()
    }

    /// Chooses the child with this name, and opens its details.
    pub(crate) fn open_child(&mut self, name: &str) {
        let find =
            format!("[...document.querySelectorAll('#rows tr')].find((row) => row.cells[0].innerText === {name:?})");
        self.wait(&format!("Boolean({find})"));
        self.run(&format!("{find}.click()"));
        self.wait(&format!("document.getElementById('details-name').innerText === {name:?}"));
    }

    /// Checks that all requests went to the server, that the policy was not violated and that nothing was complained of.
    pub(crate) fn expect_clean(&mut self, web: &Web) {
        let seen = self.ask(json!({ "do": "seen" }));
        let requests = seen["requests"].as_array().expect("an array");
        assert!(!requests.is_empty());
        let own = format!("http://{}/", web.host);
        let is_own = |url: &Value| url.as_str().is_some_and(|url| url.starts_with(&own) || url.starts_with("data:"));
        assert!(requests.iter().all(is_own), "{requests:#?}");
        assert_eq!((&seen["errors"], &seen["violations"]), (&json!([]), &json!([])));
    }

    /// Ends it, with all its processes.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        let began = Instant::now();
        let ended = comes_true(PATIENCE, &mut || self.process.try_wait().expect("look").is_some());
        assert!(ended, "the browser does not end after {:?}", began.elapsed());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
