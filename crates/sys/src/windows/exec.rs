//! Starting a program inside a job, with the command line that gives it these arguments and no others.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, OwnedHandle, RawHandle};
use std::path::{Path, PathBuf};

use windows_sys::Win32::Foundation::{DUPLICATE_SAME_ACCESS, DuplicateHandle, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CreateProcessW, DeleteProcThreadAttributeList, EXTENDED_STARTUPINFO_PRESENT,
    GetCurrentProcess, InitializeProcThreadAttributeList, PROC_THREAD_ATTRIBUTE_HANDLE_LIST,
    PROC_THREAD_ATTRIBUTE_JOB_LIST, PROCESS_INFORMATION, STARTF_USESTDHANDLES, STARTUPINFOEXW,
    UpdateProcThreadAttribute,
};

use crate::job::Job;
use crate::{Pid, Pidfd};

/// A command that was found, and its command line.
#[derive(Debug)]
pub struct Program {
    file: PathBuf,
    line: Vec<u16>,
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

impl Program {
    /// The command and its arguments, looked up as a shell does: by PATH and PATHEXT, so that `npx` is found, which is `npx.cmd`. A script
    /// (`.cmd`, `.bat`) is run by `cmd.exe`.
    pub fn new(argv: &[OsString], called: Option<&OsStr>) -> io::Result<Self> {
        let (word, arguments) = argv.split_first().ok_or_else(|| invalid("no command given"))?;
        let file = find(word)?;
        let is_script =
            file.extension().is_some_and(|end| end.eq_ignore_ascii_case("cmd") || end.eq_ignore_ascii_case("bat"));
        if !is_script {
            let line = line_of(called.unwrap_or(word), arguments)?;
            return Ok(Self { file, line });
        }
        let shell = std::env::var_os("SystemRoot").map(|root| Path::new(&root).join("System32").join("cmd.exe"));
        let shell = shell.ok_or_else(|| invalid("%SystemRoot% is not set, so cmd.exe cannot be found"))?;
        Ok(Self { file: shell, line: script_line_of(file.as_os_str(), arguments)? })
    }

    /// Starts it as the first process of a job, with this process's environment, directory, console and standard handles, and no other
    /// handle. With `own_group`, it leads a console group of its own, so that it can be sent a Ctrl-Break.
    pub fn start_in(&self, job: &Job, own_group: bool) -> io::Result<(Pid, Pidfd)> {
        let file = super::wide(&self.file)?;
        let mut line = self.line.clone();
        let streams = [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].map(inheritable);
        let handle_of =
            |stream: &Option<OwnedHandle>| stream.as_ref().map_or(std::ptr::null_mut(), AsRawHandle::as_raw_handle);
        let inherited: Vec<RawHandle> = streams.iter().flatten().map(AsRawHandle::as_raw_handle).collect();
        let jobs = [job.as_raw_handle()];
        let mut attributes = Attributes::new(2)?;
        attributes.set(PROC_THREAD_ATTRIBUTE_JOB_LIST, &jobs)?;
        if !inherited.is_empty() {
            attributes.set(PROC_THREAD_ATTRIBUTE_HANDLE_LIST, &inherited)?;
        }
        // SAFETY: all-zero is a valid value of both.
        let (mut start, mut made): (STARTUPINFOEXW, PROCESS_INFORMATION) = unsafe { std::mem::zeroed() };
        start.StartupInfo.cb = size_of::<STARTUPINFOEXW>() as u32;
        start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
        start.StartupInfo.hStdInput = handle_of(&streams[0]);
        start.StartupInfo.hStdOutput = handle_of(&streams[1]);
        start.StartupInfo.hStdError = handle_of(&streams[2]);
        start.lpAttributeList = attributes.list();
        let flags = EXTENDED_STARTUPINFO_PRESENT | if own_group { CREATE_NEW_PROCESS_GROUP } else { 0 };
        // SAFETY: file and line end with a zero, and the line is ours to write to. The attributes, and what they point to, stay until the
        // call returns. The two new handles are ours.
        unsafe {
            super::done(CreateProcessW(
                file.as_ptr(),
                line.as_mut_ptr(),
                std::ptr::null(),
                std::ptr::null(),
                i32::from(!inherited.is_empty()),
                flags,
                std::ptr::null(),
                std::ptr::null(),
                (&raw const start).cast(),
                &raw mut made,
            ))?;
            drop(super::owned(made.hThread)?);
            let process = super::owned(made.hProcess)?;
            let pid = Pid::of_number(made.dwProcessId).ok_or_else(|| invalid("a process without a number"))?;
            Ok((pid, Pidfd::of_handle(process)))
        }
    }
}

/// A copy of one of the standard handles that a child can inherit. `None` where the host gave none.
fn inheritable(which: u32) -> Option<OwnedHandle> {
    let mut copy = std::ptr::null_mut();
    // SAFETY: the handle is this process's own or invalid, which the call refuses; the copy is ours.
    unsafe {
        let handle = GetStdHandle(which);
        if handle.is_null() || handle == INVALID_HANDLE_VALUE {
            return None;
        }
        let this = GetCurrentProcess();
        super::done(DuplicateHandle(this, handle, this, &raw mut copy, 0, 1, DUPLICATE_SAME_ACCESS)).ok()?;
        super::owned(copy).ok()
    }
}

/// The list of attributes of a new process.
struct Attributes(Vec<u64>);

impl Attributes {
    fn new(count: u32) -> io::Result<Self> {
        let mut size = 0;
        // SAFETY: without memory, the call tells how much is needed; then there is as much. Eight bytes are aligned for anything inside.
        unsafe {
            InitializeProcThreadAttributeList(std::ptr::null_mut(), count, 0, &raw mut size);
            let mut list = vec![0_u64; size.div_ceil(8)];
            super::done(InitializeProcThreadAttributeList(list.as_mut_ptr().cast(), count, 0, &raw mut size))?;
            Ok(Self(list))
        }
    }

