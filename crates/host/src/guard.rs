//! The program that guards a child.
//!
//! A host with many threads cannot be a guard itself, so it starts another program: its own once more, or the installed `nostray`, which
//! it finds in `PATH`. The host's own program is the guard if it says so, in one of two ways:
//!
//! - [`nostray::guard!()`](crate::guard!) beside `main`, in the crate of the program. It works with `#[tokio::main]` and with every other
//!   attribute, since it takes effect before `main`.
//! - [`init`] as the first line of a plain `main`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nostray_pen::{FRONT_NAME, Graces, Isolation, OWN_FAILURE, PenId, Spec, Witness};
use nostray_registry::{Labels, Place, RecordDetails, RecordKeeper, masked};
use nostray_slot::{MAX_HANDOVERS, SlotRequest};
use nostray_sys::descriptors::write_to_stderr_at_once;
use nostray_sys::signal::{Disposition, Signal, set_disposition};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::report::{Gate, GuardMessage, Outbox, ReportingWitness};

/// The first argument of a program that is started as a guard. Its number is raised when hosts and guards of different versions would
/// misunderstand each other.
const GUARD_ARGUMENT: &str = "--nostray-guard-2";

static GUARDS_ITSELF: AtomicBool = AtomicBool::new(false);
static CALLED_LATE: AtomicBool = AtomicBool::new(false);

/// What is wrong with a call that comes too late. A guard forks, so it must be the only thread.
pub(crate) const TOO_LATE: &str = "nostray::guard::init() was called after a thread was started, as #[tokio::main] does before the \
     first line of an async main; put nostray::guard!() beside main instead";

/// Makes this program the guard of its own children, before `main` begins. To be written once, in the crate of the program, outside of
/// any function.
///
/// If the program was started as the guard of a child, it is that and nothing else, and `main` is never called. Otherwise nothing
/// happens. The function is called by the C library (`.init_array`), so no thread of the program is there yet, and no file is open that a
/// child should not have.
///
/// ```standalone_crate
/// use nostray::{Pen, PenSpec};
///
/// nostray::guard!();
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let mut pen = Pen::spawn(&PenSpec::builder("true").build()?)?;
///     assert!(pen.wait().await?.success());
///     Ok(())
/// }
/// ```
#[macro_export]
macro_rules! guard {
    () => {
        $crate::guard::before_main!($crate::guard::init);
    };
}

#[doc(hidden)]
pub use nostray_sys::before_main;

/// **The first line of `main`**, for a program without [`nostray::guard!()`](crate::guard!). If this program was started as the guard of
/// a child, it is that and nothing else, and this does not return. Otherwise nothing happens, and the program is the guard of the
/// children that it starts from now on.
///
/// Before it, no thread may be started (`#[tokio::main]` starts some before the first line of an async `main`) and no file opened that
/// a child should not have.
pub fn init() {
    let words = words();
    // A thread that has just ended may be counted still; here no thread has.
    let is_alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if words.get(1).is_some_and(|word| word == GUARD_ARGUMENT) {
        if !is_alone {
            if let Some(config) =
                words.get(2).and_then(|config| serde_json::from_slice::<GuardConfig>(config.as_bytes()).ok())
            {
                Outbox::to(&config.report_to).tell(&GuardMessage::Failed(TOO_LATE.to_owned()));
            }
            write_to_stderr_at_once(&format!("nostray: {TOO_LATE}\n"));
            nostray_sys::process::exit_now(OWN_FAILURE);
        }
        // The standard library has changed it before `main`, and a child would inherit that.
        set_disposition(Signal::PIPE, Disposition::Default).ok();
        nostray_sys::process::exit_now(guard(&words[2..]));
    }
    GUARDS_ITSELF.store(is_alone, Ordering::Relaxed);
    CALLED_LATE.store(!is_alone, Ordering::Relaxed);
}

/// The arguments of this program. Before `main` not every C library has given them to the standard library.
fn words() -> Vec<OsString> {
    let words: Vec<OsString> = std::env::args_os().collect();
    if !words.is_empty() {
        return words;
    }
    let mut text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    text.pop_if(|last| *last == 0);
    text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// For the program `nostray`: its exit code, if it was started as a guard.
#[doc(hidden)]
#[must_use]
pub fn run_if_called(words: &[OsString]) -> Option<u8> {
    words.get(1).filter(|word| *word == GUARD_ARGUMENT).map(|_| guard(&words[2..]))
}

/// What a guard is told by its host, as JSON in an argument.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GuardConfig {
    pub(crate) id: String,
    pub(crate) report_to: String,
    /// Where the host has its records, and what lasts: the environment is the child's, and need not tell.
    pub(crate) records: Option<PathBuf>,
    pub(crate) lasting: Option<PathBuf>,
    /// Times are in milliseconds.
    pub(crate) eof_grace: u64,
    pub(crate) term_grace: u64,
    pub(crate) isolate: bool,
    pub(crate) session: Option<String>,
    pub(crate) labels: Labels,
    pub(crate) slot: Option<SlotConfig>,
}

