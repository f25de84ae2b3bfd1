//! What is to happen in a round, decided beforehand by its seed alone.

use std::fmt;
use std::time::Duration;

use badchild::User;
use badchild::random::Random;

use super::chain::Role;

/// When the first kill is to happen: so long after this.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Moment {
    /// The host was started.
    Spawned(Duration),
    /// The first of the pen's own that is to be killed was first seen: most of a start happens in a millisecond.
    Seen(Duration),
    /// The host has closed the child's stdin, when the tree was complete.
    StdinClosed(Duration),
}

/// A process to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Own(Role),
    Host,
}

/// One round.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) managed: bool,
    pub(crate) user: User,
    pub(crate) manner: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) stdin: &'static str,
    pub(crate) moment: Moment,
    /// The processes to kill, in this order, and how long to wait before each but the first. Never all of the pen's
    /// own.
    pub(crate) kills: Vec<(Duration, Victim)>,
}

impl Plan {
    pub(crate) fn new(seed: u64, users: &[User], managed: bool) -> Self {
        let mut random = Random::new(seed);
        let microseconds = |random: &mut Random, end: u64| Duration::from_micros(random.below(end));
        let manner = random.pick(&["cooperative", "stubborn"]);
        let kind = random.pick(&["plain", "setsid", "daemon", "term-ignoring"]);
        // How long a tear-down takes, with the graces of a race, and a little more.
        let teardown = match (manner, kind) {
            ("stubborn", _) => 115_000,
            (_, "term-ignoring") => 60_000,
            _ => 3_000,
        };
        let moment = match random.below(8) {
            0 | 1 => Moment::Spawned(microseconds(&mut random, 15_000)),
            2 | 3 => {
                let longest = random.pick(&[1, 100, 500, 3_000]);
                Moment::Seen(microseconds(&mut random, longest))
            }
            4 => Moment::StdinClosed(microseconds(&mut random, 150_000)),
            _ => Moment::StdinClosed(microseconds(&mut random, teardown)),
        };
        let mut roles = Role::on_path(managed);
        for at in (1..roles.len()).rev() {
            roles.swap(at, usize::try_from(random.below(at as u64 + 1)).unwrap_or(0));
        }
        roles.pop();
        if random.percent(40) {
            roles.truncate(usize::try_from(random.below(roles.len() as u64 - 1)).unwrap_or(0) + 1);
        }
        let mut victims: Vec<Victim> = roles.into_iter().map(Victim::Own).collect();
        if random.percent(25) {
            let at = usize::try_from(random.below(victims.len() as u64 + 1)).unwrap_or(0);
            victims.insert(at, Victim::Host);
        }
        let kills = victims
            .into_iter()
            .map(|victim| {
                // At once, almost at once, or while another process of the pen is already taking over.
                let longest = random.pick(&[1, 1_000, 20_000, 120_000]);
                (microseconds(&mut random, longest), victim)
            })
            .collect();
        Self {
            seed,
            managed,
            user: random.pick(users),
            manner,
            kind,
            stdin: random.pick(&["pipe", "pipe", "socket"]),
            moment,
            kills,
        }
    }

    /// Who of the pen's own is killed first.
    pub(crate) fn first_of_pen(&self) -> Option<Role> {
        self.kills.iter().find_map(|(_, victim)| match victim {
            Victim::Own(role) => Some(*role),
            Victim::Host => None,
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, manner, kind, stdin, moment, kills, .. } = self;
        write!(f, "{manner} {kind} tree, {stdin}, user {user:?}, {moment:?}, kill")?;
        for (at, (pause, victim)) in kills.iter().enumerate() {
            let name = match victim {
                Victim::Own(role) => format!("{role:?}"),
                Victim::Host => "Host".to_owned(),
            };
            if at == 0 { write!(f, " {name}")? } else { write!(f, ", {pause:?} later {name}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_all_of_the_pens_own_are_killed() {
        for (managed, most) in [(false, 2), (true, 3)] {
            let mut seen = [false; 4];
            for seed in 0..10_000 {
                let plan = Plan::new(seed, &[User::Current], managed);
                let own = plan.kills.iter().filter(|(_, victim)| *victim != Victim::Host).count();
                assert!((1..=most).contains(&own), "seed {seed}: {plan}");
                seen[own] = true;
            }
            assert!(seen[1..=most].iter().all(|seen| *seen));
        }
    }
}