    fn list(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    /// The handles must stay where they are until the process is started.
    fn set(&mut self, which: u32, handles: &[RawHandle]) -> io::Result<()> {
        let (list, size) = (self.list(), size_of_val(handles));
        // SAFETY: the list is initialised, and the caller keeps the handles.
        super::done(unsafe {
            UpdateProcThreadAttribute(
                list,
                0,
                which as usize,
                handles.as_ptr().cast(),
                size,
                std::ptr::null_mut(),
                std::ptr::null(),
            )
        })
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: it was initialised.
        unsafe { DeleteProcThreadAttributeList(self.list()) };
    }
}

/// Whether a file can be started, by its name.
pub fn may_execute(path: &Path) -> io::Result<()> {
    executable(path).map(drop)
}

/// The file that a path names, with the end of its name, if it can be started.
pub fn executable(path: &Path) -> io::Result<PathBuf> {
    find(std::path::absolute(path)?.as_os_str())
}

/// The file that a command names.
fn find(word: &OsStr) -> io::Result<PathBuf> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let path = Path::new(word);
    let known = std::env::var("PATHEXT").unwrap_or_else(|_| ".COM;.EXE;.BAT;.CMD".to_owned());
    let ends: Vec<&str> = known.split(';').filter(|end| end.starts_with('.')).collect();
    let has_end = path.extension().is_some_and(|end| {
        let end = end.to_string_lossy();
        ends.iter().any(|known| known[1..].eq_ignore_ascii_case(&end))
    });
    let with_ends = |path: &Path| {
        let as_it_is = Some(path.to_owned()).filter(|_| has_end);
        let ended = ends.iter().map(|end| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        });
        as_it_is.into_iter().chain(ended).find(|file| file.is_file())
    };
    if path.components().count() > 1 || path.is_absolute() {
        // A file without one of these ends may still be a program, if it is named in full.
        let found = with_ends(path).or_else(|| Some(path.to_owned()).filter(|path| path.is_file()));
        return found.and_then(|file| std::path::absolute(file).ok()).ok_or_else(missing);
    }
    // Not in the current directory: what lies there is not what was meant by a bare name.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let system = std::env::var_os("SystemRoot").map(|root| Path::new(&root).join("System32"));
    let mut folders = std::env::split_paths(&folders).filter(|folder| folder.is_absolute()).chain(system);
    folders.find_map(|folder| with_ends(&folder.join(path))).ok_or_else(missing)
}

const QUOTE: u16 = b'"' as u16;
const BACKSLASH: u16 = b'\\' as u16;

fn words(arg: &OsStr) -> io::Result<Vec<u16>> {
    let wide: Vec<u16> = arg.encode_wide().collect();
    if wide.contains(&0) { Err(invalid("an argument contains a zero byte")) } else { Ok(wide) }
}

/// The command line from which the C runtime makes these arguments.
fn line_of(name: &OsStr, arguments: &[OsString]) -> io::Result<Vec<u16>> {
    let name = words(name)?;
    if name.contains(&QUOTE) {
        return Err(invalid("the name of a program cannot contain a quote"));
    }
    // The first word has rules of its own: no escapes, and it ends at the next quote.
    let mut line: Vec<u16> = [vec![QUOTE], name, vec![QUOTE]].concat();
    for argument in arguments {
        line.push(b' '.into());
        append(&mut line, &words(argument)?);
    }
    line.push(0);
    Ok(line)
}

