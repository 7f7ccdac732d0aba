//! Where a record's bytes are in the simulated machine's memory.

use servsim_core::reference::PER_CPU;
use servsim_core::{Privacy, Record};
use servsim_mem::Page;

/// Beyond any physical address: where the processors' own areas begin.
const PER_CPU_BASE: u64 = 1 << 60;
/// log2 of the distance between two processors' areas.
const PER_CPU_SHIFT: u32 = 40;

/// The address of `record` when processor `cpu` makes it: references to the kernel's per-processor
/// area go to that processor's own copy.
#[inline]
pub fn address_on(record: &Record, cpu: usize) -> u64 {
    if record.flags & PER_CPU == 0 {
        record.address
    } else {
        PER_CPU_BASE | (cpu as u64) << PER_CPU_SHIFT | record.address
    }
}

/// The offset in the per-processor area that an address made by [`address_on`] stands for.
pub fn per_cpu_offset(address: u64) -> Option<u64> {
    (address >= PER_CPU_BASE).then_some(address & ((1 << PER_CPU_SHIFT) - 1))
}

/// What the memory system must know of the page of `record`, whose address may be that of a part.
#[inline]
pub fn page_of(privacy: &Privacy, record: &Record) -> Page {
    Page { private: privacy.is_private(record), kernel: privacy.is_kernels(record) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::Op;

    #[test]
    fn the_per_processor_area_is_the_simulated_processors_own() {
        let mut record = Record::new(0, Op::Load, 0x40, 8);
        assert_eq!(address_on(&record, 3), 0x40);
        record.flags = PER_CPU;
        let places: Vec<u64> = (0..3).map(|cpu| address_on(&record, cpu)).collect();
        assert!(places[0] != places[1] && places[1] != places[2]);
        assert!(places.iter().all(|place| place & 0xFFF == 0x40));
    }
}
