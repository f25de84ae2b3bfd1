//! Real MCP clients get the same answers through the managed path as without nostray, although their server goes to
//! sleep twice and is restarted without their notice.
//!
//! Each client of the folder `peers` takes a tour of a server and records what it sees: tools, progress, cancelling,
//! sampling, elicitation, roots, logging, subscriptions, completion, and some of these again after each of two pauses
//! without calls. The records with and without nostray must be equal.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use badchild::{Folder, Scene, User, comes_true};
use serde_json::Value;
use testkit::nostray;

use crate::install::Kit;
use crate::servers::{Server, counted};

/// The words between `nostray` and the server's command. The server sleeps only in the pauses of the tour, which wait
/// for that, and not between two steps on a busy machine.
const MANAGED: &[&str] = &["run", "--respawn", "--hibernate", "4s", "--"];
/// How many seconds a pause takes without nostray. Work that server-everything continues although it was cancelled is
/// over by then.
const PAUSE: &str = "4";
/// How often the server is started again on a tour.
const SLEEPS: usize = 2;
/// How long a tour may take on a machine that is busy with other tests. On an idle machine it takes about twelve
/// seconds.
const PATIENCE: Duration = Duration::from_secs(240);

/// A client of the folder `peers`.
#[derive(Debug, Clone, Copy)]
enum Client {
    Python1,
    /// The default of the SDK: it asks for the newer protocol, and falls back.
    Python2,
    Python2Legacy,
    TypeScript1,
    TypeScript2,
    TypeScript2Legacy,
    Rmcp,
    RmcpLegacy,
}

/// The protocol that client and server should agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    /// Up to 2025-11-25, with a handshake.
    Older,
    /// From 2026-07-28, without a handshake.
    Newer,
}

impl Client {
    /// The client's command, to which the server's is appended.
    fn words(self) -> Option<Vec<PathBuf>> {
        let words = |kit: Kit, program, script, mode: &str| kit.words(program, &[script, mode]);
        match self {
            Self::Python1 => words(Kit::Python1, "bin/python", "client1.py", ""),
            Self::Python2 => words(Kit::Python2, "bin/python", "client2.py", "auto"),
            Self::Python2Legacy => words(Kit::Python2, "bin/python", "client2.py", "legacy"),
            Self::TypeScript1 => words(Kit::Node, "node", "client1.mjs", ""),
            Self::TypeScript2 => words(Kit::Node, "node", "client2.mjs", "auto"),
            Self::TypeScript2Legacy => words(Kit::Node, "node", "client2.mjs", "legacy"),
            Self::Rmcp => words(Kit::Rmcp, "debug/client", "", "auto"),
            Self::RmcpLegacy => words(Kit::Rmcp, "debug/client", "", "legacy"),
        }
    }
}

/// The result of a tour.
struct Taken {
    document: Value,
    /// How often a server was started for the tour.
    starts: usize,
}

/// Lets a client take its tour of a server, through a wrapper.
fn take(client: &[PathBuf], wrapper: &[PathBuf], server: &[PathBuf]) -> Taken {
    // The tour has a directory for records of its own, so that `ps` shows only its server.
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("tour"));
    let [said, complained, started] = ["said", "complained", "started"].map(|name| folder.path().join(name));
    let mut command = scene.command(&client[0]);
    match wrapper {
        [] => command.env("TOUR_PAUSE", PAUSE),
        _ => command.env("TOUR_GATE", folder.path()),
    };
    command.args(&client[1..]).args(wrapper).args(counted(started.clone())).args(server);
    command.stdin(Stdio::null()).stdout(File::create(&said).expect("make a file"));
    command.stderr(File::create(&complained).expect("make a file"));
    let mut process = command.spawn().expect("start the client");
    let mut status = None;
    comes_true(PATIENCE, &mut || {
        if let Some(nostray) = wrapper.first() {
            let_on(&scene, folder.path(), nostray);
        }
        status = process.try_wait().expect("look");
        status.is_some()
    });
    let complaints = || tail(&complained);
    let status =
        status.unwrap_or_else(|| panic!("still on its tour after {PATIENCE:?}: {command:?}\n{}", complaints()));
    assert!(status.success(), "{command:?} ended with {status}\n{}", complaints());
    let document = fs::read(&said).expect("read");
    let document = serde_json::from_slice(&document).unwrap_or_else(|error| panic!("{error}\n{}", complaints()));
    scene.expect_empty();
    Taken { document, starts: fs::read_to_string(&started).expect("read").lines().count() }
}

