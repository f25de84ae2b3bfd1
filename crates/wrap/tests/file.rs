//! Files are written whole, with their attributes, through their links, and without the loss of what another process writes meanwhile.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nostray_sys::random::Random;
use nostray_wrap::file::{self, backup_of, edit};
use nostray_wrap::hosts::Lock;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nostray-wrap-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("make a folder");
        Self(path)
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.0.join("mcp.json");
        fs::write(&path, text).expect("write");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn add(path: &Path, more: &str) -> Result<file::Written, file::Error> {
    edit(path, Lock::None, true, &mut |bytes| Ok([bytes, more.as_bytes()].concat()))
}

fn names(folder: &Path) -> Vec<String> {
    let mut all: Vec<_> = fs::read_dir(folder)
        .expect("list")
        .map(|entry| entry.expect("entry").file_name().into_string().expect("text"))
        .collect();
    all.sort();
    all
}

#[test]
fn permissions_and_attributes_are_kept_and_a_backup_is_made_once() {
    let folder = Folder::new("attributes");
    let path = folder.file("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("chmod");
    let has_attributes = rustix::fs::setxattr(&path, "user.note", b"kept", rustix::fs::XattrFlags::empty()).is_ok();
    let before = fs::metadata(&path).expect("there");
    let written = add(&path, "b").expect("written");
    assert_eq!((written.has_changed, written.backup.as_deref()), (true, Some(backup_of(&path).as_path())));
    add(&path, "c").expect("written");
    let after = fs::metadata(&path).expect("there");
    assert_eq!((before.mode(), before.uid(), before.gid()), (after.mode(), after.uid(), after.gid()));
    assert_eq!(fs::metadata(backup_of(&path)).expect("there").mode(), before.mode());
    if has_attributes {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.note", &mut value[..]).expect("kept");
        assert_eq!(&value[..length], b"kept");
    }
    assert_eq!(fs::read(&path).expect("read"), b"abc");
    assert_eq!(fs::read(backup_of(&path)).expect("read"), b"a");
    assert_eq!(names(&folder.0), ["mcp.json", "mcp.json.before-nostray"]);
    assert_eq!(file::forget_backup(&path).expect("removed"), Some(backup_of(&path)));
    assert_eq!(file::forget_backup(&path).expect("nothing to do"), None);
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_edited() {
    let folder = Folder::new("link");
    let path = folder.file("a");
    let home = folder.0.join("home");
    fs::create_dir(&home).expect("make");
    symlink("../mcp.json", home.join("first")).expect("link");
    symlink("first", home.join("second")).expect("link");
    add(&home.join("second"), "b").expect("written");
    assert_eq!(fs::read(&path).expect("read"), b"ab");
    assert_eq!(fs::read_link(home.join("second")).expect("a link"), Path::new("first"));
    assert_eq!(fs::read_link(home.join("first")).expect("a link"), Path::new("../mcp.json"));
}

#[test]
fn a_file_that_may_not_be_written_is_left_alone() {
    let folder = Folder::new("read-only");
    let path = folder.file("a");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("chmod");
    let error = add(&path, "b").expect_err("read-only").to_string();
    assert!(error.contains("read-only"), "{error}");
    assert_eq!((fs::read(&path).expect("read"), names(&folder.0)), (b"a".to_vec(), vec!["mcp.json".to_owned()]));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    fs::hard_link(&path, folder.0.join("other")).expect("link");
    let error = add(&path, "b").expect_err("linked").to_string();
    assert!(error.contains("hard link") && fs::read(&path).expect("read") == b"a", "{error}");
    assert!(add(&folder.0.join("nothing"), "b").is_err());
    assert!(add(&folder.0, "b").is_err());
}

#[test]
fn an_edit_that_fails_leaves_nothing_behind() {
    let folder = Folder::new("fails");
    let path = folder.file("a");
    let error = edit(&path, Lock::Folder, true, &mut |_| Err(nostray_wrap::Error::Missing)).expect_err("fails");
    assert_eq!(error.to_string(), "has no such server");
    assert_eq!(names(&folder.0), ["mcp.json"]);
    let same = edit(&path, Lock::Folder, true, &mut |bytes| Ok(bytes.to_vec())).expect("nothing to do");
    assert_eq!((same.has_changed, names(&folder.0)), (false, vec!["mcp.json".to_owned()]));
}

#[test]
fn what_is_written_during_an_edit_is_not_lost() {
    let folder = Folder::new("meanwhile");
    let path = folder.file("a");
    let mut rounds = 0;
    edit(&path, Lock::None, true, &mut |bytes| {
        rounds += 1;
        if rounds < 3 {
            // By another writer, after this edit has read the file: once in place, once by another file.
            let other = folder.0.join("other");
            let now = [fs::read(&path).expect("read"), format!("<{rounds}>").into_bytes()].concat();
            fs::write(if rounds == 1 { &path } else { &other }, now).expect("write");
            if rounds == 2 {
                fs::rename(other, &path).expect("rename");
            }
        }
        Ok([bytes, b"b"].concat())
    })
    .expect("written");
    let text = String::from_utf8(fs::read(&path).expect("read")).expect("text");
    assert!(text.contains("<1>") && text.contains("<2>") && text.ends_with('b'), "{text}");
}

#[test]
fn what_another_writer_has_broken_stays_as_that_writer_left_it() {
    let folder = Folder::new("broken");
    let path = folder.file("a");
    let mut rounds = 0;
    let done = edit(&path, Lock::None, false, &mut |bytes| {
        rounds += 1;
        if rounds == 1 {
            fs::write(&path, "broken").expect("write");
            return Ok([bytes, b"b"].concat());
        }
        Err(nostray_wrap::Error::Inexact)
    });
    assert!(done.is_err());
    assert_eq!((fs::read(&path).expect("read"), names(&folder.0)), (b"broken".to_vec(), vec!["mcp.json".to_owned()]));
}

/// A host that keeps a number, in its own way of writing: in place or by another file, with or without its lock.
fn host_writes(path: &Path, number: u64, in_place: bool) {
    let text = fs::read_to_string(path).expect("the file is always there");
    let rest = text.split_once('\n').expect("two lines").1;
    let new = format!("host {number}\n{rest}");
    if in_place {
        fs::write(path, new).expect("write");
    } else {
        let other = path.with_extension("host");
        fs::write(&other, new).expect("write");
        fs::rename(&other, path).expect("rename");
    }
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn rounds() -> u64 {
    if std::env::var_os("NOSTRAY_LONG").is_some() { 10_000 } else { 300 }
}

/// The host takes no lock before it writes, so it may overwrite an edit; but no edit may overwrite what the host wrote.
#[test]
fn nothing_that_a_host_writes_is_lost() {
    for in_place in [false, true] {
        let folder = Folder::new(if in_place { "in-place" } else { "by-rename" });
        let path = folder.file("host 0\nours\n");
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Ends the edits, also if this thread fails.
                let _over = Over(&is_over);
                let mut random = Random::new(7);
                for number in 1..=rounds() {
                    host_writes(&path, number, in_place);
                    // So that writes fall into any moment of an edit.
                    std::thread::sleep(std::time::Duration::from_micros(random.below(400)));
                    // A number that was written and is not there any more was overwritten. An edit that began before it puts it back within
                    // its next round, so a wrong look is repeated.
                    let is_there =
                        || fs::read_to_string(&path).is_ok_and(|text| text.starts_with(&format!("host {number}\n")));
                    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
                    while !is_there() {
                        assert!(std::time::Instant::now() < deadline, "{number} is lost");
                        std::thread::yield_now();
                    }
                }
            });
            let mut count = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                count += 1;
                edit(&path, Lock::None, false, &mut |bytes| {
                    let text = String::from_utf8(bytes.to_vec()).expect("text");
                    let (host, _) = text.split_once('\n').ok_or(nostray_wrap::Error::Missing)?;
                    Ok(format!("{host}\nours {count}\n").into_bytes())
                })
                .ok();
            }
            assert!(count > 0, "no edits");
        });
        let text = fs::read_to_string(&path).expect("read");
        assert!(text.starts_with(&format!("host {}\n", rounds())), "{text}");
    }
}

