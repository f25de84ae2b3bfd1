//! Every event in every state; and long random lives that never break a rule.

use nostray_sys::random::Random;

use super::*;
use crate::backoff::Backoff;

const LIVE: Generation = Generation(7);

fn policy() -> Policy {
    Policy {
        respawn: true,
        backoff: Backoff::default(),
        max_failures: Rate { times: 3, within: Duration::from_secs(60) },
        sustained: Duration::from_secs(30),
        hibernate: Some(Duration::from_secs(600)),
        max_age: Some(Duration::from_secs(3600)),
        start_timeout: Some(Duration::from_secs(10)),
        on_demand: false,
    }
}

fn cause(text: &str) -> Cause {
    Cause::new(text)
}

/// Every state, with a word for it.
fn states() -> Vec<(&'static str, State)> {
    let stopping = |why| State::Stopping { generation: LIVE, why };
    let ready = |recycle| State::Ready { generation: LIVE, recycle };
    vec![
        ("asleep", State::Asleep),
        ("starting", State::Starting(LIVE)),
        ("ready", ready(None)),
        ("ready*", ready(Some(Why::Memory))),
        ("stopping", stopping(Why::Stop)),
        ("released", stopping(Why::Released)),
        ("to-sleep", stopping(Why::Hibernate)),
        ("recycled", stopping(Why::Memory)),
        ("too-old", stopping(Why::Age)),
        ("too-slow", stopping(Why::StartTimeout)),
        ("bad-start", stopping(Why::BadStart)),
        ("anew", stopping(Why::Restart)),
        ("falling", State::Falling { generation: LIVE, cause: cause("died") }),
        ("backing-off", State::BackingOff { cause: cause("died") }),
        ("tripped", State::Tripped { cause: cause("died") }),
        ("ended", State::Ended),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    vec![
        ("taken", Event::Taken),
        ("released", Event::Released),
        ("demanded", Event::Demanded),
        ("answered", Event::Answered(LIVE)),
        ("runs", Event::Runs(LIVE)),
        ("busy", Event::Busy),
        ("quiet", Event::Quiet),
        ("died", Event::Died(LIVE, cause("died"))),
        ("emptied", Event::Emptied(LIVE, cause("died"))),
        ("hopeless", Event::Hopeless(LIVE, cause("not found"))),
        ("bad-start", Event::BadStart(LIVE)),
        ("over", Event::OverMemory(LIVE)),
        ("far-over", Event::FarOverMemory(LIVE)),
        ("backoff", Event::Fired(Timer::Backoff)),
        ("start", Event::Fired(Timer::Start)),
        ("sustained", Event::Fired(Timer::Sustained)),
        ("hibernate", Event::Fired(Timer::Hibernate)),
        ("age", Event::Fired(Timer::Age)),
        ("cooled", Event::Fired(Timer::Cooled)),
        ("stop", Event::Stop),
        ("rested", Event::Rested(LIVE)),
        ("restart", Event::Restart),
    ]
}

/// What was of another generation changes nothing.
fn of_another_generation() -> Vec<Event> {
    let old = Generation(6);
    vec![
        Event::Answered(old),
        Event::Runs(old),
        Event::Died(old, cause("old")),
        Event::Emptied(old, cause("old")),
        Event::Hopeless(old, cause("old")),
        Event::BadStart(old),
        Event::OverMemory(old),
        Event::FarOverMemory(old),
        Event::Rested(old),
    ]
}

fn machine(state: State, holders: usize) -> Machine {
    Machine { state, last: LIVE, holders, busy: false, ..Machine::new(policy()) }
}

fn word(state: &State) -> &'static str {
    match state {
        State::Starting(Generation(8)) => "starting+1",
        State::Starting(_) => "starting",
        State::Ready { recycle: None, .. } => "ready",
        other => states().iter().find(|(_, state)| state == other).map_or_else(
            || match other {
                State::Falling { .. } => "falling",
                State::BackingOff { .. } => "backing-off",
                State::Tripped { .. } => "tripped",
                _ => "?",
            },
            |(word, _)| word,
        ),
    }
}

