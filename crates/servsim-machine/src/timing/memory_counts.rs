//! What the memory system of a run counted.

use super::port::MemoryPort;
use servsim_mem::{
    Counters, GroupCounters, LevelCounters, NodeCounts, PrefetchCounters, RequestCounters, WordMask,
    WriteBufferCounters,
};

/// Counters that only grow, read at one time.
#[derive(Debug, Clone, Default)]
pub struct MemoryCounts {
    /// Of the coherent caches; their references are the engine's to add.
    pub counters: Counters,
    /// Lines touched.
    pub distinct_lines: usize,
    /// Of each level, by name.
    pub levels: Vec<(String, LevelCounters)>,
    /// What became of prefetches.
    pub prefetches: PrefetchCounters,
    /// Cycles that what orders transactions was taken.
    pub order_busy: u64,
    /// What became of write-backs in write buffers.
    pub write_buffers: WriteBufferCounters,
    /// Cycles that each port or link was taken.
    pub paths_busy: Vec<u64>,
    /// What core groups had to do with one another, if there are any.
    pub groups: Option<GroupCounters>,
    /// What nodes had to do with one another, if there are any.
    pub nodes: Option<NodeCounts>,
}

impl<W: WordMask> MemoryPort<W> {
    /// Everything so far.
    pub fn counts(&self) -> MemoryCounts {
        MemoryCounts {
            counters: self.caches.system.total(),
            distinct_lines: self.caches.system.distinct_lines(),
            levels: self.caches.counters(),
            prefetches: self.caches.system.prefetches,
            order_busy: self.interconnect.busy(),
            write_buffers: self.interconnect.write_buffers(),
            paths_busy: self.interconnect.ways_busy().to_vec(),
            groups: self.caches.group_counts(),
            nodes: self.interconnect.node_counts(),
        }
    }

    /// Everything, at the end of the run.
    pub fn final_counts(&mut self) -> MemoryCounts {
        self.caches.system.finish();
        self.counts()
    }

    /// What the coherent caches counted so far.
    pub fn totals(&self) -> Counters {
        self.caches.system.total()
    }

    /// What became of requests between nodes so far.
    pub fn requests(&self) -> RequestCounters {
        self.interconnect.requests()
    }

    /// Cycles that fetches waited for banks so far.
    pub fn bank_wait(&self) -> u64 {
        self.interconnect.bank_wait()
    }

    /// Cycles that what orders transactions was taken so far.
    pub fn order_busy(&self) -> u64 {
        self.interconnect.busy()
    }
}

impl MemoryCounts {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for ((_, level), (_, before)) in self.levels.iter_mut().zip(&earlier.levels) {
            *level = level.since(before);
        }
        self.paths_busy.iter_mut().zip(&earlier.paths_busy).for_each(|(path, before)| *path -= before);
        let nodes = self.nodes.zip(earlier.nodes.as_ref()).map(|(now, before)| now.since(before));
        let groups = self.groups.zip(earlier.groups).map(|(now, before)| now.since(&before));
        Self {
            groups,
            nodes,
            counters: self.counters.since(&earlier.counters),
            distinct_lines: self.distinct_lines - earlier.distinct_lines,
            prefetches: self.prefetches.since(&earlier.prefetches),
            order_busy: self.order_busy - earlier.order_busy,
            write_buffers: self.write_buffers.since(&earlier.write_buffers),
            ..self
        }
    }
}
