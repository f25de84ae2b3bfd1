//! Turning this process into another program.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::process::getpid;

/// A command that can be passed to the kernel.
#[derive(Debug, Clone)]
pub struct Program {
    file: CString,
    argv: Vec<CString>,
}

impl Program {
    /// The command and its arguments. An argument with a zero byte inside cannot be passed on.
    pub fn new(argv: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        let text = |arg: OsString| CString::new(arg.into_vec());
        let argv = argv.into_iter().map(text).collect::<Result<Vec<_>, _>>();
        let argv = argv.map_err(|_| invalid("an argument contains a zero byte"))?;
        let file = argv.first().ok_or_else(|| invalid("no command given"))?.clone();
        Ok(Self { file, argv })
    }

    /// The program is told that it was called by this name.
    pub fn called(mut self, name: &OsStr) -> io::Result<Self> {
        self.argv[0] = CString::new(name.as_bytes())?;
        Ok(self)
    }

    /// Becomes the program, looked up in PATH as `execvp` does, with this process's environment and one
    /// variable set in it. Returns only with the reason why not.
    #[must_use]
    pub fn exec_with(&self, name: &OsStr, value: &OsStr) -> io::Error {
        // The room behind it is not used.
        let laid = self.clone().laid_out((name, value), &[]);
        laid.exec_as_it_is()
    }

    /// Lays it out with these variables set, of which the first one's value is to be followed by the number of the process that becomes
    /// the program. **From now on the environment of this process must not change.**
    pub fn laid_out(self, numbered: (&OsStr, &OsStr), set: &[(&OsStr, &OsStr)]) -> Laid {
        let name_of =
            |variable: &CStr| set.iter().any(|(name, _)| sets(variable, name)) || sets(variable, numbered.0);
        let added: Vec<CString> = set.iter().filter_map(|(name, value)| variable(name, value)).collect();
        let mut own: Vec<u8> = variable(numbered.0, numbered.1).map(CString::into_bytes).unwrap_or_default();
        let number_at = own.len();
        own.resize(number_at + ROOM_FOR_NUMBER, 0);
        let numbered: Box<[Cell<u8>]> = own.into_iter().map(Cell::new).collect();
        let argv = pointers(&self.argv).chain([ptr::null()]).collect();
        let own = numbered.as_ptr().cast::<libc::c_char>();
        let envp =
            environment(|old| !name_of(old)).chain([own]).chain(pointers(&added)).chain([ptr::null()]).collect();
        Laid { program: self, argv, envp, numbered, number_at, _added: added }
    }
}

/// The digits of a process's number, and the zero behind them.
const ROOM_FOR_NUMBER: usize = 11;

/// A program with its arguments and its environment as the kernel takes them. **Executing it allocates nothing**: each page that a forked
/// process touches first is copied or mapped for it.
#[derive(Debug)]
pub struct Laid {
    program: Program,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    /// A variable, with room for a number at its end.
    numbered: Box<[Cell<u8>]>,
    number_at: usize,
    _added: Vec<CString>,
}

impl Laid {
    /// Becomes the program, looked up in PATH as `execvp` does. Returns only with the reason why not.
    #[must_use]
    pub fn exec(&self) -> io::Error {
        self.write_own_number();
        self.exec_as_it_is()
    }

