//! What address translation counted: plain integers, split by the mode of the reference.

servsim_core::counters! {
    /// What translation counted; the index is the mode of the reference, 0 user, 1 kernel.
    pub struct TlbCounters {
        fetch_hits: [u64; 2] = "tlb.fetch_hits" [], "look-ups", Modes, [],
            "Look-ups of instruction pages that the first level answered";
        fetch_misses: [u64; 2] = "tlb.fetch_misses" [], "look-ups", Modes, [],
            "Look-ups of instruction pages that the first level did not answer";
        data_hits: [u64; 2] = "tlb.data_hits" [], "look-ups", Modes, [],
            "Look-ups of data pages that the first level answered";
        data_misses: [u64; 2] = "tlb.data_misses" [], "look-ups", Modes, [],
            "Look-ups of data pages that the first level did not answer";
        second_hits: [u64; 2] = "tlb.second_hits" [], "look-ups", Modes, [],
            "Misses of the first translation level that the second level answered";
        walks: [u64; 2] = "tlb.walks" [], "walks", Modes, [summary],
            "Page walks";
        walk_references: [u64; 2] = "tlb.walk_references" [], "references", Modes, [summary],
            "References of page walks to table entries";
        walk_misses: [u64; 2] = "tlb.walk_misses" [], "misses", Modes, [],
            "References of page walks that were not in the processor's caches";
        flushes: [u64; 2] = "tlb.flushes" [], "flushes", Modes, [],
            "Switches of address space that emptied the translation buffers; all in kernel mode";
    }
}

impl TlbCounters {
    /// Look-ups that the first level did not answer.
    pub fn misses(&self) -> u64 {
        self.fetch_misses.iter().chain(&self.data_misses).sum()
    }
}
