//! Turning this process into another program.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A command that is ready to be executed: nothing is left to allocate or to fail but the call itself.
#[derive(Debug)]
pub struct Program {
    argv: Vec<CString>,
}

impl Program {
    /// The command and its arguments. An argument with a zero byte inside cannot be passed on.
    pub fn new(argv: impl IntoIterator<Item = OsString>) -> io::Result<Self> {
        let argv = argv
            .into_iter()
            .map(|arg| CString::new(arg.into_vec()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an argument contains a zero byte"))?;
        if argv.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command given"));
        }
        Ok(Self { argv })
    }

    /// Becomes the program, looked up in PATH as `execvp` does, with this process's environment and one
    /// variable set in it. Returns only with the reason why not.
    #[must_use]
    pub fn exec_with(&self, name: &OsStr, value: &OsStr) -> io::Error {
        let mut environment = Vec::new();
        for (key, old) in std::env::vars_os() {
            if key != name {
                environment.push(variable(&key, &old));
            }
        }
        environment.push(variable(name, value));
        let environment: Vec<CString> = environment.into_iter().flatten().collect();
        let argv = pointers(&self.argv);
        let envp = pointers(&environment);
        // SAFETY: both arrays are null-terminated and point to strings that live until the call returns.
        unsafe { libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr()) };
        io::Error::last_os_error()
    }
}

fn variable(key: &OsStr, value: &OsStr) -> Option<CString> {
    CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}
