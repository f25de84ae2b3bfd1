//! What docs/library.md shows is what runs.

use badchild::{Scene, User, badchild, publish};

use crate::apart::example;

#[test]
fn the_program_on_the_page_is_the_example_and_short() {
    let page = include_str!("../../../../docs/library.md");
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("there is one");
    let (_, example) =
        include_str!("../../examples/embed.rs").split_once("\n\n").expect("a comment, and then the program");
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
