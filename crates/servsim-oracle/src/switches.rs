//! Which task runs where, and which misses that explains: told from the whole history.

use crate::{Entry, Oracle, Touch};
use std::collections::BTreeMap;

/// A task on its way through the processors.
#[derive(Debug, Clone, Default)]
pub struct Journey {
    /// Every quantum so far: its number and its processor.
    pub quanta: Vec<(usize, usize)>,
    /// Blocks used, each with the number of the quantum at the time.
    pub used: BTreeMap<u64, Vec<usize>>,
}

/// How a cache lost a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    Fill(u32),
    Snoop,
    Flush,
}

impl Oracle {
    /// A task that was not the last at `cpu`, or has been elsewhere since, begins a quantum; handlers do not.
    pub(crate) fn switch(&mut self, cpu: usize, task: u32) {
        let last_quantum = self.journeys.get(&task).and_then(|journey| journey.quanta.last());
        let goes_on = self.current[cpu] == Some(task) && last_quantum.is_some_and(|&(_, at)| at == cpu);
        if self.handlers.contains(&task) || goes_on {
            return;
        }
        if let Some(old) = self.current[cpu].filter(|&old| self.flush && old != task) {
            self.flush_private(cpu, old);
        }
        self.quanta += 1;
        self.current[cpu] = Some(task);
        self.journeys.entry(task).or_default().quanta.push((self.quanta, cpu));
    }

    fn flush_private(&mut self, cpu: usize, task: u32) {
        let entries: Vec<Entry> = self.caches[cpu].iter().flatten().cloned().collect();
        for entry in entries {
            let key = (cpu, entry.block);
            if entry.state == "I" || !self.private_copies[&key] || self.last_user[&key] != task {
                continue;
            }
            self.count("flushed_copies", 1);
            if self.protocol.writes_back(entry.state) {
                self.count("bus.write_back", 1);
            }
            self.lose(cpu, entry.block, Lost::Flush);
            self.set(cpu, entry.block).retain(|e| e.block != entry.block);
        }
    }

    /// Why a miss is a context-switch miss, told from the whole history.
    pub(crate) fn switch_cause(&self, a: &Touch) -> Option<&'static str> {
        let journey = self.journeys.get(&a.task)?;
        let &(now, place) = journey.quanta.last()?;
        let earlier = journey.used.get(&a.block)?.iter().any(|&quantum| quantum < now);
        if place != a.processor || !earlier {
            return None;
        }
        let last_loss = self.losses.get(&(a.cpu, a.block)).and_then(|losses| losses.last());
        match last_loss {
            Some((Lost::Fill(other), _)) if *other != a.task && self.journeys.contains_key(other) => {
                return Some("evicted")
            }
            Some((Lost::Flush, _)) => return Some("flushed"),
            _ => {}
        }
        // The stay here: back to the last quantum elsewhere, if there was one.
        let elsewhere = journey.quanta.iter().rposition(|&(_, cpu)| cpu != a.processor)?;
        let arrived = journey.quanta[elsewhere + 1].0;
        last_loss.is_none_or(|&(_, at)| at < arrived).then_some("migrated")
    }
}
