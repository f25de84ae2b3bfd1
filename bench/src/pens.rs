//! Many processes: pens on record, and a crowd that has nothing to do with nostray.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use badchild::{Scene, User};

use crate::Failure;
use crate::programs::Programs;

/// Starts a pen with a child that does nothing.
pub(crate) fn start_pen(programs: &Programs, scene: &Scene) -> Result<Child, Failure> {
    let mut command = scene.command(&programs.nostray);
    command.args(["run", "--no-sweep", "--"]).arg(&programs.badchild).arg("pause");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut String::new())?;
    Ok(child)
}

/// Pens on record, in a place of their own.
pub(crate) struct Pens {
    pub(crate) scene: Scene,
    children: Vec<Child>,
}

impl Pens {
    pub(crate) fn start(programs: &Programs, count: usize) -> Result<Self, Failure> {
        let mut pens = Self { scene: Scene::apart(User::Current), children: Vec::new() };
        pens.grow(programs, count)?;
        Ok(pens)
    }

    /// Adds as many as it takes.
    pub(crate) fn grow(&mut self, programs: &Programs, count: usize) -> Result<(), Failure> {
        while self.children.len() < count {
            self.children.push(start_pen(programs, &self.scene)?);
        }
        Ok(())
    }
}

impl Drop for Pens {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.stdin.take());
        }
        for child in &mut self.children {
            child.wait().ok();
        }
    }
}

/// Processes that have nothing to do with nostray.
pub(crate) struct Crowd {
    child: Child,
    _scene: Scene,
}

impl Crowd {
    pub(crate) fn start(programs: &Programs, count: usize) -> Result<Self, Failure> {
        let scene = Scene::new(User::Current);
        let mut command = scene.command(&programs.badchild);
        let mut child =
            command.args(["many", &count.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut String::new())?;
        Ok(Self { child, _scene: scene })
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}
