//! Memory that stays where it is: pinned, and physically contiguous (Brock et al. 2001, section 4).
//!
//! Contiguous memory is one page of the machine, huge where the bytes need it, and therefore only as large as a page
//! can be, and only there when the host keeps such pages in reserve. The kernel does not swap or split them.

use crate::block::{Block, Found};
use crate::error::RsetError;
use crate::policy::{MemoryPolicy, Wish};
use crate::raw;
use crate::set::ResourceSet;
use crate::topology::Topology;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Where the kernel names the sizes of its huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";
/// An entry of `pagemap`: the page is in memory, and the bits that hold its frame (Documentation/admin-guide/mm).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

impl Block {
    /// Allocates at least `bytes` in one piece of physical memory, in `set` by `policy`.
    ///
    /// # Errors
    /// [`RsetError::Contiguous`] for more than a page can hold, for stripes, and where the host keeps no such page
    /// free; otherwise as [`Block::allocate`].
    pub fn allocate_contiguous(
        machine: &Topology,
        set: &ResourceSet,
        policy: MemoryPolicy,
        bytes: usize,
    ) -> Result<Self, RsetError> {
        let cannot = |why: String| RsetError::Contiguous { bytes, why };
        if matches!(policy, MemoryPolicy::Striped { .. }) {
            return Err(cannot("stripes lie in several nodes".into()));
        }
        let page = raw::page_size();
        if bytes <= page {
            let block = Self::allocate(machine, set, policy, bytes)?;
            // SAFETY: the block is this function's alone until it is returned.
            unsafe { raw::populate(block.as_ptr() as usize, page) };
            return Ok(block);
        }
        let sizes = huge_sizes();
        let Some(size) = sizes.iter().copied().find(|&size| size >= bytes) else {
            let most = sizes.last().copied().unwrap_or(page);
            return Err(cannot(format!("the largest page of this machine has {most} bytes")));
        };
        machine.validate(set)?;
        let wish = policy.wish(machine, set)?;
        let place = match &wish {
            Wish::In(nodes) => format!("of nodes {nodes}"),
            _ => "of this machine".to_owned(),
        };
        let none = |_| {
            cannot(format!(
                "no page of {size} bytes is free in the memory {place}; reserve some with nr_hugepages, \
                 below {HUGE_PAGES} or a node's own in /sys/devices/system/node"
            ))
        };
        let start = raw::map_huge(size, size.trailing_zeros()).map_err(none)?;
        let block = Self::new(start, size / page, bytes, wish);
        block.place()?;
        // SAFETY: the block is this function's alone until it is returned.
        unsafe { raw::try_populate(start, size) }.map_err(none)?;
        Ok(block)
    }

    /// Keeps the block's pages in memory: they exist from now on, by the block's policy, and are never swapped out.
    ///
    /// # Errors
    /// [`RsetError::Refused`], as a rule for the limit of pinned memory (`ulimit -l`).
    pub fn pin(&mut self) -> Result<(), RsetError> {
        raw::lock(self.as_ptr() as usize, self.pages() * raw::page_size()).map_err(|errno| {
            RsetError::Refused {
                call: format!("mlock of {} bytes", self.len()),
                source: std::io::Error::from_raw_os_error(errno),
                remedy: "raise the limit of pinned memory (ulimit -l), or pin less",
            }
        })
    }

    /// Whether the kernel holds every page of the block pinned.
    ///
    /// # Errors
    /// [`RsetError::File`] when it does not tell.
    pub fn is_pinned(&self) -> Result<bool, RsetError> {
        const PATH: &str = "/proc/self/smaps";
        let text =
            fs::read_to_string(PATH).map_err(|source| RsetError::File { path: PATH.into(), source })?;
        let start = self.as_ptr() as usize;
        let end = start + self.pages() * raw::page_size();
        let mut covers = false;
        let mut pinned = 0;
        let mut bytes = 0;
        for line in text.lines() {
            if let Some((from, to)) = mapping(line) {
                covers = from < end && start < to;
                bytes = to.min(end).saturating_sub(from.max(start));
            } else if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| covers) {
                pinned += if flags.split_ascii_whitespace().any(|flag| flag == "lo") { bytes } else { 0 };
            }
        }
        Ok(pinned == end - start)
    }

    /// Whether the block's pages follow one another in physical memory; `None` when this process may not know.
    ///
    /// # Errors
    /// [`RsetError::File`] when the kernel has no such list.
    pub fn is_contiguous(&self) -> Result<Option<bool>, RsetError> {
        const PATH: &str = "/proc/self/pagemap";
        let wrong = |source| RsetError::File { path: PATH.into(), source };
        let first = self.as_ptr() as usize / raw::page_size();
        let mut entries = vec![0u8; self.pages() * 8];
        let file = File::open(PATH).map_err(wrong)?;
        file.read_exact_at(&mut entries, first as u64 * 8).map_err(wrong)?;
        let frames: Vec<u64> = entries
            .chunks_exact(8)
            .map(|entry| entry.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
            .map(|entry| if entry & PRESENT == 0 { 0 } else { entry & FRAME })
            .collect();
        if frames.contains(&0) {
            // Without CAP_SYS_ADMIN every frame reads as zero; a page that nobody touched has none.
            let Found { absent, .. } = self.verify()?;
            return Ok((absent > 0).then_some(false));
        }
        Ok(Some(frames.windows(2).all(|pair| pair[1] == pair[0] + 1)))
    }
}

/// The range of a line that opens a mapping's description.
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

/// The sizes of huge pages that the kernel knows, in bytes, rising.
fn huge_sizes() -> Vec<usize> {
    let Ok(folder) = fs::read_dir(HUGE_PAGES) else { return Vec::new() };
    let size = |name: &str| name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<usize>().ok();
    let mut sizes: Vec<usize> = folder
        .flatten()
        .filter_map(|entry| Some(size(entry.file_name().to_str()?)? * 1024))
        .filter(|size| size.is_power_of_two())
        .collect();
    sizes.sort_unstable();
    sizes
}
