//! A debugger that holds processes stopped for as long as a test wants.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use badchild::{Found, Scene};

use crate::slots::raw;

/// A process that traces others as a debugger does: no SIGCONT continues them.
pub struct Debugger {
    process: Child,
    says: Receiver<String>,
}

impl Debugger {
    /// A debugger that has not attached to any process yet.
    pub fn start(scene: &Scene) -> Self {
        // In Python: three system calls suffice, and our Rust code outside of `sys` must not be unsafe.
        let script = "
import ctypes, os, sys
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
print('here', flush=True)
for pid in map(int, sys.stdin.readline().split()):
    for request in SEIZE, INTERRUPT:
        if ptrace(request, pid, 0, 0) != 0:
            sys.exit(os.strerror(ctypes.get_errno()))
    os.waitpid(pid, WALL)
print('attached', flush=True)
try:
    while True:  # lets killed processes go; continues none
        os.waitpid(-1, WALL)
except ChildProcessError:
    sys.stdin.read()
";
        let mut command = scene.command("python3".as_ref());
        command.args(["-c", script]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let stdout = BufReader::new(process.stdout.take().expect("piped"));
        let (to, says) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
        let debugger = Self { process, says };
        debugger.expect("here");
        debugger
    }

    fn expect(&self, word: &str) {
        assert_eq!(self.says.recv_timeout(badchild::PATIENCE).as_deref(), Ok(word));
    }

    /// Attaches to these processes, which stops them.
    pub fn attach(&mut self, victims: &[Found]) {
        let numbers: Vec<String> = victims.iter().map(|found| raw(found).to_string()).collect();
        writeln!(self.process.stdin.as_mut().expect("piped"), "{}", numbers.join(" ")).expect("write");
        self.expect("attached");
    }
}

impl Drop for Debugger {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
