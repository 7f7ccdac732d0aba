//! Virtual addresses in both engines: which page a record touches, in which address space, and the
//! references of a page walk.

use crate::place::address_on;
use servsim_core::reference::{KERNEL, PER_CPU};
use servsim_core::source::{MAX_SPACES, PAGE_SHIFT};
use servsim_core::{CpuId, GlobalSource, LineAddr, Op, Record, SourceError, TaskSource};
use servsim_import::Identity;
use servsim_mem::tlb::{LookUp, ENTRY_BYTES};
use servsim_mem::{Access, Page, WordMask};

/// Page tables are the kernel's, and shared.
pub const TABLE_PAGE: Page = Page { private: false, undecided: false, kernel: Some(true) };

/// First virtual page of the processors' own areas: in a hole that Linux leaves below its direct map
/// (`Documentation/arch/x86/x86_64/mm.rst`), because a trace names them once for all processors.
const AREAS: u64 = 0xF_FFF8_0000_0000;
/// Pages from one area to the next: 2 MiB, as Linux places them (`mm/percpu.c`, `arch/x86`).
const AREA_PAGES: u64 = 512;

/// Makes a source tell virtual pages; with `identity` one that cannot is taken as one address space.
///
/// # Errors
/// When the trace does not tell virtual addresses, with the remedy.
pub fn with_pages(
    mut source: Box<dyn GlobalSource>,
    identity: bool,
) -> Result<Box<dyn GlobalSource>, SourceError> {
    if source.record_pages() {
        check_spaces(&source.spaces())?;
        return Ok(source);
    }
    plain(identity)?;
    Ok(Box::new(Identity(source)))
}

/// The same of a source of tasks.
///
/// # Errors
/// As [`with_pages`].
pub fn tasks_with_pages(
    mut source: Box<dyn TaskSource>,
    identity: bool,
) -> Result<Box<dyn TaskSource>, SourceError> {
    if source.record_pages()? {
        check_spaces(&source.spaces())?;
        return Ok(source);
    }
    plain(identity)?;
    Ok(Box::new(Identity(source)))
}

fn plain(identity: bool) -> Result<(), SourceError> {
    if identity {
        return Ok(());
    }
    Err(SourceError(
        "the trace gives one address per reference and does not tell virtual addresses, which a TLB looks \
         up; if its addresses are virtual ones of a single address space, say so with \
         tlb.plain_addresses = \"identity\", otherwise set tlb.entries = 0"
            .into(),
    ))
}

fn check_spaces(spaces: &[Option<u32>]) -> Result<(), SourceError> {
    if spaces.iter().flatten().any(|&space| space >= MAX_SPACES) {
        return Err(SourceError(format!(
            "the trace has more than {MAX_SPACES} processes, the most whose page tables can be placed; set \
             tlb.entries = 0"
        )));
    }
    Ok(())
}

/// The process whose address space is loaded when `task` runs; `None` leaves the present one.
#[inline]
pub fn process_of(spaces: &[Option<u32>], task: u32) -> Option<u32> {
    // Without spaces all tasks share one.
    spaces.get(task as usize).copied().unwrap_or(Some(0))
}

/// The look-up for the part of `record` that begins `offset` bytes into it, on processor `cpu`; `page`
/// is the virtual page of its first byte and `count` how many references it stands for.
#[inline]
pub fn look_up(record: &Record, cpu: CpuId, page: u64, offset: u64, count: u64) -> LookUp {
    let physical = address_on(record, cpu);
    let frame = (physical + offset) >> PAGE_SHIFT;
    // Virtual and physical pages have the same inner addresses.
    let further = frame - (physical >> PAGE_SHIFT);
    let first = if record.flags & PER_CPU == 0 {
        page
    } else {
        AREAS + cpu.0 as u64 * AREA_PAGES + (record.address >> PAGE_SHIFT)
    };
    LookUp {
        fetch: record.op == Op::Fetch,
        kernel: record.flags & KERNEL != 0,
        page: first + further,
        frame,
        count,
    }
}

/// The read of a table entry at `address` by processor `cpu` on behalf of `task`.
#[inline]
pub fn table_access<W: WordMask>(cpu: CpuId, address: u64, task: u32, shift: u32) -> Access<W> {
    let first = address & ((1 << shift) - 1);
    Access {
        at: cpu,
        line: LineAddr::of(address, shift),
        words: W::of_bytes(first, first + ENTRY_BYTES - 1),
        write: false,
        kernel: true,
        task,
        slot: Op::Load as usize,
    }
}
