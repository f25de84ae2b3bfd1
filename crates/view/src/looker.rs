//! Looks at everything, again and again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nostray_registry::{Census, Hosts, Pen, Process, Tally, TrafficReader, TrafficSeen};
use nostray_sys::identity::Identity;
use nostray_sys::proc::{Stat, memory_of, open_files_of, resident_of};
use nostray_sys::process::cpu_time;

use crate::history::{Histories, Rates, Sample};
use crate::listed::Listed;
use crate::meter::Meter;

/// What a process shares with others takes the kernel long to say: a millisecond for a hundred megabytes. A view that refreshes spends at
/// most this on it in one look, and knows the rest from looks before.
const MEMORY_BUDGET: Duration = Duration::from_millis(8);

/// Looks.
#[derive(Debug, Default)]
pub struct Looker {
    census: Census,
    hosts: Hosts,
    meter: Meter,
    readers: HashMap<String, (Process, TrafficReader)>,
    memory: HashMap<Identity, KnownMemory>,
    histories: Histories,
}

/// What is known of the memory of a process.
#[derive(Debug, Clone, Copy)]
struct KnownMemory {
    bytes: u64,
    /// When that was measured; never, if it was only estimated.
    measured: Option<Instant>,
    /// The look that saw the process last.
    seen: Instant,
}

impl Looker {
    /// These, with what they use, measured now and to its end. For a view that looks once, or now and then.
    pub fn thorough(&mut self, pens: Vec<Pen>) -> Vec<Listed> {
        self.hosts = Hosts::default();
        self.look(pens, Pen::tally)
    }

    /// The same for a view that refreshes: cheaper, and without the number of open files. What it says of memory may be some looks old.
    pub fn quick(&mut self) -> Vec<Listed> {
        let pens = self.census.take();
        self.hosts.tidy();
        self.measure_memory(&pens, Instant::now());
        let memory = std::mem::take(&mut self.memory);
        let tally = |pen: &Pen| {
            let known = |stat: &Stat| memory.get(&Identity::from(stat)).map_or(0, |known| known.bytes);
            let time = |stat: &Stat| Duration::from_nanos(cpu_time(stat.pid).unwrap_or(0));
            Tally {
                processes: pen.tree.len(),
                memory: pen.tree.iter().map(known).sum(),
                files: 0,
                cpu: pen.tree.iter().map(time).sum(),
            }
        };
        let children = self.look(pens, tally);
        self.memory = memory;
        children
    }

    /// Measures the processes that have waited longest for it, and estimates those that were never measured.
    fn measure_memory(&mut self, pens: &[Pen], now: Instant) {
        let mut waiting: Vec<(Option<Instant>, Identity)> = Vec::new();
        for stat in pens.iter().flat_map(|pen| &pen.tree) {
            let who = Identity::from(stat);
            let known = self.memory.entry(who).or_insert(KnownMemory { bytes: 0, measured: None, seen: now });
            known.seen = now;
            waiting.push((known.measured, who));
        }
        self.memory.retain(|_, known| known.seen == now);
        waiting.sort_by_key(|(measured, _)| *measured);
        let deadline = now + MEMORY_BUDGET;
        for (_, who) in waiting {
            let Some(known) = self.memory.get_mut(&who) else { continue };
            if Instant::now() < deadline {
                known.bytes = memory_of(who.pid).unwrap_or(known.bytes);
                known.measured = Some(now);
            } else if known.measured.is_none() {
                known.bytes = resident_of(who.pid).unwrap_or(0);
            }
        }
    }

    fn look(&mut self, pens: Vec<Pen>, tally: impl Fn(&Pen) -> Tally) -> Vec<Listed> {
        let now = Instant::now();
        let mut children: Vec<Listed> = Vec::with_capacity(pens.len());
        for pen in pens {
            let mut child = Listed::on_record(pen);
            child.used_by = self.hosts.of(&child.pen);
            child.tally = tally(&child.pen);
            child.cpu_percent = self.meter.percent(&child.pen.tree);
            child.traffic = self.traffic(&child.pen);
            self.histories.add(&child.pen.id, now, child.tally.memory, child.traffic.as_ref());
            children.push(child);
        }
        self.meter.end_look();
        let ids: std::collections::HashSet<&str> = children.iter().map(|child| child.pen.id.as_str()).collect();
        self.readers.retain(|id, _| ids.contains(id.as_str()));
        self.histories.keep(|id| ids.contains(id));
        children
    }

    /// What has passed so far, if it is counted. The counters stay open between looks.
    fn traffic(&mut self, pen: &Pen) -> Option<TrafficSeen> {
        let record = pen.record.as_ref().ok().filter(|_| pen.owner_alive)?;
        let is_same = |(front, _): &(Process, TrafficReader)| *front == record.front;
        if !self.readers.get(&pen.id).is_some_and(is_same) {
            self.readers.insert(pen.id.clone(), (record.front, TrafficReader::of(record)?));
        }
        self.readers.get(&pen.id)?.1.read()
    }

    /// How much passes a minute; `None` after the first look.
    #[must_use]
    pub fn rates(&self, id: &str) -> Option<Rates> {
        self.histories.rates(id)
    }

    /// What the last looks have seen of this child, the oldest first.
    pub fn history(&self, id: &str) -> impl Iterator<Item = &Sample> {
        self.histories.of(id)
    }

    /// What the last quick look knows of the memory of a process.
    #[must_use]
    pub fn memory_of(&self, process: &Stat) -> Option<u64> {
        self.memory.get(&Identity::from(process)).map(|known| known.bytes)
    }

    /// How many files the tree of a child has open.
    #[must_use]
    pub fn open_files(pen: &Pen) -> usize {
        pen.tree.iter().filter_map(|stat| open_files_of(stat.pid)).sum()
    }
}