/// Ends a pause of the tour if the server is asleep.
fn let_on(scene: &Scene, gate: &Path, nostray: &Path) {
    let file = |what: &str, pause: usize| gate.join(format!("{what}-{pause}"));
    let Some(pause) = (1..=SLEEPS).find(|pause| file("waits", *pause).exists() && !file("on", *pause).exists())
    else {
        return;
    };
    let shown = scene.command(nostray).args(["ps", "--json"]).stdin(Stdio::null()).output().expect("run it");
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    let states: Vec<_> = shown["pens"].as_array().into_iter().flatten().map(|pen| &pen["state"]).collect();
    if states == ["asleep"] {
        fs::write(file("on", pause), "").expect("write");
    } else {
        // Poll slowly: `ps` takes CPU time that the tours need.
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn tail(file: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Compares a tour through nostray with one without.
#[track_caller]
fn assert_same_tour(client: Client, server: Server, era: Era) {
    let (Some(client_words), Some(server_words)) = (client.words(), server.words()) else { return };
    let wrapper: Vec<_> = [nostray()].into_iter().chain(MANAGED.iter().map(PathBuf::from)).collect();
    let (direct, managed) = std::thread::scope(|scope| {
        let managed = scope.spawn(|| take(&client_words, &wrapper, &server_words));
        let direct = take(&client_words, &[], &server_words);
        (direct, managed.join().expect("the tour through nostray"))
    });
    assert_worth_comparing(&direct.document, era);
    assert_eq!(managed.document["about"], direct.document["about"], "the server's description of itself");
    let steps = |taken: &Taken| taken.document["steps"].as_array().expect("a list").clone();
    for (seen, expected) in steps(&managed).iter().zip(&steps(&direct)) {
        let [seen, expected] = [seen, expected].map(|step| shortened(&format!("{step:#}")));
        assert_eq!(seen, expected, "through nostray (left), and without (right), {client:?} sees {server:?}");
    }
    assert_eq!(managed.document, direct.document);
    assert_eq!(managed.starts, direct.starts + SLEEPS, "starts of the server; without nostray: {}", direct.starts);
}

/// Checks that the tour saw enough: two equal documents prove nothing if both are empty.
#[track_caller]
fn assert_worth_comparing(document: &Value, era: Era) {
    let heard = |name: &str| {
        let step = document["steps"].as_array()?.iter().find(|step| step["step"] == name)?;
        Some(step["heard"].as_array()?.len())
    };
    let expected: &[(&str, usize)] = if document["about"]["server"] == "mcp-servers/everything" {
        &[
            ("progress", 2),
            ("sample", 1),
            ("elicit", 1),
            ("subscribe", 1),
            ("updates on after a pause", 1),
            ("sample after a pause", 1),
            ("progress after two pauses", 1),
            ("updates unheard", 0),
        ]
    } else {
        &[
            ("progress", 3),
            ("sample", 1),
            ("elicit", 1),
            ("roots", 1),
            ("log after a pause", 2),
            ("touch after a pause", 1),
            ("touch after two pauses", 1),
            ("elicit after two pauses", 1),
            ("announce", 1),
            ("touch unheard", 0),
        ]
    };
    for (name, count) in expected {
        assert_eq!(heard(name), Some(*count), "at the step '{name}' of the tour without nostray: {document:#}");
    }
    // A cancellation that is lost on both sides would look equal, too.
    let step =
        document["steps"].as_array().and_then(|steps| steps.iter().find(|step| step["step"] == "was cancelled"));
    if let Some(step) = step {
        assert_eq!(step["answer"]["content"][0]["text"], "1", "calls that the server has seen cancelled");
    }
    // One SDK does not tell the version: it knows only the older protocol.
    if let Some(version) = document["about"]["version"].as_str() {
        assert_eq!(version >= "2026", era == Era::Newer, "client and server agreed on {version}");
    }
}

/// Cuts a long text: one of the steps has a quarter of a megabyte.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(20_000) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// One test for each pair.
macro_rules! pairs {
    ($($name:ident: $client:ident, $server:ident, $era:ident;)*) => {
        $(
            #[test]
            fn $name() {
                assert_same_tour(Client::$client, Server::$server, Era::$era);
            }
        )*
    };
}

pairs! {
    // Client and server of the same SDK.
    python1_with_python1: Python1, Python1, Older;
    python2_with_python2: Python2, Python2, Newer;
    typescript1_with_typescript1: TypeScript1, TypeScript1, Older;
    typescript2_with_typescript2: TypeScript2, TypeScript2, Newer;
    rmcp_with_rmcp: Rmcp, Rmcp, Newer;
    // The newer SDKs in the older protocol, which is the default of two of the three.
    python2_with_python2_in_the_older_protocol: Python2Legacy, Python2, Older;
    typescript2_with_typescript2_in_the_older_protocol: TypeScript2Legacy, TypeScript2, Older;
    rmcp_with_rmcp_in_the_older_protocol: RmcpLegacy, Rmcp, Older;
    // Each client with the reference server.
    python1_with_everything: Python1, Everything, Older;
    python2_with_everything: Python2, Everything, Older;
    typescript1_with_everything: TypeScript1, Everything, Older;
    typescript2_with_everything: TypeScript2, Everything, Older;
    rmcp_with_everything: Rmcp, Everything, Older;
    // Client and server of different SDKs; clients ask for the newer protocol and fall back where they must.
    python1_with_typescript1: Python1, TypeScript1, Older;
    python2_with_python1: Python2, Python1, Older;
    python2_with_typescript2: Python2, TypeScript2, Newer;
    typescript2_with_python2: TypeScript2, Python2, Newer;
    rmcp_with_python1: Rmcp, Python1, Older;
}

/// The suite itself never pauses. The bridge waits before each request, so that the server sleeps between almost every
/// two calls.
#[test]
fn the_conformance_suite_finds_the_same() {
    let Some(node) = Kit::Node.folder() else { return };
    let managed = ["run", "--respawn", "--hibernate", "50ms", "--"];
    let wrapper: Vec<_> = [nostray()].into_iter().chain(managed.iter().map(PathBuf::from)).collect();
    let ((direct, starts), (managed, more_starts)) = std::thread::scope(|scope| {
        let managed = scope.spawn(|| crate::conformance::run_suite(&node, &wrapper));
        (crate::conformance::run_suite(&node, &[]), managed.join().expect("the suite through nostray"))
    });
    let is_bad = |(_, status): &(String, String)| status == "FAILURE";
    let failures: Vec<_> = direct.iter().filter(|(_, checks)| checks.iter().any(is_bad)).collect();
    assert!(failures.is_empty(), "our own server fails without nostray: {failures:#?}");
    assert_eq!(managed, direct, "through nostray (left), and without (right)");
    assert!(
        more_starts > starts + 20,
        "the server slept too rarely to prove anything: {more_starts} starts instead of {starts}"
    );
}
