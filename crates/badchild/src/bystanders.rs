//! Processes that look like those of a test, and that nostray must not touch.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use crate::{Found, Scene, User, badchild};

/// Unrelated processes that nostray must not touch: one is in this process group, the other leads its own.
#[derive(Debug)]
pub struct Bystanders {
    scene: Scene,
    processes: Vec<Child>,
    before: Vec<Found>,
}

impl Bystanders {
    /// Starts both processes.
    ///
    /// # Panics
    /// If they cannot be started.
    #[must_use]
    pub fn start(user: User) -> Self {
        let scene = Scene::new(user);
        let mut processes = Vec::new();
        for group in [None, Some(0)] {
            let mut command = scene.command(&badchild());
            command.arg("pause").stdin(Stdio::null()).stdout(Stdio::piped());
            if let Some(group) = group {
                command.process_group(group);
            }
            let mut process = command.spawn().expect("start a bystander");
            let mut line = String::new();
            BufReader::new(process.stdout.take().expect("piped")).read_line(&mut line).expect("ready");
            processes.push(process);
        }
        let before = scene.processes();
        assert_eq!(before.len(), 2);
        Self { scene, processes, before }
    }

    /// Checks that each process still lives, and is the same as before.
    ///
    /// # Panics
    /// If one is not.
    pub fn expect_untouched(&self) {
        for found in &self.before {
            assert!(found.is_alive(), "a bystander was hit: {found:?}");
        }
        assert_eq!(self.scene.processes().len(), self.before.len());
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}
