//! Real MCP clients that share one server through `nostray share` see the same as each sees with a server of its own.
//!
//! The clients of the folder `peers` hold a party: clients of several SDKs, each with its own `nostray share`, do the
//! same things at the same moment, with the same ids and progress tokens, and record what they see. Each client also
//! does this alone, without nostray. The two records must be equal, except for log messages of the older protocol:
//! these name no session, so all sessions get them. Their text names the client that caused them, so the test checks
//! which clients get them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use badchild::{Folder, Scene, User};
use serde_json::{Value, json};
use testkit::nostray;

use crate::install::Kit;
use crate::servers::{Server, counted};

/// The words between `nostray` and the server's command. The server lingers long enough for clients that connect twice
/// on a busy machine. The test does not wait for the end of the linger.
const SHARED: &[&str] = &["share", "--require-share", "--linger", "5m", "--"];
/// How long a party may last on a machine that is busy with other tests. On an idle machine it takes less than half a
/// minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// The SDK of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sdk {
    Python1,
    /// The default of the SDK: it asks for the newer protocol, and falls back.
    Python2,
    TypeScript1,
    TypeScript2,
    TypeScript2Legacy,
}

impl Sdk {
    fn words(self) -> Option<Vec<PathBuf>> {
        match self {
            Self::Python1 => Kit::Python1.words("bin/python", &["party.py"]),
            Self::Python2 => Kit::Python2.words("bin/python", &["party.py"]),
            Self::TypeScript1 | Self::TypeScript2 | Self::TypeScript2Legacy => {
                Kit::Node.words("node", &["party.mjs"])
            }
        }
    }

    fn orders(self) -> Value {
        match self {
            Self::Python1 | Self::TypeScript1 => json!({ "sdk": 1 }),
            Self::Python2 | Self::TypeScript2 => json!({ "sdk": 2, "mode": "auto" }),
            Self::TypeScript2Legacy => json!({ "sdk": 2, "mode": "legacy" }),
        }
    }
}

/// Guests that run in one process.
#[derive(Debug, Clone)]
struct Group {
    sdk: Sdk,
    /// The numbers of the guests, from 0.
    guests: Vec<usize>,
    /// Further entries of their orders.
    more: Value,
}

impl Group {
    fn new(sdk: Sdk, guests: impl IntoIterator<Item = usize>) -> Self {
        Self { sdk, guests: guests.into_iter().collect(), more: json!({}) }
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.more[name] = value;
        self
    }
}

/// The name of a guest, which is in all its messages.
fn name(guest: usize) -> String {
    format!("guest-{guest:02}")
}

/// The result of a party.
struct Party {
    /// The record of each guest.
    documents: BTreeMap<usize, Value>,
    /// How often a server was started for the party.
    starts: usize,
    /// The highest number of servers at the same time.
    most: usize,
}

/// Runs all groups, through a wrapper. With `alone`, each guest has a server of its own.
fn hold(groups: &[Group], parts: &[&str], wrapper: &[PathBuf], server: &[PathBuf], alone: bool) -> Option<Party> {
    let (scene, folder) = (Scene::apart(User::Current), Folder::new("party"));
    let file = |name: String| folder.path().join(name);
    let all = groups.iter().map(|group| group.guests.len()).sum();
    let started = file("started".to_owned());
    let clients: Vec<_> = groups.iter().map(|group| group.sdk.words()).collect::<Option<_>>()?;
    let mut processes = Vec::new();
    for (at, (group, words)) in groups.iter().zip(clients).enumerate() {
        let mut orders = group.sdk.orders();
        orders["of"] = json!(if alone { 1 } else { all });
        orders["meet"] = json!(file("meet".to_owned()));
        orders["parts"] = json!(parts);
        let guests = group.guests.iter().map(|number| json!({ "name": name(*number), "number": number }));
        orders["guests"] = guests.collect();
        for (key, value) in group.more.as_object().expect("an object") {
            orders[key] = value.clone();
        }
        let mut command = scene.command(&words[0]);
        command.args(&words[1..]).arg(orders.to_string()).args(wrapper).args(counted(started.clone())).args(server);
        // Without a locale, Python adds a variable to the environment, and a client with another environment gets
        // another server.
        command.env("LC_ALL", "C.UTF-8");
        command.stdin(Stdio::null()).stdout(File::create(file(format!("said-{at}"))).expect("make a file"));
        command.stderr(File::create(file(format!("complained-{at}"))).expect("make a file"));
        processes.push(command.spawn().expect("start a client"));
    }
    let most = watch(&scene, &mut processes, server, folder.path());
    let mut documents = BTreeMap::new();
    for (at, group) in groups.iter().enumerate() {
        let said: BTreeMap<String, Value> =
            serde_json::from_slice(&fs::read(file(format!("said-{at}"))).expect("read"))
                .unwrap_or_else(|error| panic!("{error}\n{}", complaints(folder.path())));
        documents.extend(group.guests.iter().map(|number| (*number, said[&name(*number)].clone())));
    }
    if let Some(nostray) = wrapper.first() {
        // End the servers now, without waiting for the linger.
        scene.command(nostray).args(["broker", "stop"]).stdout(Stdio::null()).status().expect("run it");
    }
    scene.expect_empty();
    Some(Party { documents, starts: fs::read_to_string(&started).expect("read").lines().count(), most })
}

