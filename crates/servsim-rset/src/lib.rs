//! Resource Sets on Linux: processors *and* memory as one object.
//!
//! A [`ResourceSet`] says where something may run and where its memory may lie (Brock et al. 2001, section
//! 4). Sets have an algebra ([`ResourceSet::union`], [`ResourceSet::intersection`], ...), children stay inside
//! their parents, and everything is checked against what the machine has and this process may use.
//!
//! ```
//! use servsim_rset::{Block, MemoryPolicy, Topology};
//!
//! let machine = Topology::discover()?;
//! let all = machine.global()?;
//! let block = Block::allocate(&machine, &all, MemoryPolicy::Local, 1 << 20)?;
//! assert!(block.verify()?.is_as_wished());
//! # Ok::<(), servsim_rset::RsetError>(())
//! ```
//!
//! The kernel is asked by system calls alone, so nothing needs to be installed, and a call that is forbidden is
//! an error with its name rather than a policy that silently does nothing.

mod block;
mod error;
mod ids;
mod order;
pub mod partitions;
mod physical;
mod policy;
mod process;
pub mod raw;
mod set;
mod system;
mod team;
mod topology;

pub use block::{Block, Found};
pub use error::RsetError;
pub use ids::{Ids, Nodes, Processors};
pub use order::ThreadOrder;
pub use policy::{MemoryPolicy, Wish};
pub use process::{bind_process, bind_thread, enter, migrate_process, processors_of, Bound};
pub use set::ResourceSet;
pub use team::{Member, Team};
pub use topology::{Node, Topology};
