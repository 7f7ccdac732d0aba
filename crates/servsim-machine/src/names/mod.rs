//! What lies at an address of the simulated memory, as far as the trace tells: the area of memory, the structure or
//! relation in memory that a program's processes share, the symbol of the kernel's data.

mod shared;
mod symbols;

pub use shared::{on_page, SharedData};
pub use symbols::Symbols;

use crate::error::SimulateError;
use crate::place::per_cpu_offset;
use servsim_core::{GlobalSource, PageOrigin, TaskInfo, PAGE_SHIFT};

/// Name of the processors' own areas.
pub const PER_CPU_AREA: &str = "kernel per-CPU data";

/// Names of data.
#[derive(Debug, Clone, Default)]
pub struct DataNames {
    /// Symbols of the kernel's data; none known without any.
    pub symbols: Symbols,
    /// What lies in shared memory; nothing known without it.
    pub shared: SharedData,
}

impl DataNames {
    /// Those that the trace has.
    ///
    /// # Errors
    /// When the trace's lists cannot be read.
    pub fn of(source: &dyn GlobalSource) -> Result<Self, SimulateError> {
        let symbols = source.kernel_symbols().map(|text| Symbols::parse(text, "symbols of the trace"));
        let symbols = symbols.transpose().map_err(SimulateError::Usage)?.unwrap_or_default();
        let shared = source.shared_data().map_or(Ok(SharedData::default()), SharedData::parse);
        Ok(Self { symbols, shared: shared.map_err(SimulateError::Usage)? })
    }

    /// The symbol of the kernel's data that `bytes` from `place` on hold most of.
    pub fn symbol(&self, place: PageOrigin, bytes: u64) -> Option<String> {
        if !has_symbols(place) {
            return None;
        }
        // The one at their middle, unless one begins with them.
        let (name, distance) = self.symbols.at(place.address)?;
        let (middle, _) = self.symbols.at(place.address + bytes / 2)?;
        let name = if distance == 0 { name } else { middle };
        // The linker's end of a section names nothing; what follows was allocated at run time.
        (!name.ends_with("_end")).then(|| name.to_owned())
    }

    /// What people call the `bytes` from `place` on: structure, symbol, or else the area in brackets.
    pub fn called(&self, place: PageOrigin, bytes: u64, tasks: &[TaskInfo]) -> String {
        let structure = self.shared.at(place, tasks).map(str::to_owned);
        structure.or_else(|| self.symbol(place, bytes)).unwrap_or_else(|| format!("({})", place.area))
    }
}

/// Whether symbols of the kernel name what lies there.
pub fn has_symbols(place: PageOrigin) -> bool {
    ["kernel static data", PER_CPU_AREA].contains(&place.area)
}

/// What lies at an address, with the virtual address of that very byte.
pub fn place_of(source: &dyn GlobalSource, address: u64) -> Option<PageOrigin> {
    if let Some(offset) = per_cpu_offset(address) {
        return source.knows_places().then_some(PageOrigin {
            area: PER_CPU_AREA,
            address: offset,
            process: None,
        });
    }
    let place = source.page_origin(address >> PAGE_SHIFT)?;
    Some(PageOrigin { address: place.address + address % (1 << PAGE_SHIFT), ..place })
}
