//! docs/demo.svg shows what `nostray demo` prints: `bench/demo-svg` made it, and would make the same today, but for times and numbers.

use std::collections::BTreeMap;

use badchild::{Folder, Scene, User};
use testkit::nostray;

use super::pages::root;

const PICTURE: &str = "docs/demo.svg";

/// The lines that are there at the end, without times and process numbers.
fn last_lines(picture: &str) -> Vec<String> {
    let mut lines: BTreeMap<u32, Vec<(f32, String)>> = BTreeMap::new();
    let value = |tag: &str, name: &str| -> Option<String> {
        Some(tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?.to_owned())
    };
    for group in picture.split("<g id=\"end").skip(1).filter_map(|rest| rest.split("</g>").next()) {
        for text in group.split("<text ").skip(1) {
            let (tag, rest) = text.split_once('>').expect("a tag");
            let column = value(tag, " x").or_else(|| value(tag, "x")).and_then(|x| x.parse().ok()).expect("a place");
            let line = value(tag, " y").and_then(|y| y.parse().ok()).expect("a line");
            let text = rest.split("</text>").next().unwrap_or_default().to_owned();
            lines.entry(line).or_default().push((column, text));
        }
    }
    let joined = |mut pieces: Vec<(f32, String)>| {
        pieces.sort_by(|a, b| a.0.total_cmp(&b.0));
        pieces.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("  ")
    };
    lines.into_values().map(joined).map(|line| without_numbers(&line)).collect()
}

/// A line about a process without all its digits; any other without the digits of a time.
fn without_numbers(line: &str) -> String {
    let word = |word: &str| match word.parse::<f32>() {
        Ok(_) if line.starts_with('●') || word.contains('.') => "#".to_owned(),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn has_python() -> bool {
    std::process::Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

#[test]
fn the_picture_is_of_a_real_run() {
    if !has_python() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no python3, and CI=true");
        return;
    }
    let shown = std::fs::read_to_string(root().join(PICTURE)).expect("read the picture");
    let scene = Scene::new(User::Current);
    let folder = Folder::new("picture");
    let output = folder.path().join("demo.svg");
    let mut script = scene.command(&root().join("bench/demo-svg"));
    script.arg("--program").arg(nostray()).arg("--output").arg(&output).arg("--fast");
    let done = script.output().expect("run bench/demo-svg");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    scene.expect_empty();
    let made = std::fs::read_to_string(&output).expect("read what was made");
    let lines = last_lines(&made);
    assert!(lines.len() > 30, "{lines:#?}");
    assert_eq!(last_lines(&shown), lines, "run bench/demo-svg again, and commit docs/demo.svg");
}

#[test]
fn the_picture_is_small_and_moves_without_a_script() {
    let shown = std::fs::read_to_string(root().join(PICTURE)).expect("read the picture");
    assert!(shown.len() < 60_000, "{} bytes", shown.len());
    assert!(shown.contains("@keyframes") && shown.contains("prefers-color-scheme:dark"));
    assert!(!shown.contains("<script") && !shown.contains("<animate"));
}
