//! The memory system: cache arrays, coherence protocols as tables with their model checker, miss
//! and transaction classification, and the shared bus.
//!
//! Reads no file, clock or environment; both engines drive the same [`CoherentSystem`].

pub mod protocol;
