//! Programs that end in their own way, or not at all.

use std::io::Write;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use nostray_sys::poll::{Until, wait};
use nostray_sys::signal::{Signal, SignalFd, SignalSet, send_to_self};
use std::os::fd::AsFd;

use crate::{Args, Failure};

/// Does nothing for ever, without using the processor.
pub(crate) fn pause_for_ever() -> ! {
    loop {
        wait(&[], None).ok();
    }
}

pub(crate) fn pause() -> Result<ExitCode, Failure> {
    println!("ready");
    std::io::stdout().flush()?;
    pause_for_ever()
}

/// `exit CODE`
pub(crate) fn exit(mut args: Args) -> Result<ExitCode, Failure> {
    Ok(ExitCode::from(u8::try_from(args.number("a code")?)?))
}

/// `sign FILE [CODE]`: appends its number as a line to a file, or writes it to a FIFO; then ends with the code, or waits for ever.
pub(crate) fn sign(mut args: Args) -> Result<ExitCode, Failure> {
    let file = args.next("a file")?;
    let mut book = std::fs::OpenOptions::new().append(true).create(true).open(file)?;
    // In one write, so that the lines of two processes do not mix.
    book.write_all(format!("{}\n", std::process::id()).as_bytes())?;
    if args.words.is_empty() { pause_for_ever() } else { exit(args) }
}

/// `die SIGNAL`: by this signal.
pub(crate) fn die(mut args: Args) -> Result<ExitCode, Failure> {
    let number = i32::try_from(args.number("a signal")?)?;
    send_to_self(Signal::from_raw(number).ok_or("no such signal")?)?;
    // Reached by a signal that does not end a process by default.
    Ok(ExitCode::SUCCESS)
}

/// `leave KIND CODE`: ends at once while its grandchild holds stdout open.
pub(crate) fn leave(mut args: Args) -> Result<ExitCode, Failure> {
    let kind = args.next("a kind")?;
    if kind == "holding-stdout" {
        Command::new(std::env::current_exe()?).arg("pause").spawn()?;
    } else {
        Command::new(std::env::current_exe()?).args(["member", &kind]).spawn()?;
    }
    exit(args)
}

/// `slow MILLISECONDS`: takes so long to end after SIGTERM, and then says `flushed` on stderr.
pub(crate) fn slow(mut args: Args) -> Result<ExitCode, Failure> {
    let time = Duration::from_millis(args.number("a time")?);
    let (signals, _) = catch()?;
    println!("ready");
    std::io::stdout().flush()?;
    loop {
        wait(&[(signals.as_fd(), Until::Readable)], None)?;
        if signals.next()?.is_some_and(|arrived| arrived.signal == Signal::TERM) {
            let done = Instant::now() + time;
            while Instant::now() < done {
                wait(&[], Some(done.saturating_duration_since(Instant::now())))?;
            }
            std::fs::write(args.next("a file")?, "flushed")?;
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// `count-signals FILE`: writes each signal that it gets into a file, a line each, until SIGTERM.
pub(crate) fn count_signals(mut args: Args) -> Result<ExitCode, Failure> {
    let mut file = std::fs::File::options().create(true).append(true).open(args.next("a file")?)?;
    let (signals, _) = catch()?;
    println!("ready");
    std::io::stdout().flush()?;
    loop {
        wait(&[(signals.as_fd(), Until::Readable)], None)?;
        while let Some(arrived) = signals.next()? {
            writeln!(file, "{}", arrived.signal)?;
            if arrived.signal == Signal::TERM {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

fn catch() -> std::io::Result<(SignalFd, SignalSet)> {
    let set = SignalSet::full();
    set.set_as_mask()?;
    Ok((SignalFd::new(&set)?, set))
}

/// Takes root's identity for good, if its file says that it may: then its starter may not signal it.
pub(crate) fn become_root() -> Result<ExitCode, Failure> {
    nostray_sys::process::become_root()?;
    pause()
}
