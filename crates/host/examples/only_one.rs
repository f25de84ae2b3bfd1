//! A program of which there is only one: `only_one NAME fail|wait|replace [blocking|async] [MILLISECONDS]`.
//!
//! Says `taken` once it is the one, or why it is not; then does what it reads: `ready`, `release`, `fork`, `end`.

use std::io::{BufRead, Write};
use std::time::Duration;

use nostray::{IfTaken, singleton};
use nostray_sys::process::{Side, exit_now, fork};

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let word = |at: usize| words.get(at).map(String::as_str);
    let name = word(1).ok_or("say which")?;
    let timeout = word(4).map(str::parse).transpose()?.map(Duration::from_millis);
    let if_taken = match word(2) {
        Some("fail") => IfTaken::Fail,
        Some("replace") => timeout.map_or(IfTaken::Replace, IfTaken::ReplaceWithin),
        _ => timeout.map_or(IfTaken::Wait, IfTaken::WaitFor),
    };
    let taken = if word(3) == Some("async") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(singleton::acquire_async(name, if_taken))
    } else {
        singleton::acquire(name, if_taken)
    };
    let mut only_one = match taken {
        Ok(only_one) => Some(only_one),
        Err(error) => return Ok(say(&format!("not taken: {error}"))?),
    };
    say("taken")?;
    for order in std::io::stdin().lock().lines() {
        match order?.as_str() {
            "ready" => only_one.iter_mut().for_each(singleton::Singleton::ready),
            "release" => only_one = None,
            // Another process with the same value, which drops it. One thread, so that this is allowed.
            "fork" => {
                if let Side::Child = fork()? {
                    drop(only_one);
                    exit_now(0);
                }
            }
            _ => break,
        }
        say("done")?;
    }
    Ok(())
}
