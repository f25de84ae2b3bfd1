//! docs/demo.svg shows what `nostray demo` prints, and docs/top.svg what `nostray top` shows: `bench/demo-svg` and `bench/top-svg` made them,
//! and would make the same today, but for times and numbers.

use std::collections::BTreeMap;

use badchild::{Folder, Scene, User};
use nostray_pen::PenId;
use testkit::nostray;

use super::pages::root;

const PICTURE: &str = "docs/demo.svg";
const TOP: &str = "docs/top.svg";

/// The lines that are there at the end.
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
    lines.into_values().map(joined).collect()
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

/// The lines of a picture, and of the one that its script makes today. `None` without Python.
fn shown_and_made(picture: &str, script: &str) -> Option<[Vec<String>; 2]> {
    if !has_python() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "there is no python3, and CI=true");
        return None;
    }
    let shown = std::fs::read_to_string(root().join(picture)).expect("read the picture");
    let scene = Scene::new(User::Current);
    let folder = Folder::new("picture");
    let output = folder.path().join("made.svg");
    let mut command = scene.command(&root().join(script));
    command.arg("--program").arg(nostray()).arg("--output").arg(&output).arg("--fast");
    let done = command.output().expect("run the script");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    scene.expect_empty();
    let made = std::fs::read_to_string(&output).expect("read what was made");
    Some([&shown, &made].map(|picture| last_lines(picture)))
}

#[test]
fn the_picture_is_of_a_real_run() {
    let Some(lines) = shown_and_made(PICTURE, "bench/demo-svg") else { return };
    let [shown, made] = lines.map(|lines| lines.iter().map(|line| without_numbers(line)).collect::<Vec<_>>());
    assert!(made.len() > 30, "{made:#?}");
    assert_eq!(shown, made, "run bench/demo-svg again, and commit docs/demo.svg");
}

/// The lines of the list without numbers and without memory over time, in any order: children that start at once have no order.
fn list_of(lines: &[String]) -> Vec<String> {
    // One id in twenty has no digit.
    let is_id = |word: &str| word.parse::<PenId>().is_ok();
    let is_drawn = |word: &str| word.chars().all(|c| ('▁'..='█').contains(&c));
    let is_event = |line: &String| line.split_whitespace().next().is_some_and(|word| word.matches(':').count() == 2);
    let without_numbers = |line: &String| {
        let words = line.split_whitespace().filter(|word| !is_drawn(word));
        words
            .map(|word| if word.contains(|c: char| c.is_ascii_digit()) || is_id(word) { "#" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let mut list: Vec<String> = lines.iter().filter(|line| !is_event(line)).map(without_numbers).collect();
    list.sort();
    list
}

#[test]
fn the_picture_of_top_is_of_a_real_run() {
    let Some([shown, made]) = shown_and_made(TOP, "bench/top-svg") else { return };
    assert!(made.len() > 18, "{made:#?}");
    assert_eq!(list_of(&shown), list_of(&made), "run bench/top-svg again, and commit docs/top.svg");
}

#[test]
fn the_picture_is_small_and_moves_without_a_script() {
    let shown = std::fs::read_to_string(root().join(PICTURE)).expect("read the picture");
    assert!(shown.len() < 60_000, "{} bytes", shown.len());
    assert!(shown.contains("@keyframes") && shown.contains("prefers-color-scheme:dark"));
    assert!(!shown.contains("<script") && !shown.contains("<animate"));
}
