//! Holders of a slot that take long: to get ready, while hosts are impatient, and to end, while a newcomer waits. And
//! holders that never get ready, until newcomers no longer ask them to hand over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use badchild::{Found, PATIENCE, badchild, comes_true, wait_until};
use nostray_sys::Signal;
use serde_json::{Value, json};
use testkit::in_parallel;
use testkit::sharing::is_long;
use testkit::stage::{Caller, Stage};

/// How long a holder takes to be ready.
fn start_time() -> Duration {
    Duration::from_secs(if is_long() { 45 } else { 6 })
}

/// How long a host waits for a holder to be ready.
fn patience_of_host() -> Duration {
    Duration::from_secs(if is_long() { 5 } else { 1 })
}

/// How long a holder takes to end.
fn stop_time() -> Duration {
    Duration::from_secs(if is_long() { 20 } else { 3 })
}

/// The deadline for a start and an end together.
fn patience() -> Duration {
    PATIENCE + start_time() + stop_time()
}

fn show(stage: &Stage) -> Value {
    let output = stage.nostray(&["slot", "show", "s", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Waits until the slot is in this state, and returns the output of `slot show`.
fn wait_for_state(stage: &Stage, state: &str) -> Value {
    let mut shown = Value::Null;
    let came = comes_true(patience(), &mut || {
        shown = show(stage);
        shown["state"] == state
    });
    assert!(came, "not {state}: {shown:#}\n{}", stage.journal());
    shown
}

fn was_handed_over(tenure: &Value) -> bool {
    tenure["why"].as_str().is_some_and(|why| why.starts_with("it was asked to hand over its slot"))
}

/// How nostray runs the holder, and how it learns that the child is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The child is ready when it has written a file.
    Direct,
    /// The child is ready with its first answer.
    Managed,
    /// The same, with a child that sessions share.
    Shared,
}

impl Way {
    fn options(self, stage: &Stage, if_taken: &str) -> Vec<String> {
        let mut options = match self {
            Self::Direct => vec!["--ready-file".to_owned(), stage.file("ready")],
            Self::Managed | Self::Shared => vec!["--respawn".to_owned()],
        };
        let if_taken = if self == Self::Shared { "share" } else { if_taken };
        options.extend(["--slot", "s", "--if-taken", if_taken].map(str::to_owned));
        options
    }
}

/// The parameters of a host's first message.
fn hello() -> Value {
    json!({ "protocolVersion": "2025-06-18", "capabilities": {} })
}

/// Starts a contender that wants the slot for this command.
fn start(stage: &Stage, way: Way, if_taken: &str, options: &[&str], command: &[String]) -> Caller {
    let own = way.options(stage, if_taken);
    let options: Vec<&str> = own.iter().map(String::as_str).chain(options.iter().copied()).collect();
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    stage.start_command(&options, &command)
}

/// A server that needs this long before it answers and has written the file. It holds a lock that no other server may
/// have meanwhile.
fn slow_to_start(stage: &Stage, way: Way, time: Duration) -> Vec<String> {
    let [claim, ready] = ["claim", "ready"].map(|name| stage.file(name));
    if way == Way::Direct {
        let server = stage.server(&["--claim", &claim]).join(" ");
        // The server begins at once, so that its life is on record.
        let script = format!("(sleep {}; : > {ready}) <&- & exec {server}", time.as_secs_f64());
        return vec!["sh".to_owned(), "-c".to_owned(), script];
    }
    stage.server(&["--claim", &claim, "--start-delay", &time.as_millis().to_string()])
}

/// An impatient host: it starts a contender, ends it after a while without an answer, and starts the next one, until
/// this value is dropped.
struct Impatient {
    is_over: Arc<AtomicBool>,
    tries: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Impatient {
    fn begin(stage: &Arc<Stage>, way: Way, if_taken: &'static str) -> Self {
        let (is_over, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stop, count, stage) = (is_over.clone(), tries.clone(), stage.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let command = slow_to_start(&stage, way, start_time());
                let mut newcomer = start(&stage, way, if_taken, &[], &command);
                // The same handshake as the holder's: with `share`, the first session decides which sessions the child
                // can serve.
                newcomer.try_send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello() }));
                comes_true(patience_of_host(), &mut || stop.load(Ordering::Relaxed));
                let tries = count.fetch_add(1, Ordering::Relaxed);
                if if_taken == "fail" && !stop.load(Ordering::Relaxed) {
                    assert_eq!(newcomer.code(), 75, "{}", newcomer.errors());
                    let errors = newcomer.errors();
                    // The last contender may come when the holder is ready.
                    let tells_state = ["starting for", "ready for"].iter().any(|state| errors.contains(state));
                    assert!(errors.contains("slot s is taken by") && tells_state, "{errors}");
                }
                if tries % 2 == 0 {
                    newcomer.close();
                    newcomer.code();
                } // else the drop kills it
            }
        });
        Self { is_over, tries, thread: Some(thread) }
    }

    /// Ends the host, and returns how often it has tried.
    fn end(mut self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().expect("is there").join().expect("no panic");
        self.tries.load(Ordering::Relaxed)
    }
}

