//! Reading the guest's registers and memory through the emulator.

use crate::ffi;
use std::ffi::CStr;

/// Registers that the hooks read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rsi,
    Rdi,
}

const NAMES: [&str; 5] = ["rax", "rcx", "rdx", "rsi", "rdi"];

/// Access to the guest's state; valid only inside callbacks of the emulator's processor thread.
pub struct Guest {
    buffer: *mut ffi::ByteArray,
    registers: [*mut ffi::RegisterHandle; NAMES.len()],
}

impl Guest {
    /// Without registers until [`Guest::find_registers`] is called.
    pub fn new() -> Self {
        // SAFETY: GLib is loaded with the emulator; the array lives as long as the process.
        let buffer = unsafe { ffi::g_byte_array_new() };
        Guest { buffer, registers: [std::ptr::null_mut(); NAMES.len()] }
    }

    /// Looks up the registers; to be called once the processor exists.
    pub fn find_registers(&mut self) {
        // SAFETY: called from the processor's initialisation callback, where the list is valid.
        unsafe {
            let list = &*ffi::qemu_plugin_get_registers();
            #[allow(clippy::cast_ptr_alignment)] // GLib aligns the array for its elements.
            let descriptors =
                std::slice::from_raw_parts(list.data.cast::<ffi::RegisterDescriptor>(), list.len as usize);
            for descriptor in descriptors {
                let name = CStr::from_ptr(descriptor.name).to_bytes();
                if let Some(index) = NAMES.iter().position(|wanted| wanted.as_bytes() == name) {
                    self.registers[index] = descriptor.handle;
                }
            }
        }
    }

    /// The value of a register; only in callbacks registered with register access.
    pub fn register(&mut self, register: Register) -> u64 {
        let handle = self.registers[register as usize];
        if handle.is_null() {
            return 0;
        }
        // SAFETY: the handle came from the emulator; the buffer is ours.
        unsafe {
            ffi::g_byte_array_set_size(self.buffer, 0);
            ffi::qemu_plugin_read_register(handle, self.buffer);
            self.word(8)
        }
    }

    /// `len` bytes (at most 8) at a virtual address, little-endian; zero when not mapped.
    pub fn read(&mut self, vaddr: u64, len: usize) -> u64 {
        // SAFETY: the emulator fills the buffer up to `len` bytes.
        unsafe {
            if ffi::qemu_plugin_read_memory_vaddr(vaddr, self.buffer, len) {
                self.word(len)
            } else {
                0
            }
        }
    }

    /// A zero-terminated text of at most `len` bytes.
    pub fn read_text(&mut self, vaddr: u64, len: usize) -> String {
        // SAFETY: as in `read`.
        let bytes = unsafe {
            if !ffi::qemu_plugin_read_memory_vaddr(vaddr, self.buffer, len) {
                return String::new();
            }
            std::slice::from_raw_parts((*self.buffer).data, (*self.buffer).len as usize)
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// The buffer's first `len` bytes as a number.
    unsafe fn word(&self, len: usize) -> u64 {
        // SAFETY: the array holds `len` initialised bytes.
        let bytes = unsafe { std::slice::from_raw_parts((*self.buffer).data, (*self.buffer).len as usize) };
        bytes.iter().take(len.min(8)).rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
    }
}
