//! Sets of drives behind one address space: mirrors, stripes, RAID 0, 1 and 5.
//!
//! [`layout`] says which drive holds what, [`mod@array`] runs the drives, [`spec`] reads `raid5:5,unit=64KiB`.

pub mod array;
pub mod layout;
pub mod spec;