/// With the host's own lock, nothing of either writer is lost.
#[test]
fn two_writers_with_the_hosts_lock_lose_nothing_of_each_other() {
    let folder = Folder::new("locked");
    let path = folder.file("host 0\nours 0\n");
    let lock = folder.0.join("mcp.json.lock");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=rounds() {
                while fs::create_dir(&lock).is_err() {
                    std::thread::yield_now();
                }
                host_writes(&path, number, false);
                fs::remove_dir(&lock).expect("its own lock");
            }
        });
        for number in 1..=rounds() {
            edit(&path, Lock::Folder, false, &mut |bytes| {
                let text = String::from_utf8(bytes.to_vec()).expect("text");
                assert!(text.ends_with(&format!("ours {}\n", number - 1)), "an edit was lost: {text}");
                Ok(text.replace(&format!("ours {}", number - 1), &format!("ours {number}")).into_bytes())
            })
            .expect("written");
        }
    });
    assert_eq!(fs::read_to_string(&path).expect("read"), format!("host {0}\nours {0}\n", rounds()));
}

/// Several processes of nostray at once.
#[test]
fn edits_take_turns() {
    let folder = Folder::new("turns");
    let path = folder.file("");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| drop(add(&path, "x").expect("written"))));
        }
    });
    assert_eq!(fs::read(&path).expect("read").len(), 100);
}
