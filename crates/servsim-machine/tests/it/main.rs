//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod accounting;
mod captured_oracle;
mod classify;
mod cores;
mod differential;
mod fabric;
mod levels;
mod locks;
mod many_processors;
mod mapping;
mod multi_config;
mod mutated_traces;
mod prefetch;
mod registries;
mod selected_traces;
mod sharded;
mod simulate;
mod storage;
mod support;
mod switches;
mod timing;
mod translation;
mod users;
mod walks;
mod warm;
mod write_buffer;