/// The slot that it needs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SlotConfig {
    pub(crate) name: String,
    pub(crate) if_taken: SlotPolicy,
    pub(crate) timeout: Option<u64>,
}

/// What to do if another tree holds the slot, as it is written into a [`GuardConfig`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SlotPolicy {
    Wait,
    Fail,
    Replace,
}

impl From<nostray_slot::IfTaken> for SlotPolicy {
    fn from(if_taken: nostray_slot::IfTaken) -> Self {
        match if_taken {
            nostray_slot::IfTaken::Fail => Self::Fail,
            nostray_slot::IfTaken::Replace => Self::Replace,
            nostray_slot::IfTaken::Wait => Self::Wait,
        }
    }
}

impl From<SlotPolicy> for nostray_slot::IfTaken {
    fn from(policy: SlotPolicy) -> Self {
        match policy {
            SlotPolicy::Wait => Self::Wait,
            SlotPolicy::Fail => Self::Fail,
            SlotPolicy::Replace => Self::Replace,
        }
    }
}

/// How a guard is started, before its [`GuardConfig`] and the command.
pub(crate) fn call() -> Result<(PathBuf, &'static str), Error> {
    if GUARDS_ITSELF.load(Ordering::Relaxed) {
        // Also when the file was replaced meanwhile.
        return Ok((PathBuf::from("/proc/self/exe"), GUARD_ARGUMENT));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|path| path.join("nostray")).find(|path| is_executable(path));
    let late = CALLED_LATE.load(Ordering::Relaxed);
    found.map(|program| (program, GUARD_ARGUMENT)).ok_or(if late { Error::LateGuard } else { Error::NoGuard })
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn guard(words: &[OsString]) -> u8 {
    let Some((config, command)) = words.split_first() else { return OWN_FAILURE };
    let config: GuardConfig = match serde_json::from_slice(config.as_bytes()) {
        Ok(config) => config,
        Err(error) => {
            write_to_stderr_at_once(&format!("nostray: not the config of a guard: {error}\n"));
            return OWN_FAILURE;
        }
    };
    let report_to = config.report_to.clone();
    let host = Outbox::to(&report_to);
    let code = keep(config, command.to_vec()).unwrap_or_else(|why| {
        host.tell(&GuardMessage::Failed(why.clone()));
        write_to_stderr_at_once(&format!("nostray: {why}\n"));
        OWN_FAILURE
    });
    host.tell(&GuardMessage::Over(code));
    Gate::wait_until_open(&report_to);
    code
}

fn keep(config: GuardConfig, command: Vec<OsString>) -> Result<u8, String> {
    let time = Duration::from_millis;
    Place::are_given(config.records.as_deref(), config.lasting.as_deref());
    let id: PenId = config.id.parse()?;
    // A host that ends processes by a pattern in their command line must hit the child, and not its guard.
    nostray_sys::process::set_name(FRONT_NAME);
    nostray_sys::process::set_title(&format!("{FRONT_NAME} {id}"));
    let spec = Spec {
        graces: Graces::new(time(config.eof_grace), time(config.term_grace)),
        isolation: if config.isolate { Isolation::Pid } else { Isolation::None },
        host_is_told: true,
        ..Spec::new(command)
    };
    let wish = match config.slot {
        None => None,
        Some(slot) => Some(SlotRequest {
            slot: slot.name.parse()?,
            if_taken: slot.if_taken.into(),
            wait_timeout: slot.timeout.map(time),
            max_handovers: MAX_HANDOVERS,
            command: masked(&spec.command),
            session: config.session.clone(),
        }),
    };
    let slot = wish.as_ref().map(|wish| wish.slot.to_string());
    let details =
        RecordDetails { session: config.session, labels: config.labels, slot, sweep: true, ..Default::default() };
    let witness: Box<dyn Witness> =
        Box::new(ReportingWitness::new(Box::new(RecordKeeper::new(details)), &config.report_to));
    let ended = match wish {
        Some(wish) => nostray_slot::run(&spec, id, witness, wish, None),
        None => nostray_pen::run(&spec, id, witness),
    };
    ended.map_err(|error| error.to_string())
}
