//! Prefetchers of a processor: which lines are fetched before they are asked for. One file a policy, one
//! line each in [`POLICIES`].
//!
//! A prefetch is a bus read like any other, for a line that the processor's caches do not have, on the
//! page of the reference that led to it. What becomes of it the coherent system counts
//! (`system/prefetching.rs`).

mod next_line;
mod stride;

use servsim_core::{LineAddr, PAGE_SHIFT};

/// What a processor prefetches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefetchSpec {
    /// Policy, by name.
    pub policy: String,
    /// Lines or strides ahead.
    pub degree: u64,
    /// Level that takes the lines: 1, or 2 for the first private one outside.
    pub level: usize,
    /// Entries of a policy's table.
    pub entries: usize,
}

/// Why a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A reference missed.
    Miss,
    /// A reference was the first to use a prefetched copy.
    FirstUse,
}

/// A data reference.
#[derive(Debug, Clone, Copy)]
pub struct Reference {
    /// The instruction that makes it, by any number of its own.
    pub instruction: u64,
    /// Physical address of its first byte.
    pub address: u64,
}

/// Addresses to prefetch, as a policy wishes: lines that are already there and other pages are left out
/// by the caller.
pub trait Policy: std::fmt::Debug + Send {
    /// A miss, or the first use of a prefetched copy, of line `line`; appends lines.
    fn triggered(&mut self, line: LineAddr, lines: &mut Vec<LineAddr>) {
        let _ = (line, lines);
    }

    /// A data reference was made; appends addresses.
    fn referenced(&mut self, reference: &Reference, addresses: &mut Vec<u64>) {
        let _ = (reference, addresses);
    }
}

/// Makes a policy.
type Make = fn(&PrefetchSpec) -> Box<dyn Policy>;

/// Every policy, by the name that descriptions use.
pub const POLICIES: &[(&str, Make)] = &[("next-line", next_line::make), ("stride", stride::make)];

/// The prefetcher of one processor.
#[derive(Debug)]
pub struct Prefetcher {
    policy: Box<dyn Policy>,
    /// log2 of the line size.
    shift: u32,
    /// Address behind the instruction fetched last, which tells the instruction.
    behind: Option<u64>,
    /// What the policy wished last.
    lines: Vec<LineAddr>,
    addresses: Vec<u64>,
}

impl Prefetcher {
    /// Of a machine with lines of `1 << shift` bytes.
    ///
    /// # Panics
    /// For a policy that is not registered: descriptions are checked before.
    pub fn new(spec: &PrefetchSpec, shift: u32) -> Self {
        let make = POLICIES.iter().find(|(name, _)| *name == spec.policy);
        let (_, make) = make.unwrap_or_else(|| panic!("prefetcher `{}` is not registered", spec.policy));
        Self { policy: make(spec), shift, behind: None, lines: Vec::new(), addresses: Vec::new() }
    }

    /// An instruction of `size` bytes at `address` was fetched.
    #[inline]
    pub fn fetched(&mut self, address: u64, size: u64) {
        self.behind = Some(address + size);
    }

    /// The lines to prefetch after a miss on `line` or the first use of a prefetched copy.
    pub fn triggered(&mut self, line: LineAddr) -> &[LineAddr] {
        self.lines.clear();
        self.policy.triggered(line, &mut self.lines);
        let lines_of_page = PAGE_SHIFT - self.shift;
        self.lines.retain(|other| other.0 >> lines_of_page == line.0 >> lines_of_page);
        &self.lines
    }

    /// The lines to prefetch after a data reference to `address`. In a trace without fetches the page of
    /// the data stands for the instruction.
    pub fn referenced(&mut self, address: u64) -> &[LineAddr] {
        self.addresses.clear();
        let instruction = self.behind.unwrap_or(address >> PAGE_SHIFT);
        self.policy.referenced(&Reference { instruction, address }, &mut self.addresses);
        let own = LineAddr::of(address, self.shift);
        let on_page = self.addresses.iter().filter(|&&other| other >> PAGE_SHIFT == address >> PAGE_SHIFT);
        self.lines.clear();
        self.lines.extend(on_page.map(|&other| LineAddr::of(other, self.shift)));
        self.lines.dedup();
        self.lines.retain(|&line| line != own);
        &self.lines
    }
}