/// By the rules of the C runtime: backslashes count only before a quote, where two stand for one.
fn append(line: &mut Vec<u16>, argument: &[u16]) {
    let is_plain = |unit: &u16| !matches!(*unit, 0x20 | 0x09..=0x0d | QUOTE);
    if !argument.is_empty() && argument.iter().all(is_plain) {
        line.extend_from_slice(argument);
        return;
    }
    line.push(QUOTE);
    let mut backslashes = 0;
    for unit in argument {
        match *unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(*unit);
    }
    line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
    line.push(QUOTE);
}

/// The command line by which `cmd.exe` runs a script with these arguments, so that `%*` in it is again a command line from which the C
/// runtime makes them. `cmd.exe` has more rules, and no way to write a line break: such an argument is refused.
fn script_line_of(script: &OsStr, arguments: &[OsString]) -> io::Result<Vec<u16>> {
    let script = words(script)?;
    if script.iter().any(|unit| [QUOTE, b'%'.into()].contains(unit)) {
        return Err(invalid("cmd.exe cannot run a script of this name"));
    }
    // /d: no AutoRun commands. /e:on: needed for what stands for a percent sign. /v:off: an exclamation mark is one. The outermost quotes
    // are taken away.
    let mut line: Vec<u16> = OsStr::new("cmd.exe /d /e:on /v:off /c \"\"").encode_wide().collect();
    line.extend(script);
    line.push(QUOTE);
    for argument in arguments {
        line.push(b' '.into());
        append_for_script(&mut line, &words(argument)?)?;
    }
    line.extend([QUOTE, 0]);
    Ok(line)
}

/// What `cmd.exe` expands to nothing, and what makes of the next percent sign a plain one: the empty beginning of the current directory.
const NOTHING: &str = "%%cd:~,";

fn append_for_script(line: &mut Vec<u16>, argument: &[u16]) -> io::Result<()> {
    if argument.iter().any(|unit| [b'\n'.into(), b'\r'.into()].contains(unit)) {
        return Err(invalid("an argument contains a line break, which cmd.exe cannot pass on to a script"));
    }
    let is_plain = |unit: &u16| {
        u8::try_from(*unit).is_ok_and(|byte| byte.is_ascii_alphanumeric() || b"#$*+-./:?@\\_".contains(&byte))
    };
    let ends_in_backslash = argument.last() == Some(&BACKSLASH);
    let quoted = argument.is_empty() || ends_in_backslash || !argument.iter().all(is_plain);
    if quoted {
        line.push(QUOTE);
    }
    let mut backslashes = 0;
    for unit in argument {
        match *unit {
            BACKSLASH => backslashes += 1,
            QUOTE => {
                // Doubled, since cmd.exe does not know of backslashes, and would take what follows for commands.
                line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
                line.push(QUOTE);
                backslashes = 0;
            }
            0x25 => {
                line.extend(NOTHING.encode_utf16());
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        line.push(*unit);
    }
    if quoted {
        line.extend(std::iter::repeat_n(BACKSLASH, backslashes));
        line.push(QUOTE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: io::Result<Vec<u16>>) -> String {
        String::from_utf16(&line.expect("can be written")).expect("text").trim_end_matches('\0').to_owned()
    }

    #[test]
    fn arguments_are_quoted_as_the_c_runtime_reads_them() {
        let line = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            text(line_of("p".as_ref(), &words))
        };
        assert_eq!(line(&["a", "b c", "", "\t"]), "\"p\" a \"b c\" \"\" \"\t\"");
        assert_eq!(line(&[r#"a"b"#, r#"a\"b"#, r"a\\b", r"a b\", r"a\"]), r#""p" "a\"b" "a\\\"b" a\\b "a b\\" a\"#);
        assert!(line_of("p\"".as_ref(), &[]).is_err());
        assert!(line_of("p".as_ref(), &["a\0b".into()]).is_err());
    }

    #[test]
    fn a_script_gets_no_argument_that_would_be_a_command() {
        let line = |word: &str| text(script_line_of("s.cmd".as_ref(), &[word.into()]));
        assert_eq!(line("a&b"), r#"cmd.exe /d /e:on /v:off /c ""s.cmd" "a&b"""#);
        assert_eq!(line("%PATH%"), r#"cmd.exe /d /e:on /v:off /c ""s.cmd" "%%cd:~,%PATH%%cd:~,%"""#);
        assert_eq!(line("a\"&calc"), r#"cmd.exe /d /e:on /v:off /c ""s.cmd" "a""&calc"""#);
        assert!(script_line_of("s.cmd".as_ref(), &["a\nb".into()]).is_err());
    }
}
