//! The program and the libraries that are loaded: names of places in their code, as `MODULE+0xOFFSET`.

use libc::{c_int, c_void, dl_phdr_info, size_t};
use std::ffi::CStr;
use std::ops::Range;

/// A program or a library.
pub struct Module {
    /// Its file's name without folders.
    pub name: String,
    /// What its own addresses are counted from.
    base: usize,
    /// Where its code and data lie.
    parts: Vec<Range<usize>>,
}

impl Module {
    /// The address behind `MODULE+0xOFFSET`, if it is of this module.
    pub fn address(&self, place: &str) -> Option<usize> {
        let (name, offset) = place.rsplit_once("+0x")?;
        let address = self.base.checked_add(usize::from_str_radix(offset, 16).ok()?)?;
        (name == self.name && self.holds(address)).then_some(address)
    }

    /// Whether an address is in its code or data.
    pub fn holds(&self, address: usize) -> bool {
        self.parts.iter().any(|part| part.contains(&address))
    }
}

/// What is loaded now, the program first.
pub fn loaded() -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    // SAFETY: the function gets the list for as long as it runs.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    found
}

/// The name of a place; its address where it is in no module.
pub fn place(modules: &[Module], address: usize) -> String {
    match modules.iter().find(|module| module.holds(address)) {
        Some(module) => format!("{}+{:#x}", module.name, address - module.base),
        None => format!("{address:#x}"),
    }
}

unsafe extern "C" fn add(info: *mut dl_phdr_info, _: size_t, list: *mut c_void) -> c_int {
    // SAFETY: the linker's description of one module, and the list that `loaded` gave.
    let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<Module>>()) };
    // SAFETY: a string, and as many headers as are told of.
    let (path, headers) = unsafe {
        (CStr::from_ptr(info.dlpi_name), std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize))
    };
    let mut path = path.to_string_lossy().into_owned();
    if list.is_empty() && path.is_empty() {
        path = std::fs::read_link("/proc/self/exe").unwrap_or_default().to_string_lossy().into_owned();
    }
    let base = info.dlpi_addr as usize;
    let parts = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).map(|header| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        start..start.wrapping_add(header.p_memsz as usize)
    });
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    list.push(Module { name, base, parts: parts.collect() });
    0
}
