//! The database that a killed writer has left, and the server that recovers it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use badchild::{Folder, PATIENCE, Scene, User};
use testkit::sharing::is_long;
use testkit::stage::{Caller, Stage};

use crate::hosts::Session;

const SERVER: &str = include_str!("server.py");

/// Rows of the database. They make a log of about 100 MB; in long runs about 530 MB, near the size in the bug report.
pub(crate) fn rows() -> u64 {
    if is_long() { 700_000 } else { 280_000 }
}

/// The deadline for one step. Most steps need CPU time, which other processes may need as well.
pub(crate) fn patience() -> Duration {
    PATIENCE * if is_long() { 5 } else { 2 }
}

/// Writes to the real stderr, past the test runner's capture.
pub(crate) fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").ok();
}

/// A database that was never closed: one page, and all the rest in its log.
pub(crate) struct Wreck {
    folder: Folder,
    /// How long a server takes to be ready if it is left alone.
    pub(crate) alone: Duration,
    /// The CPU time that it needs for that. No server is ready in less time, at any load of the machine.
    work: Duration,
}

impl Wreck {
    /// The wreck that all tests copy, kept as long as a test needs it. `None` where Python is missing and the test is
    /// skipped.
    pub(crate) fn find() -> Option<Arc<Self>> {
        static ONE: Mutex<Weak<Wreck>> = Mutex::new(Weak::new());
        let works = Command::new("python3").args(["-c", "import sqlite3"]).stderr(Stdio::null()).status();
        if !works.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no python3 with sqlite3, and CI=true");
            say("SKIPPED a test with a real database: there is no python3 with sqlite3");
            return None;
        }
        let mut one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let wreck = one.upgrade().unwrap_or_else(|| Arc::new(Self::make()));
        *one = Arc::downgrade(&wreck);
        Some(wreck)
    }

    /// Makes the files that a writer leaves if it is killed before a checkpoint of its log.
    fn make() -> Self {
        let (scene, folder) = (Scene::new(User::Current), Folder::new("wreck"));
        let script = folder.path().join("server.py");
        std::fs::write(&script, SERVER).expect("write");
        let mut writer = scene.command("python3".as_ref());
        writer.arg(&script).arg("make").arg(folder.path().join("db")).arg(rows().to_string());
        let mut writer = Caller::new(writer.stdout(Stdio::piped()).spawn().expect("start"));
        let made = writer.line_within(patience()).expect("the database is made");
        drop(writer);
        scene.expect_empty();
        let mut wreck = Self { folder, alone: Duration::ZERO, work: Duration::ZERO };
        let stage = Arc::new(wreck.copy());
        let [(alone, work), (next, _)] = [(), ()].map(|()| {
            let began = Instant::now();
            let mut session = Session::begin(plain(&stage, &[]));
            session.expect_answer();
            let times = (began.elapsed(), work_of(session.caller.process.id()));
            session.caller.end(&stage);
            times
        });
        let bytes = String::from_utf8_lossy(&made).trim().to_owned();
        say(&format!(
            "{bytes} bytes of log; a server that is left alone is ready after {alone:.1?} with {work:.1?} of work, the next after {next:.1?}"
        ));
        (wreck.alone, wreck.work) = (alone, work);
        wreck
    }

    /// A stage with a copy of the wreck.
    pub(crate) fn copy(&self) -> Stage {
        let stage = Stage::new();
        std::fs::write(stage.file("server.py"), SERVER).expect("write");
        // Another process copies: a file that this process has open would be inherited by processes that other threads
        // fork.
        for file in ["db", "db-wal"] {
            let copied = Command::new("cp").arg(self.folder.path().join(file)).arg(stage.file(file)).status();
            assert!(copied.expect("run cp").success());
        }
        stage
    }

    /// How long the host waits for an answer.
    pub(crate) fn patience_of_host(&self) -> Duration {
        self.work / 8
    }
}

/// The CPU time of a process so far.
fn work_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("is there");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    // User and system time are fields 14 and 15; the field after the name is the third. In hundredths of a second.
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().expect("a number"));
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The server's command.
pub(crate) fn server(stage: &Stage, options: &[&str]) -> Vec<String> {
    let own =
        ["python3".to_owned(), stage.file("server.py"), "serve".to_owned(), stage.file("db"), stage.file("record")];
    own.into_iter().chain(options.iter().map(|word| (*word).to_owned())).collect()
}

/// The server as its host would start it without nostray.
pub(crate) fn plain(stage: &Stage, options: &[&str]) -> Caller {
    let command = server(stage, options);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    stage.start_plain(command[0], &command[1..])
}

/// How nostray runs a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path {
    /// The server is ready with its first answer.
    Managed,
    /// The server is ready when it has written a file.
    Direct,
}

pub(crate) fn slotted(stage: &Stage, path: Path, if_taken: &str, options: &[&str]) -> Caller {
    let ready = stage.file("ready");
    let (way, tell): (&[&str], &[&str]) = match path {
        Path::Managed => (&["--respawn"], &[]),
        Path::Direct => (&["--ready-file", &ready], &["--ready-file", &ready]),
    };
    let command = server(stage, tell);
    let command: Vec<_> = command.iter().map(String::as_str).collect();
    let mut options = [way, &["--slot", "db", "--if-taken", if_taken], options].concat();
    // A server that is asked to end closes its database first, which may take long on a busy machine.
    for grace in ["--eof-grace", "--term-grace"] {
        if !options.contains(&grace) {
            options.extend([grace, "1m"]);
        }
    }
    stage.start_command(&options, &command)
}
