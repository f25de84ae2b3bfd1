//! A host as they are: a pool of workers, providers that are made anew with every reload of the configuration and that nobody shuts
//! down, tasks and threads that panic, and every way in which such a program ends. Whatever it does, nothing of its children is left.
//!
//! `host -- COMMAND...`: the server of a provider, with its key for every `{key}` in it. It does what it reads, a line each:
//!
//! - `load KEY...`: the configuration has changed. For each key every worker makes a provider and calls it; says `KEY PID` for each.
//! - `abandon drop|forget|rc|arc`: what becomes of the old providers then.
//! - `call KEY`: says `KEY PID`, or `KEY failed`.
//! - `pens COMMAND...`: a pen of each kind that says `ready`. `drop-pens`: and they go.
//! - `panic-task`, `panic-thread`: with a provider and a pen in its hands.
//! - `fork`: in another thread, without an exec; says `forked PID`.
//! - `drop-runtime`: before all that was made in it.
//! - `panic`, `abort`, `exit CODE`, `end`.

use std::cell::RefCell;
use std::error::Error;
use std::io::{BufRead, Read, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nostray::{Handshake, Lease, LeaseSpec, Pen, PenSpec, Supervisor, blocking};
use nostray_sys::process::{Side, fork};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::runtime::{Handle, Runtime};

const GRACE: Duration = Duration::from_millis(200);
const WORKERS: usize = 3;

type Failure = Box<dyn Error + Send + Sync>;

/// What a plugin list is made of. It has no method to shut it down.
struct Provider {
    lease: Lease,
    /// Somebody who knows somebody who knows it.
    peer: RefCell<Option<Rc<Provider>>>,
}

struct SharedProvider {
    _provider: Lease,
    peer: Mutex<Option<Arc<SharedProvider>>>,
}

impl Provider {
    fn new(command: &[String], key: &str) -> Result<Self, Failure> {
        let words: Vec<String> = command.iter().map(|word| word.replace("{key}", key)).collect();
        let spec = LeaseSpec::builder(&words[0]).args(&words[1..]).eof_grace(GRACE).term_grace(GRACE);
        let spec = spec.handshake(Handshake::mcp("2025-06-18", "host", "1")).build()?;
        Ok(Self { lease: Supervisor::global().lease(&spec)?, peer: RefCell::default() })
    }

    /// The process that answers.
    async fn who(lease: &Lease) -> Result<i64, Failure> {
        let who: Value = lease.call_within("who", &json!({}), Some(Duration::from_secs(20))).await?;
        Ok(who["pid"].as_i64().ok_or("no number")?)
    }
}

/// Both kinds of pens with one command.
struct Pens {
    _async: Pen,
    _blocking: blocking::Pen,
}

impl Pens {
    async fn start(words: &[String]) -> Result<Self, Failure> {
        let (program, args) = words.split_first().ok_or("no command")?;
        let spec = PenSpec::builder(program).args(args).eof_grace(GRACE).term_grace(GRACE).build()?;
        let (mut first, mut second) = (Pen::spawn(&spec)?, blocking::Pen::spawn(&spec)?);
        let mut ready = [0; 6];
        first.stdout.as_mut().ok_or("not piped")?.read_exact(&mut ready).await?;
        second.stdout.as_mut().ok_or("not piped")?.read_exact(&mut ready)?;
        Ok(Self { _async: first, _blocking: second })
    }
}

struct Host {
    runtime: Option<Runtime>,
    command: Vec<String>,
    providers: Vec<Provider>,
    pens: Vec<Pens>,
    abandon: String,
}

fn say(line: &str) {
    // Whoever listens may be gone.
    writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush()).ok();
}

impl Host {
    fn handle(&self) -> Result<Handle, Failure> {
        Ok(self.runtime.as_ref().ok_or("the runtime is gone")?.handle().clone())
    }

