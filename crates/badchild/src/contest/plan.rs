//! The plan of a round. It depends on the seed alone.

use std::fmt;
use std::time::Duration;

use super::cast::Role;
use crate::User;
use crate::random::Random;

/// The number of contenders in a round.
pub const CONTENDERS: usize = 20;

/// One round.
#[derive(Debug)]
pub struct Plan {
    /// The same seed gives the same plan.
    pub seed: u64,
    /// The user as whom its processes run.
    pub user: User,
    pub(super) contenders: Vec<Contender>,
    pub(super) strokes: Vec<Stroke>,
    pub(super) ending: Ending,
    pub(super) is_shared: bool,
}

/// A contender for the slot, with a host of its own.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) if_taken: &'static str,
    pub(super) options: Vec<String>,
    /// With `--ready-file` for the file that `badchild claim` makes.
    pub(super) is_ready_by_file: bool,
    /// The options of `badchild claim`, and its name.
    pub(super) claim: Vec<String>,
    pub(super) manner: Vec<String>,
    pub(super) stdin: &'static str,
    /// Its child speaks JSON-RPC, and its host says hello.
    pub(super) talks: bool,
    pub(super) arrives: Duration,
    pub(super) leaves: (Duration, Leave),
}

/// How a host ends, or only closes the input of its child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leave {
    Close,
    Exit,
    Kill,
}

/// A signal to a process, at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stroke {
    pub(super) at: Duration,
    pub(super) role: Role,
    pub(super) deed: Deed,
    /// Selects one of the processes in this role.
    pub(super) choice: u64,
}

/// The kind of a stroke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    Kill,
    Term,
    /// Stops the process for a while.
    Pause(Duration),
    /// Stops the process. It stays stopped until the slot has been obtained in spite of it.
    Freeze,
    /// Kills all of nostray's processes around one child at once, so that none is left to end its tree.
    KillAll,
}

impl Deed {
    pub(super) const NAMES: [&'static str; 5] = ["kill", "term", "pause", "freeze", "all at once"];

    pub(super) fn number(self) -> usize {
        match self {
            Self::Kill => 0,
            Self::Term => 1,
            Self::Pause(_) => 2,
            Self::Freeze => 3,
            Self::KillAll => 4,
        }
    }
}

/// How the slot is obtained in the end, when no other contender comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The stopped processes are continued, and a last contender waits for the slot.
    Wait,
    /// The stopped processes stay stopped. One contender replaces the holder, and then another one waits for the slot.
    ReplaceThenWait,
}

impl Plan {
    /// The plan that belongs to this seed.
    #[must_use]
    pub fn new(seed: u64, users: &[User]) -> Self {
        let mut random = Random::new(seed);
        let random = &mut random;
        let is_shared = random.percent(20);
        // All at once, in a crowd, or one after the other.
        let window = random.pick(&[1, 100, 500]);
        let contenders = (0..CONTENDERS).map(|number| Contender::new(number, random, is_shared, window)).collect();
        let count = 4 + random.below(16);
        let mut strokes: Vec<Stroke> = (0..count).map(|_| Stroke::new(random, is_shared)).collect();
        // The next claimant or sweeper has to end the remains, and may be struck meanwhile.
        let next: Vec<Stroke> = strokes.iter().filter_map(|stroke| stroke.next(random)).collect();
        strokes.extend(next);
        let ending = random.pick(&[Ending::Wait, Ending::ReplaceThenWait]);
        Self { seed, user: random.pick(users), contenders, strokes, ending, is_shared }
    }
}

