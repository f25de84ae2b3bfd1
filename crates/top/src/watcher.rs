//! A process that restores the terminal if `top` is killed by SIGKILL, which leaves `top` itself no time for it.
//!
//! It waits for the end of a pipe that only `top` can write to, and so it ends with `top`, however that ends. The kernel closes the
//! files of a dying process before it tells the process's parent, so the terminal is usually restored before the shell prompts. A shell
//! that is quicker prompts on the screen that is then left; the next line that a person enters shows the prompt.

use std::io::{self, Read, Write};

use nostray_sys::process::{Pid, Side, exit_now, fork, raise_priority, set_name, setsid, wait_for_child};
use nostray_sys::signal::SignalSet;
use nostray_sys::startup::set_title;

use crate::screen::{Restore, TerminalFile};

const NAME: &str = "nostray-screen";
/// Behind what was on the screen before.
const SAID: &[u8] = b"nostray top was killed; the terminal is restored\r\n";
/// What `top` tells: that it has the terminal, and that it has given it back.
const TAKEN: u8 = b't';
const RETURNED: u8 = b'r';

/// The handle of `top` on the process.
#[derive(Debug)]
pub(crate) struct Watcher {
    pid: Pid,
    to: Option<io::PipeWriter>,
}

impl Watcher {
    /// Forks it. For a process with one thread. `terminal` is for writing to the terminal without waiting; `restore` is what to do.
    pub(crate) fn start(terminal: &TerminalFile, restore: &Restore) -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        match fork()? {
            Side::Parent(pid) => Ok(Self { pid, to: Some(to) }),
            Side::Child => {
                drop(to);
                set_name(NAME);
                set_title(NAME);
                // Neither a signal to the job nor the end of the terminal's session ends it before `top` ends.
                setsid().ok();
                SignalSet::full().set_as_mask().ok();
                raise_priority();
                if is_taken_at_the_end(from) {
                    restore_after_kill(terminal, restore);
                }
                exit_now(0)
            }
        }
    }

    /// `top` has the terminal now.
    pub(crate) fn taken(&mut self) {
        self.tell(TAKEN);
    }

    /// `top` has given the terminal back.
    pub(crate) fn returned(&mut self) {
        self.tell(RETURNED);
    }

    fn tell(&mut self, what: u8) {
        // If it was killed, there is no restoring after SIGKILL, and nothing else is lost.
        self.to.as_mut().map(|to| to.write_all(&[what]));
    }
}

impl Drop for Watcher {
    /// It ends now, and no process is left of it when `top` has ended.
    fn drop(&mut self) {
        self.to = None;
        wait_for_child(self.pid);
    }
}

/// Reads to the end, and says whether `top` had the terminal then.
fn is_taken_at_the_end(mut from: io::PipeReader) -> bool {
    let (mut is_taken, mut bytes) = (false, [0; 64]);
    loop {
        match from.read(&mut bytes) {
            Ok(count @ 1..) => is_taken = bytes[count - 1] == TAKEN,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return is_taken,
        }
    }
}

fn restore_after_kill(terminal: &TerminalFile, restore: &Restore) {
    // A shell that was quicker has set what it needs to read a line. Its settings stay.
    let ours = restore.settings.for_single_keys();
    if ours.are_those_of(terminal) {
        restore.settings.apply_to(terminal).ok();
    }
    // If the terminal is gone, there is nothing to restore.
    terminal.write_within_a_second(&[restore.sequence, SAID].concat()).ok();
}