/// The whole table for a child with one holder and nothing in flight. `.` is: the state stays.
const TABLE: &str = "
              taken      released  demanded   answered  runs      busy quiet     died    emptied     hopeless bad-start over     far-over backoff    start    sustained hibernate age      cooled stop  rested  restart
asleep        starting+1 .         starting+1 .         .         .    .         .       .           .        .         .        .        .          .        .         .         .        .      ended  .  .
starting      .          released  .          ready     ready     .    .         falling backing-off ended    bad-start .        recycled .          too-slow .         to-sleep  .        .      stopping  asleep  anew
ready         .          released  .          .         .         .    .         falling backing-off ended    .         recycled recycled .          .        .         to-sleep  too-old  .      stopping  asleep  anew
ready*        .          released  .          .         .         .    recycled  falling backing-off ended    .         recycled recycled .          .        .         to-sleep  recycled .      stopping  asleep  recycled
stopping      .          .         .          .         .         .    .         .       ended       ended    .         .        .        .          .        .         .         .        .      .  ended  .
released      .          .         .          .         .         .    .         .       starting+1  ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
to-sleep      .          released  .          .         .         .    .         .       asleep      ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
recycled      .          released  .          .         .         .    .         .       starting+1  ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
too-old       .          released  .          .         .         .    .         .       starting+1  ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
too-slow      .          released  .          .         .         .    .         .       backing-off ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
bad-start     .          released  .          .         .         .    .         .       backing-off ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
anew          .          released  .          .         .         .    .         .       starting+1  ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
falling       .          .         .          .         .         .    .         .       backing-off ended    .         .        .        .          .        .         .         .        .      stopping  asleep  .
backing-off   .          asleep    .          .         .         .    .         .       .           .        .         .        .        starting+1 .        .         .         .        .      ended  .  starting+1
tripped       .          asleep    .          .         .         .    .         .       .           .        .         .        .        .          .        .         .         .        asleep ended  .  starting+1
ended         .          .         .          .         .         .    .         .       .           .        .         .        .        .          .        .         .         .        .      .  .  .
";

