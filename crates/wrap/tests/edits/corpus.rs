//! For each host, a file as its users have it: every server in it is wrapped and unwrapped to the same bytes, also with other line ends, with
//! a byte order mark, and in megabytes of state.

use super::checks;

use std::path::Path;

use nostray_wrap::hosts::{HOSTS, Host, Shape, host_of};
use nostray_wrap::{Edit, Entry, Format, Prefix, State, Target, make_all, read, unwrap, wrap, written_by_wrap};

fn corpus() -> Vec<(&'static Host, Format, Shape, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("text");
        let host = host_of(stem.trim_end_matches("-2")).unwrap_or_else(|| panic!("{stem} is no host"));
        let format = Format::of_name(path.to_str().expect("text")).expect("a format");
        let file = host
            .files
            .iter()
            .find(|file| file.format == format)
            .unwrap_or_else(|| panic!("{stem} has no such format"));
        all.push((host, format, file.shape, std::fs::read(&path).expect("read")));
    }
    all
}

fn is_startable(entry: &&Entry) -> bool {
    matches!(entry.state, State::Stdio | State::Disabled)
}

/// Wraps all servers of a file, and unwraps them again, in another order.
fn all_there_and_back(name: &str, bytes: &[u8], format: Format, shape: Shape, prefix: &Prefix) -> usize {
    let entries = read(bytes, format, shape).unwrap_or_else(|error| panic!("{name}: {error}"));
    let targets: Vec<Target> = entries.iter().filter(is_startable).map(Target::of).collect();
    let mut now = bytes.to_vec();
    for target in &targets {
        now = wrap(&now, format, shape, target, prefix, &written_by_wrap)
            .unwrap_or_else(|error| panic!("{name}, {target:?}: {error}"));
    }
    let edit = |target: &Target| Edit { target: target.clone(), prefix: Some(prefix.clone()) };
    let edits: Vec<Edit> = targets.iter().map(edit).collect();
    let (at_once, then) = make_all(bytes, format, shape, &edits, &written_by_wrap).expect("can be read");
    assert!(
        at_once == now && then.iter().all(Result::is_ok),
        "{name}: all at once is something else than one by one"
    );
    let wrapped = read(&now, format, shape).expect("can be read");
    assert!(wrapped.iter().filter(is_startable).all(|entry| entry.words[0].starts_with(&prefix.program)), "{name}");
    for target in &targets {
        now = unwrap(&now, format, shape, target, &written_by_wrap)
            .unwrap_or_else(|error| panic!("{name}, {target:?}: {error}"));
    }
    assert_eq!(String::from_utf8_lossy(&now), String::from_utf8_lossy(bytes), "{name}");
    targets.len()
}

#[test]
fn every_host_has_a_file_here() {
    let there: Vec<&str> = corpus().iter().map(|(host, ..)| host.id).collect();
    let missing: Vec<&str> = HOSTS.iter().map(|host| host.id).filter(|id| !there.contains(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_server_of_every_host_comes_back() {
    for (host, format, shape, bytes) in corpus() {
        for prefix in checks::prefixes() {
            // A path with a blank cannot be in front of a command in one string.
            let prefix = if shape.splits { Prefix { program: "nostray".into(), ..prefix } } else { prefix };
            assert!(all_there_and_back(host.id, &bytes, format, shape, &prefix) > 0, "{}", host.id);
            let text = String::from_utf8(bytes.clone()).expect("text");
            let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            all_there_and_back(host.id, windows.as_bytes(), format, shape, &prefix);
            let tight = text.trim_end();
            all_there_and_back(host.id, tight.as_bytes(), format, shape, &prefix);
        }
    }
}

#[test]
fn what_a_host_does_not_start_is_no_target() {
    for (host, format, shape, bytes) in corpus() {
        for entry in read(&bytes, format, shape).expect("can be read") {
            let is_far = ["far", "github", "httpServer"].contains(&entry.name.as_str());
            assert_eq!(entry.state == State::Remote, is_far || entry.name == "developer", "{}: {entry:?}", host.id);
            assert_eq!(
                entry.state == State::Disabled,
                ["off", "pdf"].contains(&entry.name.as_str()) || (entry.name == "b" && host.id == "opencode"),
                "{}: {entry:?}",
                host.id
            );
        }
    }
}

/// A host's state file is as large as its history.
#[test]
fn five_megabytes_of_state_stay_as_they_are() {
    let (_, format, shape, bytes) = corpus().into_iter().find(|(host, ..)| host.id == "claude-code").expect("there");
    let line = "      { \"display\": \"a \\\"quoted\\\" line, with \\u00e4 and {[\" },\n";
    let history = format!("\"history\": [\n{}      ", line.repeat((5 << 20) / line.len()));
    let text = String::from_utf8(bytes).expect("text").replacen("\"history\": [", &history, 1);
    assert!(text.len() > 5 << 20);
    let begin = std::time::Instant::now();
    let count = all_there_and_back("5 MB", text.as_bytes(), format, shape, &checks::prefixes()[0]);
    assert_eq!(count, 4);
    // Of a debug build on a busy machine. What must not be is that each edit costs more than reading the file a few times.
    assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", begin.elapsed());
}
