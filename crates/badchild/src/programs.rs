//! The programs under test and the folders of a test: where they are built, published for every user, and removed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use nostray_sys::proc::Stat;

use crate::{NOBODY, Pid, User};

/// The path of the `badchild` program, built on the first call.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn badchild() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    publish(PATH.get_or_init(|| built(&["--bin", "badchild"], "badchild")))
}

/// Builds a program of this workspace with these cargo arguments. Returns its path, beside the running test.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn built(words: &[&str], program: &str) -> PathBuf {
    let path = beside_test(program);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // For the whole workspace, as `cargo test` does: a single package may have other features, and cargo would build all again.
    cargo.args(["build", "--quiet"]).args(words).current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if path.parent().is_some_and(|folder| folder.ends_with("release")) {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("run cargo").success(), "cargo build {words:?} failed");
    path
}

/// The path of a program of this workspace that cargo builds together with the running test.
///
/// # Panics
/// If the test was not started from where cargo has put it.
#[must_use]
pub fn beside_test(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    test.ancestors().nth(2).expect("target/PROFILE/deps/test").join(program)
}

/// A copy of a program where every user may execute it: a checkout may be in a home directory that other users cannot read.
///
/// # Panics
/// If it cannot be copied.
#[must_use]
pub fn publish(program: &Path) -> PathBuf {
    static FOLDER: Mutex<Option<Folder>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = folder.get_or_insert_with(|| {
        remove_folders_of_the_dead();
        Folder::new("programs")
    });
    let name = program.file_name().expect("a file");
    publish_as(program, folder, name.to_str().expect("a name"))
}

/// A copy of a program in a folder, under this name.
pub(crate) fn publish_as(program: &Path, folder: &Folder, name: &str) -> PathBuf {
    let copy = folder.path().join(name);
    if !copy.exists() {
        // By another process: a program that any process has open for writing cannot be executed, and a child that another
        // thread forks meanwhile inherits the open file.
        assert!(Command::new("cp").arg(program).arg(&copy).status().expect("run cp").success());
    }
    copy
}

/// Removes the folders of test programs that have ended: a static folder is not dropped at the end of its test program.
fn remove_folders_of_the_dead() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number =
            name.to_str().and_then(|name| name.strip_prefix("nostray-test-")).and_then(|name| name.split('-').next());
        if let Some(maker) = number.and_then(|number| number.parse().ok()).and_then(Pid::from_raw)
            && Stat::of(maker).is_none()
        {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// A folder that every user may write to. It is removed when the value is dropped, or else by the next boot.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("nostray-test-{}-{name}", unique()));
        std::fs::create_dir_all(&path).expect("make a folder");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1777)).expect("open it to all");
        Self(path)
    }

    /// Makes a folder that only this user may read.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn private(name: &str, user: User) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = Self::new(name);
        if user == User::Nobody {
            std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("give it away");
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("close it to others");
        folder
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

pub(crate) fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
