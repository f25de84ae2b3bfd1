//! `nostray metrics --output FILE` replaces the file in one step, for the textfile collector.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use badchild::{Folder, User};
use testkit::stage::Stage;

use super::series;

#[test]
fn the_file_is_replaced_as_a_whole_and_a_reader_never_sees_half_of_it() {
    let (stage, folder) = (Stage::new(), Folder::new("metrics"));
    let mut caller = stage.start(&["--respawn"], &[]);
    caller.initialize();
    let path = folder.path().join("nostray.prom");
    let name = path.display().to_string();
    std::fs::write(&path, "old\n").expect("write");
    let old = std::fs::metadata(&path).expect("there").ino();
    let write = || {
        let output = stage.nostray(&["metrics", "--output", &name]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    };
    write();
    assert_ne!(std::fs::metadata(&path).expect("there").ino(), old, "written in place");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..20).for_each(|_| write()));
        while !writer.is_finished() {
            let text = std::fs::read_to_string(&path).expect("read");
            assert!(text.starts_with("# HELP ") && text.ends_with('\n'), "{text}");
            assert!(series(&text).contains_key("nostray_sessions"));
        }
    });
    // The collector, another user, reads it; and nothing else is left beside it.
    assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o444, 0o444);
    assert_eq!(std::fs::read_dir(folder.path()).expect("list").count(), 1);
    caller.end(&stage);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_said() {
    // Root may write everywhere.
    let stage = Stage::for_user(User::Nobody);
    let folder = Folder::new("metrics");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o555)).expect("chmod");
    let missing = folder.path().join("no/such/folder/nostray.prom").display().to_string();
    let mut paths = vec![missing];
    if nostray_sys::process::user() == 0 {
        paths.push(folder.path().join("nostray.prom").display().to_string());
    }
    for path in paths {
        let output = stage.nostray(&["metrics", "--output", &path]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with("nostray: cannot write ") && said.contains(&path), "{said}");
    }
}
