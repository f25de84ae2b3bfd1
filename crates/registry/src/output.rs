//! What a supervised child prints that is not for its host: log lines and banners on stdout, which is no place for them. Kept for
//! `nostray log --output`, in a file for each front, bounded, for a week.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nostray_sys::text::escaped;

use crate::journal::now;
use crate::{Place, files};
use nostray_sys::secrets::masked_text;

/// When the file is put aside for a new one.
const ROTATE_SIZE: u64 = 256 << 10;
/// How much of a line is kept.
const MAX_LINE: usize = 2048;
const KEEP_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Where it goes.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: Option<File>,
    size: u64,
}

impl Output {
    /// The one of this front.
    #[must_use]
    pub fn of(place: &Place, id: &str) -> Self {
        Self { path: place.file(&format!("{id}.out")), file: None, size: 0 }
    }

    /// Adds a line, with the reason why it is here. An error (a full disk) is ignored.
    pub(crate) fn add(&mut self, why: &str, line: &[u8]) {
        self.write(why, line).ok();
    }

    fn write(&mut self, why: &str, line: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            let mut file = files::to_append(&self.path)?;
            self.size = file.seek(SeekFrom::End(0))?;
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let text = String::from_utf8_lossy(&line[..line.len().min(MAX_LINE)]);
        let more = if line.len() > MAX_LINE { format!(" [{} bytes]", line.len()) } else { String::new() };
        let text = format!("{} {why}: {}{more}\n", now(), escaped(&masked_text(text.trim_end())));
        file.write_all(text.as_bytes())?;
        self.size += text.len() as u64;
        if self.size > ROTATE_SIZE {
            self.file = None;
            std::fs::rename(&self.path, self.path.with_extension("out.1"))?;
        }
        Ok(())
    }

    /// All that is kept in a place, of fronts whose id begins so.
    #[must_use]
    pub fn all(place: &Place, beginning: &str) -> Vec<(String, Self)> {
        let Ok(entries) = std::fs::read_dir(place.path()) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let ids = names.filter_map(|name| name.strip_suffix(".out").map(str::to_owned));
        ids.filter(|id| id.starts_with(beginning)).map(|id| (id.clone(), Self::of(place, &id))).collect()
    }

    /// All that is kept, the oldest first.
    #[must_use]
    pub fn read(&self) -> Vec<Printed> {
        let mut text = String::new();
        for path in [self.path.with_extension("out.1"), self.path.clone()] {
            if let Ok(bytes) = files::to_read(&path).and_then(|file| files::read(&file, 2 * ROTATE_SIZE)) {
                text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
        text.lines().filter_map(|line| line.split_once(' ')).filter_map(Printed::read).collect()
    }
}

/// A line that was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// When, in milliseconds of Unix time.
    pub time: u64,
    /// Why it was not passed on, and what it was.
    pub text: String,
}

impl Printed {
    fn read((time, text): (&str, &str)) -> Option<Self> {
        Some(Self { time: time.parse().ok()?, text: text.to_owned() })
    }
}

/// Removes files that were not written to for a week.
pub(crate) fn forget_old(place: &Place) {
    let Ok(entries) = std::fs::read_dir(place.path()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_output = name.to_str().is_some_and(|name| name.ends_with(".out") || name.ends_with(".out.1"));
        let age = entry.metadata().and_then(|found| found.modified()).map(|at| SystemTime::now().duration_since(at));
        if is_output && age.is_ok_and(|age| age.is_ok_and(|age| age > KEEP_FOR)) {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_kept_in_one_line_each_and_bounded() {
        let folder = std::env::temp_dir().join(format!("nostray-output-{}", nostray_sys::process::random()));
        let place = Place::at(&folder).expect("place");
        let mut output = Output::of(&place, "abc");
        output.add("not JSON", b"hello \x1b[31m\xff world\r");
        let printed = output.read();
        assert_eq!(printed[0].text, "not JSON: hello \\u{1b}[31m\u{fffd} world");
        assert_eq!(Output::all(&place, "ab").len(), 1);
        for _ in 0..1000 {
            output.add("long", &[b'x'; 5000]);
        }
        let kept: usize = output.read().iter().map(|line| line.text.len()).sum();
        assert!(kept as u64 <= 2 * ROTATE_SIZE + 4096);
        let files = std::fs::read_dir(&folder).expect("folder").count();
        assert_eq!(files, 2);
        forget_old(&place);
        assert_eq!(std::fs::read_dir(&folder).expect("folder").count(), 2, "not old enough");
        drop(output); // on Windows a folder with an open file cannot be removed
        std::fs::remove_dir_all(folder).expect("remove");
    }
}
