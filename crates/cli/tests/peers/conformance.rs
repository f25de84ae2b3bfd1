//! The protocol's own conformance suite, pointed at a server on stdio.
//!
//! The suite speaks HTTP only: it tests a server at a URL, or starts a client with a URL. So a small bridge
//! (`peers/node/bridge.mjs`) connects it to a server on stdio that has what the suite's scenarios ask for. Three of the
//! scenarios test HTTP itself (two event streams, one the Host header) and see only the bridge. The scenarios for
//! clients (most of them about authorization) do not apply to a server on stdio, and are left out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use badchild::{Folder, Scene, User, comes_true};
use serde_json::Value;

/// How long the suite may take on a machine that is busy with other tests. On an idle machine it takes half a minute.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long the bridge waits before each request, in seconds.
const PAUSE: &str = "0.25";

/// The findings of the suite: for each scenario its checks, each with its outcome.
pub(crate) type Findings = BTreeMap<String, Vec<(String, String)>>;

/// Runs the suite's scenarios for servers against a server on stdio, through a wrapper. Also returns how often the
/// server was started.
pub(crate) fn run_suite(node: &Path, wrapper: &[PathBuf]) -> (Findings, usize) {
    let (scene, folder) = (Scene::new(User::Current), Folder::new("conformance"));
    let [results, started, complained] = ["results", "started", "complained"].map(|name| folder.path().join(name));
    let counted = ["sh", "-c", "echo start >>\"$0\"; exec \"$@\""].map(PathBuf::from);
    let mut bridge = scene.command("node".as_ref());
    bridge.env("BRIDGE_PAUSE", PAUSE).arg(node.join("bridge.mjs")).args(wrapper).args(counted).arg(&started);
    bridge.arg("node").arg(node.join("conformance-server.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bridge =
        bridge.stderr(File::create(&complained).expect("make a file")).spawn().expect("start the bridge");
    let mut url = String::new();
    BufReader::new(bridge.stdout.take().expect("piped")).read_line(&mut url).expect("the bridge's address");

    let mut suite = scene.command("node".as_ref());
    suite.arg("--import").arg(node.join("conformance.mjs"));
    suite.arg(node.join("node_modules/@modelcontextprotocol/conformance/dist/index.js"));
    suite.args(["server", "--suite", "all", "--url", url.trim(), "--output-dir"]).arg(&results);
    let said = folder.path().join("said");
    suite.stdin(Stdio::null()).stdout(File::create(&said).expect("make a file")).stderr(Stdio::null());
    let mut suite = suite.spawn().expect("start the suite");
    let is_done = comes_true(PATIENCE, &mut || suite.try_wait().expect("look").is_some());
    let complaints = || [&said, &complained].map(|file| fs::read_to_string(file).unwrap_or_default()).concat();
    assert!(is_done, "the suite is still running after {PATIENCE:?}\n{}", complaints());

    drop(bridge.stdin.take());
    bridge.wait().expect("the bridge's end");
    scene.expect_empty();
    let findings = read_findings(&results);
    assert!(findings.len() > 30, "{findings:#?}\n{}", complaints());
    (findings, fs::read_to_string(&started).expect("read").lines().count())
}

/// Reads the findings from `server-SCENARIO-TIME/checks.json`.
fn read_findings(results: &Path) -> Findings {
    let mut findings = Findings::new();
    for entry in fs::read_dir(results).expect("the results").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let time = "-2026-01-01T00-00-00-000Z".len();
        let scenario = name.get("server-".len()..name.len().saturating_sub(time)).unwrap_or(&name).to_owned();
        let checks = fs::read(entry.path().join("checks.json")).expect("read the checks");
        let checks: Vec<Value> = serde_json::from_slice(&checks).expect("a list of checks");
        let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let mut checks: Vec<_> = checks.iter().map(|check| (text(check, "id"), text(check, "status"))).collect();
        checks.sort();
        findings.insert(scenario, checks);
    }
    findings
}