/// Waits until all clients have ended. Returns the highest number of servers at the same time.
fn watch(scene: &Scene, processes: &mut [Child], server: &[PathBuf], folder: &Path) -> usize {
    let (deadline, mut most) = (Instant::now() + PATIENCE, 0);
    let mut still_there: Vec<_> = processes.iter_mut().collect();
    for round in 0_u32.. {
        if still_there.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "the party is not over after {PATIENCE:?}\n{}", complaints(folder));
        // Sample rarely: a scan of /proc takes CPU time that the party needs, and each start is counted anyway.
        if round.is_multiple_of(10) {
            most = most.max(servers_in(scene, server));
        }
        // The time between two looks.
        std::thread::sleep(Duration::from_millis(20));
        still_there.retain_mut(|process| {
            let status = process.try_wait().expect("look");
            assert!(status.is_none_or(|status| status.success()), "{status:?}\n{}", complaints(folder));
            status.is_none()
        });
    }
    most
}

/// The number of processes of the scene with exactly this command line.
fn servers_in(scene: &Scene, server: &[PathBuf]) -> usize {
    let words: Vec<u8> =
        server.iter().flat_map(|word| [word.as_os_str().as_encoded_bytes(), b"\0"].concat()).collect();
    let is_it = |pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == words);
    scene.processes().iter().filter(|found| is_it(found.stat.pid)).count()
}

/// The last lines of the clients' and servers' stderr.
fn complaints(folder: &Path) -> String {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let complained = files.filter(|file| file.to_string_lossy().contains("complained"));
    let tail = |file: PathBuf| {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap_or_default()).into_owned();
        let lines: Vec<_> = text.lines().collect();
        format!("{}:\n{}\n", file.display(), lines[lines.len().saturating_sub(40)..].join("\n"))
    };
    complained.map(tail).collect()
}

fn wrapper() -> Vec<PathBuf> {
    [nostray()].into_iter().chain(SHARED.iter().map(PathBuf::from)).collect()
}

/// Runs the party with a shared server and with servers of their own, at the same time.
fn hold_both(groups: &[Group], parts: &[&str], server: Server) -> Option<(Party, Party)> {
    let words = server.words()?;
    std::thread::scope(|scope| {
        let shared = scope.spawn(|| hold(groups, parts, &wrapper(), &words, false));
        let alone = hold(groups, parts, &[], &words, true);
        Some((shared.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?, alone?))
    })
}

/// The steps of a guest. What it heard in a step is sorted by text, except progress, whose order counts.
fn steps(document: &Value) -> Vec<Value> {
    let mut steps = document["steps"].as_array().expect("a list").clone();
    for step in &mut steps {
        let heard = step["heard"].as_array_mut().expect("a list");
        let is_in_order = heard.iter().all(|note| note[0] == "progress");
        if !is_in_order {
            heard.sort_by_key(Value::to_string);
        }
    }
    steps
}

/// Removes notes with the name of another guest. Only log messages may have one.
#[track_caller]
fn take_overheard(steps: &mut [Value], guest: usize) -> BTreeMap<String, Vec<Value>> {
    let mut overheard = BTreeMap::new();
    for step in steps {
        let heard = step["heard"].as_array_mut().expect("a list");
        let is_of_another = |note: &Value| {
            let text = note.to_string();
            text.contains("guest-") && !text.contains(&name(guest))
        };
        let others: Vec<_> = heard.extract_if(.., |note| is_of_another(note)).collect();
        for note in &others {
            assert_eq!(note[0], "notifications/message", "{} got a note for another guest: {note}", name(guest));
        }
        if !others.is_empty() {
            overheard.insert(step["step"].as_str().expect("a text").to_owned(), others);
        }
    }
    overheard
}

