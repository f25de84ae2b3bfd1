//! Finding the child's program before anything is started, as the child's own `execvpe` will: with the child's `PATH`, in the child's
//! directory.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nostray_sys::exec::may_execute;

use crate::Error;
use crate::spec::ChildSpec;

/// Where the C library looks if there is no `PATH`.
const WITHOUT_PATH: &str = "/bin:/usr/bin";

/// Refuses a spec whose directory or program is not there, or may not be used. Between this and the start both may change: then the
/// exit of the child tells ([`crate::Cause::NotExecuted`]).
pub(crate) fn check(spec: &ChildSpec) -> Result<(), Error> {
    let directory = spec.directory.as_deref().unwrap_or(Path::new(""));
    if let Some(path) = &spec.directory {
        let is_directory = std::fs::metadata(path).and_then(|found| match found.is_dir() {
            true => Ok(()),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        is_directory.map_err(|source| Error::Directory { path: path.clone(), source })?;
    }
    let program = Path::new(&spec.command[0]);
    let found = if program.as_os_str().as_bytes().contains(&b'/') {
        may_execute(&directory.join(program))
    } else {
        search(&path_of(spec), directory, program)
    };
    found.map_err(|source| Error::Program { program: program.to_owned(), source })
}

/// The child's `PATH`.
fn path_of(spec: &ChildSpec) -> OsString {
    let own = spec.environment.get(std::ffi::OsStr::new("PATH")).cloned();
    let inherited = || if spec.without_environment { None } else { std::env::var_os("PATH") };
    own.unwrap_or_else(inherited).unwrap_or_else(|| WITHOUT_PATH.into())
}

/// The first file in `PATH` that may be executed decides. A file that may not is remembered, since that says more than "not found".
fn search(path: &OsString, directory: &Path, program: &Path) -> io::Result<()> {
    let mut refused: io::Error = io::Error::from_raw_os_error(NOT_FOUND);
    for folder in std::env::split_paths(path) {
        // An empty entry is the working directory.
        let candidate: PathBuf = directory.join(folder).join(program);
        match may_execute(&candidate) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}

/// ENOENT.
const NOT_FOUND: i32 = 2;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{PenSpec, PenSpecBuilder};

    /// A folder with `bin/tool`, which may be executed, and `data/tool`, which may not.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("nostray-program-{}", std::process::id()));
            for (folder, mode) in [("bin", 0o755), ("data", 0o644)] {
                std::fs::create_dir_all(path.join(folder)).expect("make a folder");
                let tool = path.join(folder).join("tool");
                std::fs::write(&tool, "#!/bin/sh\n").expect("write");
                std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(mode)).expect("set the mode");
            }
            Self(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    fn refused(spec: PenSpecBuilder) -> Option<io::ErrorKind> {
        match check(&spec.build().expect("right").child) {
            Ok(()) => None,
            Err(Error::Program { source, .. }) => Some(source.kind()),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_path_and_the_directory_of_the_child_decide() {
        let folder = Folder::new();
        let (missing, denied) = (Some(io::ErrorKind::NotFound), Some(io::ErrorKind::PermissionDenied));
        let tool = || PenSpec::builder("tool");
        assert_eq!(refused(tool()), missing);
        assert_eq!(refused(tool().env("PATH", folder.path("bin"))), None);
        assert_eq!(refused(tool().env("PATH", folder.path("data"))), denied);
        let both = std::env::join_paths([folder.path("data"), folder.path("bin")]).expect("no colon");
        assert_eq!(refused(tool().env("PATH", &both)), None);
        // What is relative, and an empty entry, is so to the child's directory.
        assert_eq!(refused(tool().env("PATH", "bin").current_dir(&folder.0)), None);
        assert_eq!(refused(tool().env("PATH", "").current_dir(folder.path("bin"))), None);
        assert_eq!(refused(PenSpec::builder("bin/tool").current_dir(&folder.0)), None);
        assert_eq!(refused(PenSpec::builder("bin/tool").current_dir("/")), missing);
        assert_eq!(refused(PenSpec::builder("data/tool").current_dir(&folder.0)), denied);
        assert_eq!(refused(PenSpec::builder(&folder.0)), denied);
        // Without a PATH the C library has one of its own.
        assert_eq!(refused(PenSpec::builder("sh").env_remove("PATH")), None);
        assert_eq!(refused(PenSpec::builder("sh").env_clear()), None);
        assert_eq!(refused(PenSpec::builder("sh").env("PATH", folder.path("bin"))), missing);
        let nowhere = PenSpec::builder("sh").current_dir(folder.path("nowhere")).build().expect("right");
        assert!(matches!(check(&nowhere.child), Err(Error::Directory { .. })));
    }
}
