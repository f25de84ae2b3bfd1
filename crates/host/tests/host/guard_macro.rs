//! `nostray::guard!()`: a program with `#[tokio::main]` guards its own children.

use crate::apart::example;
use badchild::{Scene, User, badchild, publish};

#[test]
fn a_program_with_an_async_main_guards_its_own_children() {
    let scene = Scene::new(User::Current);
    let mut command = scene.command(&publish(&example("embed")));
    // No `nostray` that could be the guard is there.
    command.env("PATH", "/usr/bin:/bin").arg(badchild()).args(["server"]);
    let done = command.output().expect("run it");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains("of child number Some(Generation(1))"), "{said}");
    scene.expect_empty();
}
