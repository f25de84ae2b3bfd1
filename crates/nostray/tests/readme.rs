//! What README.md shows is what runs.

#![cfg(feature = "supervisor")]

mod apart;

use apart::example;
use badchild::{Scene, User, badchild, publish};

#[test]
fn the_program_in_the_readme_is_the_example_and_short() {
    let readme = include_str!("../../../README.md");
    let shown = readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    let (_, example) =
        include_str!("../examples/embed.rs").split_once("\n\n").expect("a comment, and then the program");
    assert_eq!(shown.trim(), example.trim());
    assert!(shown.trim().lines().count() <= 25);
}

#[test]
fn the_example_runs_and_nothing_is_left_of_it() {
    let scene = Scene::new(User::Current);
    let mut command = scene.command(&publish(&example("embed")));
    let done = command.arg(badchild()).args(["server"]).output().expect("run it");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("of child number Some(Generation(1))"), "{said}");
    scene.expect_empty();
}
