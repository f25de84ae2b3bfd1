//! Messages of front, spare and guard: to standard error and to the log file, never to standard output.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::time::SystemTime;

use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::text::escaped;

use crate::pen_id::PenId;
use crate::{Error, Spec};

/// Where messages go. Front, spare and guard share it, over fork.
#[derive(Debug)]
pub(crate) struct Log {
    id: PenId,
    verbose: bool,
    file: Option<File>,
}

impl Log {
    pub(crate) fn open(spec: &Spec, id: PenId) -> Result<Self, Error> {
        let file = spec.log_file.as_ref().map(|path| {
            nostray_sys::descriptors::open_log(path).map_err(|error| Error::LogFile { path: path.clone(), error })
        });
        Ok(Self { id, verbose: spec.verbose, file: file.transpose()? })
    }

    /// Something that a person should know although nothing is wrong with the command.
    pub(crate) fn warn(&self, text: impl Display) {
        write_to_stderr_at_once(&format!("nostray: {text}\n"));
        self.write_down(&text);
    }

    /// Something for a user who asked for `--verbose`.
    pub(crate) fn note(&self, text: impl Display) {
        if self.verbose {
            write_to_stderr_at_once(&format!("nostray: {text}\n"));
        }
        self.write_down(&text);
    }

    fn write_down(&self, text: &dyn Display) {
        if let Some(mut file) = self.file.as_ref() {
            let now = humantime::format_rfc3339_millis(SystemTime::now());
            let text = text.to_string();
            let line = format!("{now} {} [{}] {}\n", self.id, std::process::id(), escaped(&text));
            // A full disk or a full pipe must not keep a tree alive: what does not fit is lost.
            file.write_all(line.as_bytes()).ok();
        }
    }
}