    /// Every worker makes a provider for every key, at the same time: threads and tasks.
    fn load(&mut self, keys: &[&str]) -> Result<(), Failure> {
        let handle = self.handle()?;
        let mut new = Vec::new();
        for key in keys {
            let made: Vec<Result<(Lease, i64), Failure>> = std::thread::scope(|scope| {
                let worker = |_| {
                    let (handle, command) = (handle.clone(), &self.command);
                    scope.spawn(move || {
                        let _runtime = handle.enter();
                        let lease = Provider::new(command, key)?.lease;
                        let task = lease.clone();
                        let who = handle.block_on(handle.spawn(async move { Provider::who(&task).await }))??;
                        Ok((lease, who))
                    })
                };
                let workers: Vec<_> = (0..WORKERS).map(worker).collect();
                let gone = |_| -> Result<_, Failure> { Err("a worker has panicked".into()) };
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(gone)).collect()
            });
            let made: Vec<_> = made.into_iter().collect::<Result<_, _>>()?;
            let pids: Vec<i64> = made.iter().map(|(_, pid)| *pid).collect();
            if pids.iter().any(|pid| *pid != pids[0]) {
                return Err(format!("{key}: more than one child: {pids:?}").into());
            }
            say(&format!("{key} {}", pids[0]));
            new.extend(made.into_iter().map(|(lease, _)| Provider { lease, peer: RefCell::default() }));
        }
        let old = std::mem::replace(&mut self.providers, new);
        self.let_go(old);
        Ok(())
    }

    /// What programs do with what they do not need any more.
    fn let_go(&self, old: Vec<Provider>) {
        match self.abandon.as_str() {
            "forget" => std::mem::forget(old),
            "rc" => {
                let all: Vec<_> = old.into_iter().map(Rc::new).collect();
                for (at, provider) in all.iter().enumerate() {
                    *provider.peer.borrow_mut() = Some(all[(at + 1) % all.len()].clone());
                }
            }
            "arc" => {
                let shared =
                    |old: Provider| Arc::new(SharedProvider { _provider: old.lease, peer: Mutex::default() });
                let all: Vec<_> = old.into_iter().map(shared).collect();
                for (at, provider) in all.iter().enumerate() {
                    if let Ok(mut peer) = provider.peer.lock() {
                        *peer = Some(all[(at + 1) % all.len()].clone());
                    }
                }
            }
            _ => drop(old),
        }
    }

    /// Something goes wrong in a thread or a task that has a provider and a pen.
    fn panic_elsewhere(&mut self, in_task: bool) -> Result<(), Failure> {
        let handle = self.handle()?;
        let held = (self.providers.pop(), self.pens.pop());
        let held = (held.0.map(|provider| provider.lease), held.1);
        let task = async move {
            let _held = held;
            tokio::task::yield_now().await;
            panic!("as tasks do");
        };
        let has_panicked = if in_task {
            handle.block_on(handle.spawn(task)).is_err()
        } else {
            std::thread::spawn(move || handle.block_on(task)).join().is_err()
        };
        say(if has_panicked { "panicked" } else { "not even that" });
        Ok(())
    }

    /// What libraries do that know nothing of this program's threads and files.
    fn fork_in_another_thread() -> Result<(), Failure> {
        let forked = std::thread::spawn(|| match fork() {
            Ok(Side::Parent(pid)) => Some(pid),
            Err(_) => None,
            // It has a copy of every descriptor, and one thread. Nothing but system calls is allowed here.
            Ok(Side::Child) => loop {
                nostray_sys::poll::wait(&[], None).ok();
            },
        });
        let forked = forked.join().ok().flatten().ok_or("cannot fork")?;
        say(&format!("forked {forked}"));
        Ok(())
    }

    fn obey(&mut self, order: &str) -> Result<bool, Failure> {
        let words: Vec<&str> = order.split(' ').collect();
        match words[0] {
            "load" => self.load(&words[1..])?,
            "abandon" => words[1].clone_into(&mut self.abandon),
            "call" => {
                let handle = self.handle()?;
                let _runtime = handle.enter();
                let provider = Provider::new(&self.command, words[1])?;
                match handle.block_on(Provider::who(&provider.lease)) {
                    Ok(pid) => say(&format!("{} {pid}", words[1])),
                    Err(_) => say(&format!("{} failed", words[1])),
                }
            }
            "pens" => {
                let words: Vec<String> = words[1..].iter().map(|word| (*word).to_owned()).collect();
                let pens = self.handle()?.block_on(Pens::start(&words))?;
                self.pens.push(pens);
                say("ready");
            }
            "drop-pens" => {
                self.pens.clear();
                say("dropped");
            }
            "panic-task" => self.panic_elsewhere(true)?,
            "panic-thread" => self.panic_elsewhere(false)?,
            "fork" => Self::fork_in_another_thread()?,
            "drop-runtime" => {
                self.runtime = None;
                say("dropped");
            }
            "panic" => panic!("as programs do"),
            "abort" => std::process::abort(),
            "exit" => {
                let code = words[1].parse()?;
                // Not from the thread that has everything.
                std::thread::spawn(move || std::process::exit(code)).join().ok();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn main() -> Result<(), Failure> {
    nostray::guard::init(); // the first line: this program is its own guard
    let command: Vec<String> = std::env::args().skip_while(|word| word != "--").skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut host =
        Host { runtime: Some(runtime), command, providers: Vec::new(), pens: Vec::new(), abandon: "drop".to_owned() };
    for order in std::io::stdin().lock().lines() {
        match host.obey(&order?) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => say(&format!("failed: {error}")),
        }
    }
    Ok(())
}