impl Contender {
    fn new(number: usize, random: &mut Random, is_shared: bool, window: u64) -> Self {
        let if_taken = match random.below(100) {
            _ if is_shared && random.percent(40) => "share",
            0..45 => "wait",
            45..60 => "fail",
            _ => "replace",
        };
        let talks = if_taken == "share" || random.percent(35);
        let time = |random: &mut Random, from: &[u64]| format!("{}ms", random.pick(from));
        let mut options = vec!["--if-taken".to_owned(), if_taken.to_owned()];
        options.extend(["--eof-grace".to_owned(), time(random, &[0, 5, 20, 60])]);
        options.extend(["--term-grace".to_owned(), time(random, &[0, 10, 40, 80])]);
        if if_taken != "fail" && random.percent(15) {
            options.extend(["--wait-timeout".to_owned(), time(random, &[50, 200, 1000])]);
        }
        if if_taken == "replace" && random.percent(60) {
            options.extend(["--max-handovers", "1000/1m"].map(str::to_owned));
        }
        if talks {
            options.extend(["--backoff", "1ms..20ms", "--max-failures", "1000/1s"].map(str::to_owned));
            if random.percent(15) {
                options.extend(["--hibernate".to_owned(), time(random, &[20, 100])]);
            }
        }
        let kind = random.pick(&["plain", "setsid", "daemon", "term-ignoring"]);
        let (mut claim, mut is_ready_by_file) = (Vec::new(), false);
        let mut manner: Vec<String>;
        if talks {
            if random.percent(60) {
                claim.extend(["--with", kind].map(str::to_owned));
            }
            manner = vec!["server".to_owned()];
            if random.percent(30) {
                manner.extend(["--start-delay".to_owned(), random.pick(&[5u64, 30, 120]).to_string()]);
            }
            if random.percent(30) {
                manner.push("--ignore-eof".to_owned());
            }
        } else {
            let words: &[&str] = match random.below(10) {
                0..3 => &["tree", "cooperative", kind],
                3..6 => &["tree", "stubborn", kind],
                6 => &["slow", "30", "/dev/null"],
                7 => &["leave", kind, "3"],
                8 => &["many", "6", "stubborn"],
                _ => &["exit", "0"],
            };
            manner = words.iter().map(|word| (*word).to_owned()).collect();
            if random.percent(30) {
                claim.extend(["--ready".to_owned(), random.pick(&[0u64, 30, 150]).to_string()]);
                is_ready_by_file = random.percent(50);
                if !is_ready_by_file {
                    options.extend(["--ready-line", "^ready$"].map(str::to_owned));
                }
            }
        }
        // Sharing contenders have one child, so they give it one name.
        claim.push(if if_taken == "share" { "shared".to_owned() } else { format!("c{number}") });
        let arrives = Duration::from_micros(random.below(window * 1000));
        let stay = random.pick(&[30, 150, 700, 1200]);
        let leave = random.pick(&[Leave::Close, Leave::Exit, Leave::Kill]);
        let leaves = (arrives + Duration::from_micros(random.below(stay * 1000)), leave);
        let stdin = random.pick(&["pipe", "pipe", "socket"]);
        Self { if_taken, options, is_ready_by_file, claim, manner, stdin, talks, arrives, leaves }
    }
}

impl Stroke {
    fn new(random: &mut Random, is_shared: bool) -> Self {
        let keepers = [Role::Broker, Role::Steward];
        let role = match random.below(100) {
            _ if is_shared && random.percent(25) => random.pick(&keepers),
            0..8 => Role::Host,
            8..22 => Role::Waiting,
            22..32 => Role::Claimant,
            32..45 => Role::Front,
            45..55 => Role::Managed,
            55..68 => Role::Spare,
            68..83 => Role::Guard,
            83..95 => Role::Child,
            _ => Role::Sweeper,
        };
        let pause = Duration::from_millis(random.pick(&[1, 10, 50, 200]));
        let deed = match random.below(100) {
            0..45 => Deed::Kill,
            45..57 => Deed::Term,
            57..72 => Deed::Pause(pause),
            72..85 => Deed::Freeze,
            _ => Deed::KillAll,
        };
        let deed = match (role, deed) {
            // These roles have no guards, so `KillAll` equals `Kill`. Sessions wait for a stopped broker, so `Freeze` becomes `Pause`.
            (Role::Host | Role::Waiting | Role::Claimant | Role::Broker | Role::Sweeper, Deed::KillAll) => Deed::Kill,
            (Role::Broker, Deed::Freeze) => Deed::Pause(pause),
            (_, deed) => deed,
        };
        let window = random.pick(&[200, 600, 1200]);
        Self { at: Duration::from_micros(random.below(window * 1000)), role, deed, choice: random.below(u64::MAX) }
    }

    /// A stroke that follows `KillAll`, at the process that ends the remaining tree.
    fn next(&self, random: &mut Random) -> Option<Self> {
        let follows = self.deed == Deed::KillAll && random.percent(60);
        let role = random.pick(&[Role::Claimant, Role::Claimant, Role::Sweeper]);
        let pause = Deed::Pause(Duration::from_millis(20));
        let deed = random.pick(&[Deed::Kill, Deed::Term, pause, Deed::Freeze]);
        let at = self.at + Duration::from_micros(random.below(10_000));
        follows.then_some(Self { at, role, deed, choice: self.choice })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |policy| self.contenders.iter().filter(|one| one.if_taken == policy).count();
        let shared = if self.is_shared { format!(", {} share", count("share")) } else { String::new() };
        write!(
            f,
            "user {:?}, {} wait, {} fail, {} replace{shared}, {} strokes, {:?}",
            self.user,
            count("wait"),
            count("fail"),
            count("replace"),
            self.strokes.len(),
            self.ending
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_path_role_and_deed_comes_up() {
        let (mut policies, mut paths, mut dealt) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..300 {
            let plan = Plan::new(seed, &[User::Current]);
            assert_eq!(plan.contenders.len(), CONTENDERS);
            policies.extend(plan.contenders.iter().map(|one| one.if_taken));
            paths.extend(plan.contenders.iter().map(|one| one.talks));
            dealt.extend(plan.strokes.iter().map(|stroke| (stroke.role as usize, stroke.deed.number())));
        }
        assert!(["wait", "fail", "replace", "share"].iter().all(|policy| policies.contains(policy)));
        assert!([true, false].iter().all(|path| paths.contains(path)));
        for role in Role::ALL {
            assert!(dealt.contains(&(role as usize, 0)), "no stroke kills a {role:?}");
        }
        for deed in 0..Deed::NAMES.len() {
            assert!(dealt.contains(&(Role::Guard as usize, deed)));
        }
    }
}
