//! No process of the tree is left, and no other process is touched: for every way in which a host can end, with every
//! kind of child and descendant, as root and as an unprivileged user.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use badchild::{Bystanders, Found, Host, PATIENCE, Scene, User, badchild};
use nostray_sys::Signal;
use testkit::{GRACES, in_parallel, own_processes, run_words, start_host};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Event {
    StdinClosed,
    SocketClosed,
    Term,
    Interrupt,
    HostExits,
    HostKilled,
    HostKilledWhileAnotherHoldsThePipe,
    TerminalClosed,
    HostDeadBeforeStart,
    Killed(&'static [Who], Duration),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Front,
    Spare,
    Guard,
}

/// Any one keeper, and any two, in either order.
const VICTIMS: [&[Who]; 9] = [
    &[Who::Front],
    &[Who::Spare],
    &[Who::Guard],
    &[Who::Front, Who::Guard],
    &[Who::Guard, Who::Front],
    &[Who::Front, Who::Spare],
    &[Who::Spare, Who::Front],
    &[Who::Spare, Who::Guard],
    &[Who::Guard, Who::Spare],
];
const GAPS: [u64; 5] = [0, 1, 5, 20, 50];

#[derive(Debug)]
struct Cell {
    user: User,
    event: Event,
    manner: &'static str,
    kind: &'static str,
}

fn cells(user: User) -> Vec<Cell> {
    let mut events = vec![
        Event::StdinClosed,
        Event::SocketClosed,
        Event::Term,
        Event::Interrupt,
        Event::HostExits,
        Event::HostKilled,
        Event::HostKilledWhileAnotherHoldsThePipe,
        Event::TerminalClosed,
        Event::HostDeadBeforeStart,
    ];
    events.extend(VICTIMS.iter().map(|victims| Event::Killed(victims, Duration::ZERO)));
    let mut cells = Vec::new();
    let mut gaps = GAPS.into_iter().cycle();
    for manner in ["cooperative", "stubborn"] {
        for kind in ["plain", "term-ignoring", "setsid", "daemon"] {
            for &event in &events {
                let event = match event {
                    Event::Killed(who, _) => Event::Killed(who, Duration::from_millis(gaps.next().unwrap_or(0))),
                    other => other,
                };
                cells.push(Cell { user, event, manner, kind });
            }
        }
    }
    cells
}

#[test]
fn the_tree_is_gone_and_no_other_process_is_touched() {
    let bystanders = Bystanders::start(User::Current);
    in_parallel(cells(User::Current), play);
    bystanders.expect_untouched();
}

#[test]
fn the_tree_is_gone_and_no_other_process_is_touched_as_an_unprivileged_user() {
    if !User::all().contains(&User::Nobody) {
        return; // the test above ran as an unprivileged user
    }
    let bystanders = Bystanders::start(User::Nobody);
    in_parallel(cells(User::Nobody), play);
    bystanders.expect_untouched();
}

fn play(cell: Cell) {
    let scene = Scene::new(cell.user);
    let guard = std::panic::AssertUnwindSafe(|| match cell.event {
        Event::HostDeadBeforeStart => host_dead_before_start(&scene, &cell),
        _ => with_a_host(&scene, &cell),
    });
    if let Err(panic) = std::panic::catch_unwind(guard) {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        panic!("{cell:?}: {text}");
    }
}

fn with_a_host(scene: &Scene, cell: &Cell) {
    let options: &[&str] = match cell.event {
        Event::SocketClosed => &["--stdin", "socket"],
        Event::TerminalClosed => &["--stdin", "terminal"],
        Event::HostKilledWhileAnotherHoldsThePipe => &["--hold"],
        _ => &[],
    };
    let mut host = start_host(scene, options, &GRACES, &["tree", cell.manner, cell.kind]);
    let front = host.ready();
    happen(scene, cell.event, &mut host, &front);
    // The host belongs to the scene, and some events leave it alive.
    host.order("exit");
    scene.expect_empty_within(PATIENCE);
    host.expect_friend_untouched();
}

fn happen(scene: &Scene, event: Event, host: &mut Host, front: &Found) {
    match event {
        Event::StdinClosed | Event::SocketClosed | Event::TerminalClosed => host.order("close"),
        Event::HostExits => host.order("exit"),
        Event::HostKilled | Event::HostKilledWhileAnotherHoldsThePipe => host.kill(),
        Event::Term => front.send(Signal::TERM),
        Event::Interrupt => front.send(Signal::INT),
        Event::Killed(victims, gap) => {
            let own = own_processes(scene);
            for (i, who) in victims.iter().enumerate() {
                if i > 0 {
                    std::thread::sleep(gap); // the test varies the time between the two kills
                }
                match who {
                    Who::Front => own.front.send(Signal::KILL),
                    Who::Spare => own.spare.send(Signal::KILL),
                    Who::Guard => own.guard.send(Signal::KILL),
                }
            }
        }
        Event::HostDeadBeforeStart => unreachable!("has no host"),
    }
    // The host lives and holds the pipe, so only this event can end the tree.
    if !matches!(event, Event::HostExits | Event::HostKilled | Event::HostKilledWhileAnotherHoldsThePipe) {
        badchild::wait_until("only the host is left", || scene.processes().len() <= 1);
    }
}

/// The launcher of nostray is gone before nostray runs, while this test holds nostray's stdin.
fn host_dead_before_start(scene: &Scene, cell: &Cell) {
    let words = run_words(&GRACES, &["tree", cell.manner, cell.kind]);
    let me = badchild();
    let mut command = scene.command(&me);
    command.args(["leader", "--"]).arg(&me).args(["after-parent", "--"]).args(&words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("start");
    let _held = process.stdin.take();
    process.wait().expect("the launcher ends at once");
    scene.expect_empty_within(PATIENCE);
    let mut said = String::new();
    process.stdout.take().expect("piped").read_to_string(&mut said).expect("read");
    assert_eq!(said, "", "the child was started");
    process.stderr.take().expect("piped").read_to_string(&mut said).expect("read");
    assert!(said.contains("nostray: the host that started this command had already ended"), "said: {said}");
}
