//! Turning this process into another program.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A command that is ready to be executed: nothing is left to allocate or to fail but the call itself.
#[derive(Debug)]
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
        self.exec_with_all(&[(name, value)])
    }

    /// The same with several variables.
    #[must_use]
    pub fn exec_with_all(&self, set: &[(&OsStr, &OsStr)]) -> io::Error {
        let added: Vec<CString> = set.iter().filter_map(|(name, value)| variable(name, value)).collect();
        let is_kept = |old: &CStr| !set.iter().any(|(name, _)| sets(old, name));
        let argv: Vec<_> = pointers(&self.argv).chain([std::ptr::null()]).collect();
        let envp: Vec<_> = environment(is_kept).chain(pointers(&added)).chain([std::ptr::null()]).collect();
        // SAFETY: both arrays are null-terminated and point to strings that live until the call returns.
        unsafe { libc::execvpe(self.file.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        let error = io::Error::last_os_error();
        // Not every C library gives a script without a first line to the shell, as POSIX says.
        if error.raw_os_error() == Some(libc::ENOEXEC)
            && let Some(script) = found(&self.file)
        {
            let shell = c"/bin/sh";
            let argv: Vec<_> =
                [shell.as_ptr(), script.as_ptr()].into_iter().chain(argv[1..].iter().copied()).collect();
            // SAFETY: as above; the arguments still end with a null pointer.
            unsafe { libc::execve(shell.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
        }
        error
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