#[test]
fn every_event_in_every_state() {
    let mut lines = TABLE.trim().lines();
    let columns: Vec<_> = lines.next().expect("a head").split_whitespace().collect();
    assert_eq!(columns, events().iter().map(|(word, _)| *word).collect::<Vec<_>>());
    for ((name, state), line) in states().into_iter().zip(lines.by_ref()) {
        let mut cells = line.split_whitespace();
        assert_eq!(cells.next(), Some(name));
        for ((event_name, event), expected) in events().into_iter().zip(cells.by_ref()) {
            let mut machine = machine(state.clone(), 1);
            let actions = machine.on(event.clone(), Moment::from_secs(1000), 0.5);
            let expected = if expected == "." { name.trim_end_matches('*') } else { expected };
            let found = word(machine.state()).trim_end_matches('*');
            assert_eq!(found, expected, "{name} x {event_name}: {actions:?}");
            rules_hold(&state, &event, 1, &machine, &actions);
        }
        assert_eq!(cells.next(), None, "{name}");
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn what_belongs_to_another_generation_changes_nothing() {
    for (name, state) in states() {
        for event in of_another_generation() {
            let mut machine = machine(state.clone(), 1);
            let actions = machine.on(event.clone(), Moment::ZERO, 0.0);
            assert_eq!((machine.state(), actions.as_slice()), (&state, [].as_slice()), "{name} x {event:?}");
        }
    }
}

#[test]
fn without_a_holder_nothing_is_ever_started() {
    for (_, state) in states() {
        for (_, event) in events().into_iter().filter(|(_, event)| *event != Event::Taken) {
            for (busy, demanded) in [(false, false), (true, false), (false, true), (true, true)] {
                let mut machine = Machine { busy, demanded, ..machine(state.clone(), 0) };
                let actions = machine.on(event.clone(), Moment::ZERO, 0.0);
                assert!(!actions.iter().any(|action| matches!(action, Action::Start(_))), "{state:?} x {event:?}");
                rules_hold(&state, &event, 0, &machine, &actions);
            }
        }
    }
}

/// What must be true of any step.
fn rules_hold(before: &State, event: &Event, holders: usize, after: &Machine, actions: &[Action]) {
    let context = format!("{before:?} x {event:?} -> {:?}: {actions:?}", after.state);
    let emptied =
        matches!(event, Event::Emptied(g, _) | Event::Hopeless(g, _) | Event::Rested(g) if Some(*g) == before.live());
    // 1. A generation ends with its tree, and the next one starts after that.
    if before.live().is_some() && after.state.live() != before.live() {
        assert!(emptied, "{context}");
    }
    for action in actions {
        if let Action::Start(generation) = action {
            assert!(before.live().is_none() || emptied, "{context}");
            assert_eq!(after.state, State::Starting(*generation), "{context}");
            // 2. It has a holder. 6. It was not stopped.
            assert!(after.holders > 0 && *event != Event::Stop && *event != Event::Released, "{context}");
        }
        // 3. A starting child is left alone.
        if let (State::Starting(_), Action::TearDown(_, why)) = (before, action) {
            let by_limit = [Why::Hibernate, Why::Memory, Why::StartTimeout, Why::BadStart];
            let allowed = [Why::Stop, Why::Released, Why::Restart].iter().chain(&by_limit).any(|other| other == why);
            assert!(allowed, "{context}");
        }
    }
    // 4. After an end of its own there is a pause, or an end of trying.
    if matches!(before, State::Starting(_) | State::Ready { .. } | State::Falling { .. }) && holders > 0 {
        if matches!(event, Event::Emptied(..)) && emptied {
            let pause = actions.iter().any(|a| matches!(a, Action::Arm(Timer::Backoff | Timer::Cooled, _)));
            assert!(pause || !after.policy.respawn, "{context}");
        }
        // 5. What was in flight is cut off when its child dies, not later.
        if matches!(before, State::Starting(_) | State::Ready { .. })
            && matches!(event, Event::Died(g, _) | Event::Emptied(g, _) if Some(*g) == before.live())
        {
            assert!(actions.iter().any(|a| matches!(a, Action::CutOff(_))), "{context}");
        }
    }
    // 6. Stopping is for good.
    if *event == Event::Stop {
        assert!(matches!(after.state, State::Ended | State::Stopping { why: Why::Stop, .. }), "{context}");
    }
}

#[test]
fn in_flight_calls_keep_a_child_awake_and_put_off_its_recycling() {
    for event in [Event::Fired(Timer::Hibernate), Event::Fired(Timer::Age), Event::OverMemory(LIVE)] {
        let mut machine = Machine { busy: true, ..machine(State::Ready { generation: LIVE, recycle: None }, 1) };
        let actions = machine.on(event.clone(), Moment::ZERO, 0.0);
        assert!(!actions.iter().any(|a| matches!(a, Action::TearDown(..))), "{event:?}");
        assert!(matches!(machine.state(), State::Ready { .. }));
        let actions = machine.on(Event::Quiet, Moment::ZERO, 0.0);
        let torn_down = actions.iter().any(|a| matches!(a, Action::TearDown(..)));
        assert_eq!(torn_down, event != Event::Fired(Timer::Hibernate), "{event:?}");
    }
    let mut machine = Machine { busy: true, ..machine(State::Ready { generation: LIVE, recycle: None }, 1) };
    let actions = machine.on(Event::FarOverMemory(LIVE), Moment::ZERO, 0.0);
    assert!(matches!(actions.as_slice(), [.., Action::CutOff(_), Action::TearDown(_, Why::Memory)]), "{actions:?}");
}

/// The short cut for messages leads to where the events lead.
#[test]
fn taking_note_is_the_same_as_taking_the_event_in() {
    for (_, state) in states() {
        for (hibernate, busy) in [(None, true), (None, false), (Some(Duration::from_secs(1)), true)] {
            let policy = Policy { hibernate, ..policy() };
            let before = Machine { policy, busy: !busy, ..machine(state.clone(), 1) };
            let (mut noted, mut told) = (before.clone(), before);
            if noted.takes_note(busy) {
                let actions = told.on(if busy { Event::Busy } else { Event::Quiet }, Moment::ZERO, 0.0);
                assert!(
                    actions.iter().all(|action| matches!(action, Action::Disarm(Timer::Hibernate))),
                    "{actions:?}"
                );
                assert_eq!((noted.state, noted.busy), (told.state, told.busy));
            }
        }
    }
}

#[test]
fn what_waits_while_a_child_goes_to_sleep_wakes_the_next_one() {
    let mut machine = machine(State::Stopping { generation: LIVE, why: Why::Hibernate }, 1);
    assert_eq!(machine.on(Event::Demanded, Moment::ZERO, 0.0), []);
    let actions = machine.on(Event::Emptied(LIVE, cause("asleep")), Moment::ZERO, 0.0);
    assert!(actions.contains(&Action::Start(Generation(8))), "{actions:?}");
}

/// A child that dies at once: pauses grow, it is given up after so many failures, tried once more after a while when a
/// message waits for it, and given up again at its first failure. Once it has been ready for long enough all is
/// forgotten.
#[test]
fn failures_back_off_trip_and_are_forgotten_after_a_sustained_time() {
    let mut machine = Machine::new(policy());
    let mut now = Moment::ZERO;
    let mut actions = machine.on(Event::Taken, now, 1.0);
    let mut pauses = Vec::new();
    for number in 1..=3 {
        assert!(actions.contains(&Action::Start(Generation(number))), "{actions:?}");
        now += Duration::from_secs(1);
        actions = machine.on(Event::Emptied(Generation(number), cause("exited with 1")), now, 1.0);
        if let Some(Action::Arm(Timer::Backoff, pause)) = actions.last() {
            pauses.push(pause.as_millis());
            actions = machine.on(Event::Fired(Timer::Backoff), now, 1.0);
        }
    }
    assert_eq!(pauses, [250, 500]);
    assert_eq!(*machine.state(), State::Tripped { cause: cause("exited with 1") });
    assert_eq!(machine.on(Event::Demanded, now, 1.0), [Action::Refuse(cause("exited with 1"))]);
    assert_eq!(machine.on(Event::Fired(Timer::Cooled), now, 1.0), []);
    let actions = machine.on(Event::Demanded, now, 1.0);
    assert!(actions.contains(&Action::Start(Generation(4))), "{actions:?}");
    now += Duration::from_secs(600);
    let actions = machine.on(Event::Emptied(Generation(4), cause("again")), now, 1.0);
    assert!(matches!(machine.state(), State::Tripped { .. }), "{actions:?}");

    assert_eq!(machine.on(Event::Fired(Timer::Cooled), now, 1.0), []);
    drop(machine.on(Event::Demanded, now, 1.0));
    drop(machine.on(Event::Answered(Generation(5)), now, 1.0));
    drop(machine.on(Event::Fired(Timer::Sustained), now, 1.0));
    let actions = machine.on(Event::Emptied(Generation(5), cause("later")), now, 1.0);
    assert!(actions.contains(&Action::Arm(Timer::Backoff, Duration::ZERO)), "{actions:?}");
}

/// A crash that cost a turn is not made worse by a pause that grows: a child that was ready has not failed to start.
#[test]
fn there_is_no_pause_after_the_first_crash_of_a_child_that_was_ready_and_later_ones_do_not_grow() {
    let mut machine =
        Machine::new(Policy { max_failures: Rate { times: 100, within: Duration::from_secs(60) }, ..policy() });
    let mut now = Moment::ZERO;
    drop(machine.on(Event::Taken, now, 1.0));
    let mut pauses = Vec::new();
    for (number, is_ready) in (1..).zip([true, true, true, false, false, true, true]) {
        if is_ready {
            drop(machine.on(Event::Answered(Generation(number)), now, 1.0));
        }
        now += Duration::from_secs(15);
        drop(machine.on(Event::Died(Generation(number), cause("killed")), now, 1.0));
        let actions = machine.on(Event::Emptied(Generation(number), cause("killed")), now, 1.0);
        let Some(Action::Arm(Timer::Backoff, pause)) = actions.last() else { panic!("{actions:?}") };
        pauses.push(pause.as_millis());
        drop(machine.on(Event::Fired(Timer::Backoff), now, 1.0));
    }
    assert_eq!(pauses, [0, 250, 250, 500, 1000, 250, 250]);
}

/// That it runs is no proof that it works: only a sustained time in *ready* is.
#[test]
fn the_pause_after_a_child_that_only_ran_grows_until_it_has_run_for_long_enough() {
    let mut machine =
        Machine::new(Policy { max_failures: Rate { times: 100, within: Duration::from_secs(60) }, ..policy() });
    let now = Moment::ZERO;
    drop(machine.on(Event::Taken, now, 1.0));
    let mut pauses = Vec::new();
    for (number, is_sustained) in (1..).zip([false, false, false, true, false]) {
        let actions = machine.on(Event::Runs(Generation(number)), now, 1.0);
        assert!(actions.contains(&Action::Arm(Timer::Sustained, Duration::from_secs(30))), "{actions:?}");
        if is_sustained {
            drop(machine.on(Event::Fired(Timer::Sustained), now, 1.0));
        }
        let actions = machine.on(Event::Emptied(Generation(number), cause("exited")), now, 1.0);
        let Some(Action::Arm(Timer::Backoff, pause)) = actions.last() else { panic!("{actions:?}") };
        pauses.push(pause.as_millis());
        drop(machine.on(Event::Fired(Timer::Backoff), now, 1.0));
    }
    assert_eq!(pauses, [250, 500, 1000, 250, 500]);
}

#[test]
fn failures_that_are_far_apart_do_not_trip() {
    let mut machine = Machine::new(policy());
    drop(machine.on(Event::Taken, Moment::ZERO, 0.0));
    for number in 1..50 {
        let now = Moment::from_secs(31 * number);
        drop(machine.on(Event::Emptied(Generation(number), cause("exited")), now, 0.0));
        assert!(matches!(machine.state(), State::BackingOff { .. }), "{number}");
        drop(machine.on(Event::Fired(Timer::Backoff), now, 0.0));
    }
}

#[test]
fn without_respawn_the_first_end_is_the_last() {
    let mut machine = Machine::new(Policy { respawn: false, ..policy() });
    drop(machine.on(Event::Taken, Moment::ZERO, 0.0));
    drop(machine.on(Event::Died(Generation(1), cause("exited")), Moment::ZERO, 0.0));
    drop(machine.on(Event::Emptied(Generation(1), cause("exited")), Moment::ZERO, 0.0));
    assert_eq!(*machine.state(), State::Ended);
}

#[test]
fn on_demand_starts_with_the_first_demand() {
    let mut machine = Machine::new(Policy { on_demand: true, ..policy() });
    assert_eq!(machine.on(Event::Taken, Moment::ZERO, 0.0), []);
    assert!(machine.on(Event::Demanded, Moment::ZERO, 0.0).contains(&Action::Start(Generation(1))));
}

/// A world around the machine that remembers what is alive, who holds, and which timers are armed.
struct World {
    machine: Machine,
    alive: Option<Generation>,
    holders: usize,
    armed: Vec<Timer>,
    now: Moment,
    stopped: bool,
    starts: Vec<Moment>,
    /// A call is in flight and was not cut off.
    in_flight: bool,
}

impl World {
    fn next_event(&self, dice: &mut Random) -> Event {
        let generation = match dice.below(10) {
            0 => Generation(self.machine.generation().0.saturating_sub(1)),
            _ => self.machine.generation(),
        };
        match dice.below(16) {
            0 | 1 if self.holders < 3 => Event::Taken,
            2 if self.holders > 0 => Event::Released,
            3..=5 => Event::Demanded,
            6 => Event::Answered(generation),
            7 => Event::Busy,
            8 => Event::Quiet,
            // Only what lives dies; but news of the dead may come late.
            9 if self.alive == Some(generation) => Event::Died(generation, cause("died")),
            10 | 11 if self.alive == Some(generation) => Event::Emptied(generation, cause("died")),
            12 => Event::OverMemory(generation),
            13 if dice.below(4) == 0 => Event::FarOverMemory(generation),
            14 if dice.below(200) == 0 => Event::Stop,
            _ if !self.armed.is_empty() => Event::Fired(self.armed[dice.index(self.armed.len())]),
            _ => Event::Demanded,
        }
    }

    fn step(&mut self, dice: &mut Random) {
        self.now += Duration::from_millis(dice.below(3000));
        let event = self.next_event(dice);
        let before = self.machine.state().clone();
        match &event {
            Event::Taken => self.holders += 1,
            Event::Released => self.holders -= 1,
            Event::Stop => self.stopped = true,
            Event::Emptied(generation, _) if self.alive == Some(*generation) => self.alive = None,
            Event::Fired(timer) => self.armed.retain(|armed| armed != timer),
            Event::Busy => self.in_flight = self.alive.is_some(),
            Event::Quiet => self.in_flight = false,
            _ => {}
        }
        let jitter = dice.below(1000) as f64 / 999.0;
        let actions = self.machine.on(event.clone(), self.now, jitter);
        rules_hold(&before, &event, self.holders, &self.machine, &actions);
        for action in actions {
            match action {
                Action::Start(generation) => {
                    assert_eq!(self.alive, None, "two at a time");
                    assert!(self.holders > 0 && !self.stopped);
                    self.alive = Some(generation);
                    self.starts.push(self.now);
                }
                Action::TearDown(generation, _) => assert_eq!(self.alive, Some(generation)),
                Action::CutOff(_) => self.in_flight = false,
                Action::Refuse(_) => {}
                Action::Arm(timer, after) => {
                    if timer == Timer::Backoff {
                        let bounds = Duration::from_millis(125)..=Duration::from_secs(30);
                        // None, once, after a child that served.
                        let is_first = self.machine.was_ready && self.machine.failures.len() == 1;
                        assert!(bounds.contains(&after) || after.is_zero() && is_first, "{after:?}");
                    }
                    self.armed.retain(|armed| *armed != timer);
                    self.armed.push(timer);
                }
                Action::Disarm(timer) => self.armed.retain(|armed| *armed != timer),
            }
        }
        assert_eq!(self.alive, self.machine.state().live(), "after {event:?}");
        assert!(self.holders == self.machine.holders() || *self.machine.state() == State::Ended);
        if self.alive.is_none() {
            assert!(!self.in_flight, "something waits for a child that is gone, after {event:?}");
        }
    }
}

#[test]
fn no_life_however_long_and_strange_breaks_a_rule() {
    for seed in 0..3000 {
        let mut dice = Random::new(seed);
        let policy = Policy { on_demand: seed % 3 == 0, respawn: seed % 5 != 0, ..policy() };
        let mut world = World {
            machine: Machine::new(policy),
            alive: None,
            holders: 0,
            armed: Vec::new(),
            now: Moment::ZERO,
            stopped: false,
            starts: Vec::new(),
            in_flight: false,
        };
        for _ in 0..400 {
            world.step(&mut dice);
        }
    }
}