impl Drop for Impatient {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[test]
fn impatient_hosts_do_not_end_a_holder_that_is_starting() {
    let direct = ["wait", "fail", "replace"].map(|if_taken| (Way::Direct, if_taken));
    let managed = ["wait", "fail", "replace"].map(|if_taken| (Way::Managed, if_taken));
    let all = direct.into_iter().chain(managed).chain([(Way::Shared, "share")]).collect();
    in_parallel(all, |(way, if_taken)| {
        let stage = Arc::new(Stage::new());
        let began = Instant::now();
        let mut holder = start(&stage, way, if_taken, &[], &slow_to_start(&stage, way, start_time()));
        let hello = holder.ask("initialize", hello());
        wait_until("the holder has started", || stage.lives().len() == 1);
        let child = stage.child();
        let hosts = [(); 3].map(|()| Impatient::begin(&stage, way, if_taken));
        // Until the holder is ready, no other child is started, with every policy of the newcomers.
        let mut looks = 0;
        while began.elapsed() + Duration::from_millis(500) < start_time() {
            let (is_alone, shown) = (child.is_alive() && stage.lives().len() == 1, show(&stage));
            if began.elapsed() >= start_time() {
                break; // on a busy machine the holder may become ready during one look
            }
            assert!(is_alone, "{way:?} {if_taken}: {}", stage.journal());
            assert_eq!(shown["state"], "starting", "{way:?} {if_taken}: {shown:#}");
            looks += 1;
            // Sample slowly: a start that must not happen gives no event, and each look takes CPU time from the
            // processes under test.
            std::thread::sleep(Duration::from_millis(200));
        }
        let answer = holder.answer(hello);
        assert!(answer.get("result").is_some(), "{way:?} {if_taken}: {answer}");
        wait_until("the holder is ready", || !show(&stage)["history"][0]["ready"].is_null());
        let tries: usize = hosts.map(Impatient::end).iter().sum();
        // On an idle machine: five looks and fifteen tries.
        assert!(looks > 0 && tries >= 3, "{way:?} {if_taken}: {looks} looks, {tries} tries");
        let first = show(&stage)["history"][0].take();
        let moment = |what: &str| Duration::from_millis(first[what]["since_boot"].as_u64().expect("a moment"));
        assert!(moment("ready") - moment("taken") >= start_time(), "{first:#}");
        if if_taken != "replace" {
            holder.who();
            assert!(child.is_alive() && stage.lives().len() == 1, "{way:?} {if_taken}: {}", stage.journal());
        } else if !first["ended"].is_null() {
            assert!(was_handed_over(&first), "{way:?} {if_taken}: {first:#}");
        }
        holder.close();
        holder.code();
        if way == Way::Shared {
            assert!(stage.nostray(&["slot", "release", "s"]).status.success());
        }
        stage.scene.expect_empty();
        stage.expect_never_two();
    });
}

/// A tree that takes long to end: its first process ends at once, and a second one writes a file when it ends. Both
/// hold a lock that no other tree may have meanwhile.
fn slow_to_stop(stage: &Stage, way: Way) -> Vec<String> {
    let [claim, overlap, ready, flushed] = ["claim", "overlap", "ready", "flushed"].map(|name| stage.file(name));
    let (badchild, time) = (badchild().display().to_string(), stop_time());
    let first = match way {
        Way::Direct => format!(": > {ready}; exec {badchild} slow 1 {flushed}.first >/dev/null"),
        Way::Managed | Way::Shared => format!("exec {}", stage.server(&[]).join(" ")),
    };
    // The slow process installs its handler for SIGTERM before the first process does anything.
    let script = format!(
        "exec 9>{claim}; flock -n 9 || echo two >> {overlap}; \
         {badchild} slow {} {flushed} </dev/null >{flushed}.ready & \
         until [ -s {flushed}.ready ]; do sleep 0.01; done; {first}",
        time.as_millis()
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

/// A newcomer's child that checks at its start whether the old tree has ended.
fn comes_after(stage: &Stage) -> Vec<String> {
    let [claim, overlap, came, flushed] = ["claim", "overlap", "came", "flushed"].map(|name| stage.file(name));
    let script = format!(
        "exec 9>{claim}; flock -n 9 || echo two >> {overlap}; [ -e {flushed} ] || echo too early >> {overlap}; : > {came}; exec cat"
    );
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

/// The process that is killed in the middle of the handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    NoProcess,
    Front,
    FrontOfNewcomer,
}

#[test]
fn a_holder_that_needs_long_to_end_gets_its_grace_and_the_next_starts_when_its_tree_is_empty() {
    let mut all = Vec::new();
    for way in [Way::Direct, Way::Managed, Way::Shared] {
        all.extend([Killed::NoProcess, Killed::Front, Killed::FrontOfNewcomer].map(|killed| (way, killed)));
    }
    in_parallel(all, |(way, killed)| {
        let what = format!("{way:?}, {killed:?} is killed");
        let stage = Stage::new();
        let grace = format!("{}s", stop_time().as_secs() * 10);
        let mut holder = start(&stage, way, "wait", &["--term-grace", &grace], &slow_to_stop(&stage, way));
        if way != Way::Direct {
            holder.initialize();
        }
        let old = wait_for_state(&stage, "ready");
        let tree: Vec<Found> = stage.trees();
        assert!(tree.len() >= 2, "{what}: {tree:?}");
        let began = Instant::now();
        let mut newcomer = start(&stage, Way::Managed, "replace", &[], &comes_after(&stage));
        let stopping = wait_for_state(&stage, "stopping");
        assert_eq!(stopping["holder"]["id"], old["holder"]["id"], "{what}: {stopping:#}");
        assert_eq!(stopping["waiting"][0]["for"], "replace", "{what}: {stopping:#}");
        if killed == Killed::FrontOfNewcomer {
            // The holder goes on ending without its newcomer, and another newcomer comes.
            drop(newcomer);
            newcomer = start(&stage, Way::Managed, "replace", &[], &comes_after(&stage));
        }
        if killed == Killed::Front {
            let front = old["holder"]["front"]["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            let front = Found::by_pid(badchild::pid(front.expect("a number"))).expect("is there");
            front.send(Signal::KILL);
            wait_until("the front is gone", || !front.is_alive());
        }
        let came = comes_true(patience(), &mut || std::fs::exists(stage.file("came")).expect("look"));
        assert!(
            came,
            "{what}: no newcomer's child started: {}\n{:#}\n{}",
            newcomer.errors(),
            show(&stage),
            stage.journal()
        );
        assert!(tree.iter().all(|found| !found.is_alive()), "{what}: {tree:?}");
        assert!(began.elapsed() >= stop_time(), "{what}: {:?}", began.elapsed());
        let overlap = std::fs::read_to_string(stage.file("overlap")).unwrap_or_default();
        assert_eq!(overlap, "", "{what}: {}", stage.journal());
        assert!(
            std::fs::exists(stage.file("flushed")).expect("look"),
            "{what}: the holder's tree was killed within its grace"
        );
        let journal = stage.journal();
        assert!(journal.contains("stopping: it was asked to hand over its slot"), "{what}: {journal}");
        assert!(!journal.contains("did not end when asked"), "{what}: {journal}");
        let errors = newcomer.errors();
        assert!(
            killed == Killed::FrontOfNewcomer || errors.contains("and was asked to hand over"),
            "{what}: {errors}"
        );
        let shown = show(&stage);
        let first = &shown["history"][0];
        assert_eq!(first["id"], old["holder"]["id"], "{what}: {shown:#}");
        if killed != Killed::Front {
            assert!(was_handed_over(first), "{what}: {shown:#}");
        }
        newcomer.close();
        newcomer.code();
        drop(holder);
        stage.scene.expect_empty();
    });
}

/// A contender whose child exits at once, and which waits for its next try.
fn hopeless(stage: &Stage, options: &[&str]) -> Caller {
    let options = [&["--backoff", "1h..1h", "--max-failures", "99/1m"], options].concat();
    start(stage, Way::Managed, "replace", &options, &stage.server(&["--exit-at-once", "3"]))
}

#[test]
fn when_a_slot_has_changed_hands_too_often_without_a_ready_holder_newcomers_wait() {
    for (limit, allowed) in [(Some("1/1m"), 2), (None, 4)] {
        let stage = Stage::new();
        let options: Vec<&str> = limit.map(|limit| ["--max-handovers", limit]).into_iter().flatten().collect();
        let mut callers = vec![hopeless(&stage, &options)];
        for number in 1..=allowed {
            let id = wait_for_state(&stage, "backing-off")["holder"]["id"].take();
            callers.push(hopeless(&stage, &options));
            wait_until("the slot has changed hands", || {
                let shown = show(&stage);
                shown["history"].as_array().is_some_and(|all| all.len() > number) && shown["holder"]["id"] != id
            });
        }
        let before = wait_for_state(&stage, "backing-off");
        let mut late = hopeless(&stage, &options);
        let why = format!(
            "it changed hands {allowed} times without a holder getting ready (limit {}), so the holder is not asked to hand over",
            limit.unwrap_or("3/1m")
        );
        wait_until("the newcomer says why it waits", || late.errors().contains(&why));
        assert!(late.errors().contains("waiting instead"), "{}", late.errors());
        assert!(stage.journal().contains(&why), "{}", stage.journal());
        let shown = show(&stage);
        assert_eq!(shown["holder"]["id"], before["holder"]["id"], "{shown:#}");
        assert_eq!(shown["waiting"][0]["for"], "wait", "{shown:#}");
        let text = String::from_utf8_lossy(&stage.nostray(&["slot", "show", "s"]).stdout).into_owned();
        assert_eq!(text.matches("never").count(), allowed + 1, "{text}");
        assert_eq!(text.matches("it was asked to hand over its slot").count(), allowed, "{text}");
        assert!(text.contains("waits for"), "{text}");
        // The holder is not asked later either. The newcomer gets the slot when the holder has ended.
        let mut holder = callers.pop().expect("is there");
        assert!(!comes_true(Duration::from_millis(1500), &mut || holder.process.try_wait().expect("look").is_some()));
        holder.close();
        holder.code();
        wait_until("the newcomer has the slot", || {
            show(&stage)["history"].as_array().is_some_and(|all| all.len() == allowed + 2)
        });
        for mut caller in callers {
            // The contenders that were asked to hand over have ended.
            caller.code();
        }
        late.close();
        late.code();
        stage.scene.expect_empty();
        stage.expect_never_two();
    }
}

/// Most stdio servers end with their input, and handle no signal.
#[test]
fn a_supervised_holder_is_asked_to_hand_over_by_the_end_of_its_input() {
    for way in [Way::Managed, Way::Shared] {
        let stage = Stage::new();
        let graces = ["--eof-grace", "20s", "--term-grace", "20s"];
        let mut holder = start(&stage, way, "wait", &graces, &stage.server(&[]));
        holder.initialize();
        let mut newcomer = start(&stage, Way::Managed, "replace", &graces, &stage.server(&[]));
        newcomer.initialize();
        assert!(stage.lives()[0].saw_the_end, "{way:?}: {}", stage.journal());
        newcomer.close();
        newcomer.code();
        drop(holder);
        stage.scene.expect_empty();
    }
}