    fn exec_as_it_is(&self) -> io::Error {
        // SAFETY: both arrays end with a null pointer and point to strings that this value owns, or that are this process's environment,
        // which does not change.
        unsafe { libc::execvpe(self.program.file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        let error = io::Error::last_os_error();
        // Not every C library gives a script without a first line to the shell, as POSIX says.
        if error.raw_os_error() == Some(libc::ENOEXEC)
            && let Some(script) = found(&self.program.file)
        {
            let shell = c"/bin/sh";
            let argv: Vec<_> =
                [shell.as_ptr(), script.as_ptr()].into_iter().chain(self.argv[1..].iter().copied()).collect();
            // SAFETY: as above; the arguments still end with a null pointer.
            unsafe { libc::execve(shell.as_ptr(), argv.as_ptr(), self.envp.as_ptr()) };
        }
        error
    }

    fn write_own_number(&self) {
        let number = getpid().as_raw_nonzero().get();
        let length = number.ilog10() as usize + 1;
        let mut rest = number;
        // The last digit first. A zero follows already.
        for place in self.numbered[self.number_at..][..length].iter().rev() {
            place.set(b'0' + (rest % 10) as u8);
            rest /= 10;
        }
    }
}

/// The file that `execvp` finds for the first word of a command.
fn found(word: &CStr) -> Option<CString> {
    let word = OsStr::from_bytes(word.to_bytes());
    let folders = match std::env::var_os("PATH") {
        _ if word.as_bytes().contains(&b'/') => OsString::new(),
        Some(path) => path,
        None => "/bin:/usr/bin".into(),
    };
    let file =
        std::env::split_paths(&folders).map(|folder| folder.join(word)).find(|file| may_execute(file).is_ok())?;
    CString::new(file.into_os_string().into_vec()).ok()
}

/// The file that a path names, if this process may execute it.
pub fn executable(path: &Path) -> io::Result<PathBuf> {
    may_execute(path).map(|()| path.to_owned())
}

/// Whether this process may execute a file, with the error that `execve` would have. What is in the file is not looked at.
pub fn may_execute(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a C string.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::X_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn variable(key: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

/// Whether this is the variable of that name.
fn sets(variable: &CStr, name: &OsStr) -> bool {
    variable.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
}

fn pointers(strings: &[CString]) -> impl Iterator<Item = *const libc::c_char> {
    strings.iter().map(|string| string.as_ptr())
}

/// This process's variables, where they are: a forked child that copied them would first get a copy of every page for it.
fn environment(is_kept: impl Fn(&CStr) -> bool) -> impl Iterator<Item = *const libc::c_char> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the C library's own variable. Changing it or what it points to is unsafe, and the code that does it vouches that no other
    // code reads it.
    let list = unsafe { environ };
    // SAFETY: unless there is none, it ends with a null pointer, and nothing behind that is read.
    let at = move |index| unsafe { *list.add(index) };
    let all = (0..).take_while(move |_| !list.is_null()).map(at).take_while(|variable| !variable.is_null());
    // SAFETY: each is a C string that stays where it is until the program is another one.
    all.filter(move |&variable| is_kept(unsafe { CStr::from_ptr(variable) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_known_by_its_whole_name() {
        for (variable, name, is_it) in
            [(c"A=1", "A", true), (c"A=", "A", true), (c"AB=1", "A", false), (c"A", "A", false), (c"=A", "A", false)]
        {
            assert_eq!(sets(variable, name.as_ref()), is_it, "{variable:?} {name}");
        }
    }

    #[test]
    fn what_may_be_executed_is_a_file_with_the_right_to() {
        let errno = |path: &str| may_execute(Path::new(path)).err().and_then(|error| error.raw_os_error());
        assert_eq!(errno("/bin/sh"), None);
        assert_eq!(errno("/bin"), Some(libc::EACCES));
        assert_eq!(errno("/proc/self/status"), Some(libc::EACCES));
        assert_eq!(errno("/bin/no-such-program"), Some(libc::ENOENT));
        assert_eq!(errno("/bin/sh/x"), Some(libc::ENOTDIR));
    }

    #[test]
    fn a_variable_is_followed_by_the_number_of_the_process() {
        let (name, _) = std::env::vars_os().next().expect("a test runner gives some");
        let program = Program::new(["sh".into()]).expect("no zero byte");
        let laid = program.laid_out((&name, "x@".as_ref()), &[("OTHER_NAME".as_ref(), "y".as_ref())]);
        laid.write_own_number();
        // SAFETY: each but the last points to a C string that the value or this process owns.
        let text = |&at: &*const libc::c_char| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
        let envp: Vec<String> = laid.envp[..laid.envp.len() - 1].iter().map(text).collect();
        let name = name.to_string_lossy();
        let of_name: Vec<_> = envp.iter().filter(|variable| variable.starts_with(&format!("{name}="))).collect();
        assert_eq!(of_name, [&format!("{name}=x@{}", std::process::id())], "the old value is gone");
        assert_eq!(envp.last().map(String::as_str), Some("OTHER_NAME=y"));
        assert!(laid.argv.last().is_some_and(|last| last.is_null()) && laid.envp.last().is_some_and(|l| l.is_null()));
    }

    #[test]
    fn a_command_is_found_in_path_unless_it_names_a_folder() {
        let found = |word: &CStr| found(word).and_then(|file| file.into_string().ok());
        assert!(found(c"sh").is_some_and(|file| file.starts_with('/') && file.ends_with("/sh")));
        assert_eq!(found(c"/bin/sh").as_deref(), Some("/bin/sh"));
        assert_eq!(found(c"no-such-program"), None);
    }

    #[test]
    fn the_environment_is_this_process_own() {
        let (name, _) = std::env::vars_os().next().expect("a test runner gives some");
        let all = environment(|_| true).count();
        assert!(all >= std::env::vars_os().count(), "what is no variable for Rust is passed on as well");
        assert_eq!(environment(|variable| sets(variable, &name)).count(), 1);
        assert_eq!(environment(|variable| !sets(variable, &name)).count(), all - 1);
    }
}