/// Compares the record of a guest with the record of `like`, which is the same guest or one of the same kind, alone.
/// Returns the log messages of other guests that it got.
#[track_caller]
fn assert_same(guest: usize, shared: &Value, like: usize, alone: &Value) -> BTreeMap<String, Vec<Value>> {
    assert_eq!(shared["about"], alone["about"], "{}: the server's description of itself", name(guest));
    let (mut seen, expected) = (steps(shared), steps(alone));
    let overheard = take_overheard(&mut seen, guest);
    assert!(expected.len() > 4, "too little to compare: {expected:#?}");
    for (seen, expected) in seen.iter().zip(&expected) {
        let seen = shortened(&format!("{seen:#}"));
        let expected = shortened(&format!("{expected:#}").replace(&name(like), &name(guest)));
        assert_eq!(seen, expected, "with others (left), and alone (right), {} sees", name(guest));
    }
    assert_eq!(seen.len(), expected.len());
    overheard
}

/// Cuts a long text: one of the steps has a quarter of a megabyte.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(20_000) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

/// The levels of the log messages of other guests at a step.
fn levels(overheard: &BTreeMap<String, Vec<Value>>, step: &str) -> Vec<String> {
    let notes = overheard.get(step).map(Vec::as_slice).unwrap_or_default();
    let mut levels: Vec<_> =
        notes.iter().map(|note| note[1]["level"].as_str().unwrap_or_default().to_owned()).collect();
    levels.sort();
    levels
}

/// Checks how many notes a guest got at each of these steps.
#[track_caller]
fn assert_heard(document: &Value, expected: &[(&str, usize)]) {
    for (name, count) in expected {
        let step = document["steps"].as_array().expect("a list").iter().find(|step| step["step"] == *name);
        let heard = step.map(|step| step["heard"].as_array().expect("a list").len());
        assert_eq!(heard, Some(*count), "at the step '{name}' of a guest that is alone: {document:#}");
    }
}

/// Checks that the server's question was refused: nostray could not tell which session it was for.
#[track_caller]
fn assert_was_refused(document: &Value) {
    let text = document["provoked"].to_string();
    assert!(text.contains("several sessions share this server"), "{text}");
}

/// server-everything asks for roots by itself, a while after the handshake. If two guests have calls in flight just
/// then, nostray refuses that question, and from then on calls take turns, so that this question is not refused.
#[track_caller]
fn assert_was_refused_or_took_turns(document: &Value) {
    if !document["provoked"].to_string().contains("a sample of guest-01") {
        assert_was_refused(document);
    }
}

/// In the older protocol a log message goes to all sessions. The first guest wants warnings, the second only errors.
#[track_caller]
fn assert_overheard_logs(overheard: &[BTreeMap<String, Vec<Value>>]) {
    assert_eq!(levels(&overheard[0], "log"), ["error", "warning"]);
    assert_eq!(levels(&overheard[1], "log"), ["error"]);
    assert!(overheard.iter().all(|overheard| overheard.len() == 1), "{overheard:#?}");
}

/// Checks that two guests share one server, and see the same as alone. Returns what each overheard of the other, and
/// the records.
#[track_caller]
fn assert_same_party(first: Sdk, second: Sdk, server: Server, parts: &[&str]) -> Option<Outcome> {
    // server-everything keeps the roots of the first client that it asked, for ever.
    let roots = json!(["file:///party/one", "file:///party/two"]);
    let common =
        |group: Group| if matches!(server, Server::Everything) { group.with("roots", roots.clone()) } else { group };
    let groups = [Group::new(first, [0]), Group::new(second, [1])].map(common);
    let (shared, alone) = hold_both(&groups, parts, server)?;
    let same = |guest: usize| assert_same(guest, &shared.documents[&guest], guest, &alone.documents[&guest]);
    let overheard = [same(0), same(1)];
    assert_eq!((shared.starts, shared.most), (1, 1), "starts of the server, and servers at a time");
    Some(Outcome { overheard, shared: shared.documents, alone: alone.documents })
}

