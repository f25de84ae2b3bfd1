//! A program that is somebody's child, and does not want to outlive its parent: `child watch|wait|die|die-stubborn`.

use std::io::Write;

use nostray::parent::{self, Parent};
use nostray_sys::signal::{Disposition, Signal, set_disposition};

fn say(line: &str) {
    // Whoever listens may be gone.
    writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush()).ok();
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let how = std::env::args().nth(1).ok_or("say how")?;
    match how.as_str() {
        // In a runtime, beside everything else.
        "watch" => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let parent = Parent::current()?;
                say(&format!("child of {}", parent.pid()));
                tokio::select! {
                    gone = parent.gone() => gone?,
                    gone = parent::watch() => gone?,
                }
                say("gone");
                Ok::<_, nostray::Error>(())
            })?;
        }
        // In a thread.
        "wait" => {
            let parent = Parent::current()?;
            say(&format!("child of {}", parent.pid()));
            parent.wait_until_gone()?;
            say("gone");
        }
        // In one line.
        _ => {
            if how == "die-stubborn" {
                set_disposition(Signal::TERM, Disposition::Ignored)?;
            }
            parent::die_with_parent()?;
            say(&format!("child of {}", std::os::unix::process::parent_id()));
            loop {
                std::thread::park();
            }
        }
    }
    Ok(())
}
