//! Where a record's bytes are in the simulated machine's memory.

pub use servsim_core::reference::{address_on, per_cpu_offset};
use servsim_core::{Privacy, Record};
use servsim_mem::Page;

/// What the memory system must know of the page of `record`, whose address may be that of a part.
#[inline]
pub fn page_of(privacy: &Privacy, record: &Record) -> Page {
    Page { private: privacy.is_private(record), undecided: false, kernel: privacy.is_kernels(record) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::reference::PER_CPU;
    use servsim_core::{CpuId, Op, Record};

    #[test]
    fn the_per_processor_area_is_the_simulated_processors_own() {
        let mut record = Record::new(0, Op::Load, 0x40, 8);
        assert_eq!(address_on(&record, CpuId(3)), 0x40);
        record.flags = PER_CPU;
        let places: Vec<u64> = CpuId::all(3).map(|cpu| address_on(&record, cpu)).collect();
        assert!(places[0] != places[1] && places[1] != places[2]);
        assert!(places.iter().all(|place| place & 0xFFF == 0x40));
    }
}