/// What the tests check further.
struct Outcome {
    overheard: [BTreeMap<String, Vec<Value>>; 2],
    shared: BTreeMap<usize, Value>,
    alone: BTreeMap<usize, Value>,
}

/// All features of the older protocol. This server also answers cancelled calls, so nostray knows that they have ended.
#[test]
fn older_sdks_share_a_server_of_the_older_protocol() {
    let parts =
        ["calls", "cancel", "tally", "levels", "updates", "announce", "orderly", "provoke", "questions", "leftovers"];
    let Some(outcome) = assert_same_party(Sdk::Python1, Sdk::TypeScript1, Server::Python1, &parts) else { return };
    for document in outcome.alone.values() {
        assert_heard(document, &[("announce", 1), ("sample", 1), ("elicit", 1), ("roots", 1), ("all at once", 4)]);
    }
    assert_heard(&outcome.alone[&0], &[("progress", 4), ("log", 2), ("touch", 1), ("odd ones cancel", 8)]);
    assert_heard(&outcome.alone[&1], &[("progress", 3), ("log", 1), ("touch what all but one want", 1)]);
    for document in outcome.shared.values() {
        assert_eq!(document["cancelled"], "2", "cancelled calls that the server knows of");
    }
    assert_was_refused(&outcome.shared[&1]);
    assert_overheard_logs(&outcome.overheard);
}

/// A server that never answers a cancelled call. It sends no requests here.
#[test]
fn older_sdks_share_a_server_that_never_answers_cancelled_calls() {
    let parts = ["cancel", "tally", "levels", "updates", "announce", "leftovers"];
    let server = Server::TypeScript1;
    let Some(outcome) = assert_same_party(Sdk::TypeScript1, Sdk::Python1, server, &parts) else { return };
    for document in outcome.shared.values() {
        assert_eq!(document["cancelled"], "2", "cancelled calls that the server knows of");
    }
    assert_overheard_logs(&outcome.overheard);
}

#[test]
fn older_sdks_share_server_everything() {
    let parts = ["calls", "levels", "updates", "provoke", "questions", "cancel", "leftovers"];
    let server = Server::Everything;
    let Some(outcome) = assert_same_party(Sdk::TypeScript1, Sdk::Python1, server, &parts) else { return };
    for document in outcome.alone.values() {
        assert_heard(document, &[("updates on", 2), ("sample", 1), ("elicit", 1), ("all at once", 3)]);
    }
    assert_was_refused_or_took_turns(&outcome.shared[&1]);
    // The server logs each subscription, and only the first guest wants that level.
    assert_eq!(levels(&outcome.overheard[0], "subscribe"), ["info"]);
    assert_eq!(outcome.overheard[0].len(), 1, "{:#?}", outcome.overheard[0]);
    assert!(outcome.overheard[1].is_empty(), "{:#?}", outcome.overheard[1]);
}

/// Both clients ask for the newer protocol at the same time, and fall back.
#[test]
fn newer_sdks_share_server_everything() {
    let parts = ["calls", "updates", "provoke", "questions", "cancel", "leftovers"];
    let server = Server::Everything;
    let Some(outcome) = assert_same_party(Sdk::Python2, Sdk::TypeScript2, server, &parts) else { return };
    assert_was_refused_or_took_turns(&outcome.shared[&1]);
}

const NEWER: &[&str] = &["calls", "cancel", "tally", "levels", "updates", "announce", "questions", "leftovers"];

/// In the newer protocol a server asks through its answers, so nostray always knows which session is meant, and calls
/// never take turns.
#[track_caller]
fn assert_same_party_in_the_newer_protocol(first: Sdk, second: Sdk, server: Server) {
    let Some(outcome) = assert_same_party(first, second, server, NEWER) else { return };
    for (guest, document) in &outcome.shared {
        assert!(document["about"]["version"].as_str().is_some_and(|version| version >= "2026"), "{document:#}");
        assert_eq!(document["cancelled"], "2", "cancelled calls that the server knows of");
        let heard =
            [("sample", 1), ("elicit", 1), ("roots", 1), ("touch", 1), ("log", if *guest == 0 { 2 } else { 1 })];
        assert_heard(&outcome.alone[guest], &heard);
    }
    // A log message does not name its call. It goes to all sessions whose calls want this level.
    assert!(outcome.overheard.iter().all(|overheard| overheard.keys().all(|step| step == "log")));
    assert!(levels(&outcome.overheard[1], "log").iter().all(|level| level == "error"));
}

