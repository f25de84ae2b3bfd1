//! Proof that a child is alone, kept by the children themselves and not by nostray.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::process::ExitCode;
use std::time::Duration;

use nostray_sys::exec::Program;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::{Args, Failure, trees};

/// `claim [--with KIND] [--ready MS] FOLDER NAME -- CMD`: becomes CMD, with a lock on `FOLDER/claim`. Its whole tree inherits the lock,
/// which is released when the last process of the tree ends.
///
/// Appends `NAME PID MARK` to `FOLDER/holders`. If another tree holds the lock, appends a description of both to `FOLDER/two` instead.
/// `--with`: starts a descendant of this kind before it becomes CMD. `--ready`: becomes ready after this time, and tells so on stderr
/// and by the file `FOLDER/NAME.ready`.
pub(crate) fn claim(mut args: Args) -> Result<ExitCode, Failure> {
    let (kind, ready) = (args.option("--with"), args.option("--ready"));
    let (folder, name) = (args.next("a folder")?, args.next("a name")?);
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).open(format!("{folder}/claim"))?;
    let append = |file: &str, text: String| {
        // In one write, so that lines of several processes are not mixed.
        File::options().create(true).append(true).open(format!("{folder}/{file}"))?.write_all(text.as_bytes())
    };
    let mark = std::env::var("NOSTRAY_PEN").unwrap_or_default();
    let me = format!("{name} {} {mark}", std::process::id());
    if file.try_lock().is_err() {
        let mut other = String::new();
        file.read_to_string(&mut other)?;
        append(
            "two",
            format!("{me} was started while {} still had it: {}\n", other.trim_end(), those_with(&folder)),
        )?;
    } else {
        file.rewind()?;
        file.set_len(0)?;
        writeln!(file, "{me}")?;
        append("holders", format!("{me}\n"))?;
    }
    fcntl_setfd(&file, FdFlags::empty())?;
    if let Some(kind) = kind {
        trees::start_member(&kind)?;
    }
    if let Some(time) = ready {
        std::thread::sleep(Duration::from_millis(time.parse()?));
        append(&format!("{name}.ready"), String::new())?;
        writeln!(std::io::stderr(), "ready")?;
    }
    let program = Program::new(args.command().into_iter().map(Into::into))?;
    Err(program.exec_with("BADCHILD_CLAIM".as_ref(), name.as_ref()).into())
}

/// The processes that have the claim open. The list shows a person which process has not ended in time.
fn those_with(folder: &str) -> String {
    let claim = std::path::Path::new(folder).join("claim");
    let has_it = |pid: nostray_sys::process::Pid| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == claim)
    };
    let all = nostray_sys::proc::scan().unwrap_or_default();
    let those = all.into_iter().filter(|stat| has_it(stat.pid));
    let told = those.map(|stat| {
        let mark = nostray_sys::proc::environment_of(stat.pid, "NOSTRAY_PEN").unwrap_or_default();
        format!("{} ({}, {})", stat.pid, nostray_sys::proc::describe(stat.pid), String::from_utf8_lossy(&mark))
    });
    told.collect::<Vec<_>>().join(", ")
}
