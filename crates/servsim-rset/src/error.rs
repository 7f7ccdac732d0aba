//! What can go wrong, as one sentence with its remedy.

use crate::ids::{Nodes, Processors};

/// Why a set, a binding or an allocation is not possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RsetError {
    /// A list or file of the kernel that is not what it should be.
    #[error("{text:?} is no {what}")]
    Unreadable {
        /// What was expected.
        what: String,
        /// What stood there.
        text: String,
    },
    /// A file of the kernel that cannot be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Something that this machine does not have, or this process may not use.
    #[error("the set holds {what}, which this process may not use; it may use processors {processors} and the memory of nodes {nodes}")]
    Outside {
        /// The processors and nodes in question.
        what: String,
        /// Those allowed.
        processors: Processors,
        /// Those allowed.
        nodes: Nodes,
    },
    /// A child that is larger than its parent.
    #[error("a child must lie inside its parent: {what} is not in it")]
    OutsideParent {
        /// The processors and nodes in question.
        what: String,
    },
    /// A set without processors was asked to run something.
    #[error("the set has no processor to run on")]
    NoProcessor,
    /// A set without memory was asked for some.
    #[error("the set has no memory: give it a node that has some ({with_memory} have)")]
    NoMemory {
        /// Nodes of the machine with memory.
        with_memory: Nodes,
    },
    /// Remote memory where there is only one place.
    #[error("remote memory needs a node of the set other than node {own}, where this thread runs; the set has none")]
    NothingRemote {
        /// Where the thread runs.
        own: u32,
    },
    /// Processors that are in several nodes at once, as with the kernel's emulated nodes.
    #[error("processors are in several nodes at once (emulated nodes?): what depends on a thread's own node cannot be said here; use striped memory or nodes by number")]
    Overlapping,
    /// An allocation of nothing, or of more than an address space.
    #[error("cannot allocate {bytes} bytes")]
    Size {
        /// Bytes asked for.
        bytes: usize,
    },
    /// Memory in one piece that this host does not have.
    #[error("{bytes} bytes cannot lie in one piece of physical memory: {why}")]
    Contiguous {
        /// Bytes asked for.
        bytes: usize,
        /// Why, with the remedy where there is one.
        why: String,
    },
    /// A kernel that keeps no groups of processors and nodes.
    #[error("no hierarchy of control groups (cgroup v2) on this machine governs processors and nodes: boot with cgroup_no_v1=all, or as your distribution says")]
    NoPartitions,
    /// A partition that cannot be made or changed so.
    #[error("partition {name}: {why}")]
    Partition {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// A step towards partitions that the kernel does not take.
    #[error("cannot {step}: {source}; `servsim rset partition undo` takes back what was done")]
    Step {
        /// What was to be done.
        step: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A process or thread that is not there.
    #[error("there is no process or thread {id}")]
    NoProcess {
        /// Its number.
        id: i32,
    },
    /// A call that the kernel, a container's filter or a missing privilege refuses.
    #[error("the kernel refuses {call}: {source}; {remedy}")]
    Refused {
        /// The call, with what it was to do.
        call: String,
        /// The kernel's reason.
        source: std::io::Error,
        /// What helps.
        remedy: &'static str,
    },
}

impl RsetError {
    /// An error of a system call, with the remedy that fits its reason.
    pub(crate) fn refused(call: impl Into<String>, source: std::io::Error) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                "a container's filter or a missing privilege forbids it: allow the call, or run as the owner of the process"
            }
            Some(libc::ENOSYS) => "this kernel is built without it",
            Some(libc::ENOMEM) => {
                "memory, or the number of mappings (sysctl vm.max_map_count), is at its limit: ask for less or for a larger stride"
            }
            Some(libc::EINVAL) => "the set is not within what the process's cpuset allows now",
            Some(libc::EIO) => "pages could not be moved: some are in use by the kernel or by others",
            _ => "see the reason given",
        };
        Self::Refused { call: call.into(), source, remedy }
    }
}
