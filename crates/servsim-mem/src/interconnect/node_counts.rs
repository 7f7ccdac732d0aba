//! What machines with nodes count: packets and waits of links, requests, and what each pair of nodes did.

use super::by_messages::MessageCounters;
use super::coherence::RequestCounters;
use super::migration::MigrationCounters;

servsim_core::counters! {
    /// What one node had to do with another, or with itself.
    pub struct PairCounters {
        memory_reads: u64 = "memory_reads" [], "lines", Parts, [],
            "Lines that processors of a node fetched from the memory of another, or of its own";
        cache_reads: u64 = "cache_reads" [], "lines", Parts, [],
            "Lines that processors of a node fetched from the caches of another, or of its own";
        write_backs: u64 = "write_backs" [], "lines", Parts, [],
            "Lines that processors of a node wrote back to the memory of another, or of its own";
        read_cycles: u64 = "read_cycles" [], "cycles", Parts, [],
            "Cycles from the grants of these fetches to their data";
    }
}

servsim_core::counters! {
    /// What the links between nodes carried.
    pub struct LinkCounters {
        request_packets: u64 = "nodes.request_packets" [], "packets", Parts, [summary],
            "Packets without a line that links between nodes carried, each link for itself";
        data_packets: u64 = "nodes.data_packets" [], "packets", Parts, [summary],
            "Packets with a line that links between nodes carried, each link for itself";
        waits: u64 = "nodes.link_wait_cycles" [], "cycles", Parts, [summary],
            "Cycles that packets waited for links between nodes";
        memory_waits: u64 = "nodes.memory_wait_cycles" [], "cycles", Parts, [summary],
            "Cycles that fetches waited for the memory of a node";
        without_room: u64 = "nodes.pages_without_room" [], "pages", Parts, [summary most],
            "Pages since the beginning of the run that no node's memory had room for";
    }
}

/// What the nodes counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCounts {
    /// Of all links together.
    pub links: LinkCounters,
    /// Of requests.
    pub requests: RequestCounters,
    /// Of messages, where nodes keep coherent by them.
    pub messages: Option<MessageCounters>,
    /// Of pages that move, where they do.
    pub migration: Option<MigrationCounters>,
    /// By the asking node and the node asked, rows of as many as there are nodes.
    pub pairs: Vec<PairCounters>,
}

impl NodeCounts {
    /// Share of the lines fetched from memory that came from another node's; 0 without any.
    pub fn remote_share(&self) -> f64 {
        let nodes = self.pairs.len().isqrt();
        let reads =
            |pairs: &mut dyn Iterator<Item = &PairCounters>| pairs.map(|pair| pair.memory_reads).sum::<u64>();
        let local = reads(&mut self.pairs.iter().step_by(nodes + 1));
        let all = reads(&mut self.pairs.iter());
        (all - local) as f64 / all.max(1) as f64
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        self.pairs.iter_mut().zip(&earlier.pairs).for_each(|(pair, before)| *pair = pair.since(before));
        let (links, requests) = (self.links.since(&earlier.links), self.requests.since(&earlier.requests));
        let messages = self.messages.zip(earlier.messages).map(|(now, before)| now.since(&before));
        let migration = self.migration.zip(earlier.migration).map(|(now, before)| now.since(&before));
        Self { links, requests, messages, migration, ..self }
    }
}