#[test]
fn newer_sdks_share_a_python_server_of_the_newer_protocol() {
    assert_same_party_in_the_newer_protocol(Sdk::Python2, Sdk::TypeScript2, Server::Python2);
}

#[test]
fn newer_sdks_share_a_typescript_server_of_the_newer_protocol() {
    assert_same_party_in_the_newer_protocol(Sdk::TypeScript2, Sdk::Python2, Server::TypeScript2);
}

/// 32 clients at once, half of them Python's, with one server all the time.
#[test]
fn a_crowd_shares_server_everything() {
    let Some(server) = Server::Everything.words() else { return };
    let parts = ["few", "provoke", "questions", "few", "leftovers"];
    let roots = json!(["file:///party/one", "file:///party/two"]);
    let group = |sdk, guests| Group::new(sdk, guests).with("roots", roots.clone());
    let crowd = [
        group(Sdk::Python1, 0..8),
        group(Sdk::TypeScript1, 8..16),
        group(Sdk::Python1, 16..24),
        group(Sdk::TypeScript1, 24..32),
    ];
    // Two clients of each SDK are enough to know what they see alone.
    let likes = [group(Sdk::Python1, 0..2), group(Sdk::TypeScript1, 8..10)];
    let Some(alone) = hold(&likes, &parts, &[], &server, true) else { return };
    let Some(shared) = hold(&crowd, &parts, &wrapper(), &server, false) else { return };
    for (guest, document) in &shared.documents {
        let like = guest % 16 / 8 * 8 + guest % 2;
        let overheard = assert_same(*guest, document, like, &alone.documents[&like]);
        assert!(overheard.is_empty(), "{overheard:#?}");
    }
    assert_eq!(shared.documents.len(), 32);
    assert_eq!((shared.starts, shared.most), (1, 1), "starts of the server, and servers at a time");
}

/// A server keeps the capabilities and version of its first handshake for ever. So a client with another handshake gets
/// another server, which it shares with clients of the same handshake.
#[test]
fn clients_of_different_kinds_share_with_their_like() {
    let parts = ["few", "orderly", "leftovers"];
    let groups = [
        Group::new(Sdk::Python1, [0, 1]),
        Group::new(Sdk::TypeScript1, [2]),
        Group::new(Sdk::Python1, [3, 4]).with("without", json!(["sampling"])),
        Group::new(Sdk::TypeScript1, [5]).with("without", json!(["sampling"])),
        Group::new(Sdk::Python1, [6, 7]).with("version", json!("2025-06-18")),
    ];
    let Some((shared, alone)) = hold_both(&groups, &parts, Server::TypeScript1) else { return };
    for (guest, document) in &shared.documents {
        let overheard = assert_same(*guest, document, *guest, &alone.documents[guest]);
        assert!(overheard.is_empty(), "{overheard:#?}");
    }
    let can_sample = |guest: usize| alone.documents[&guest].to_string().contains("sampled: a sample of");
    assert_eq!([0, 2, 3, 5, 6].map(can_sample), [true, true, false, false, true]);
    assert_eq!(alone.documents[&6]["about"]["version"], "2025-06-18");
    assert_eq!((shared.starts, shared.most), (3, 3), "starts of the server, and servers at a time");
}

/// A server process speaks only the protocol of its first message.
#[test]
fn clients_of_different_protocols_share_with_their_like() {
    let groups = [
        Group::new(Sdk::TypeScript2, [0, 1]),
        Group::new(Sdk::Python2, [2]),
        Group::new(Sdk::TypeScript2Legacy, [3, 4]),
    ];
    let Some((shared, alone)) = hold_both(&groups, &["few", "orderly", "leftovers"], Server::TypeScript2) else {
        return;
    };
    for (guest, document) in &shared.documents {
        assert_same(*guest, document, *guest, &alone.documents[guest]);
        let is_newer = document["about"]["version"].as_str().is_some_and(|version| version >= "2026");
        assert_eq!(is_newer, *guest < 3, "{document:#}");
    }
    assert_eq!((shared.starts, shared.most), (2, 2), "starts of the server, and servers at a time");
}
