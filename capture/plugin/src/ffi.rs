//! The part of the emulator's plug-in interface (version 4, QEMU 10.0) that is used here, declared
//! by hand: the header is in no package. All symbols are resolved by the emulator that loads us.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Identifies this plug-in to the emulator.
pub type PluginId = u64;
/// Size and direction of one access, encoded by the emulator.
pub type MemInfo = u32;

/// Interface version this plug-in was written for; the emulator refuses what it cannot serve.
pub const API_VERSION: c_int = 4;

/// A block being translated.
#[repr(C)]
pub struct Tb(c_void);
/// An instruction of a block being translated.
#[repr(C)]
pub struct Insn(c_void);
/// A physical address.
#[repr(C)]
pub struct HwAddr(c_void);
/// Memory of counters, one per processor.
#[repr(C)]
pub struct Scoreboard(c_void);
/// A register.
#[repr(C)]
pub struct RegisterHandle(c_void);

/// A counter in a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct U64Entry {
    pub score: *mut Scoreboard,
    pub offset: usize,
}

/// `GByteArray` of GLib.
#[repr(C)]
pub struct ByteArray {
    pub data: *mut u8,
    pub len: c_uint,
}

/// `GArray` of GLib.
#[repr(C)]
pub struct Array {
    pub data: *mut c_char,
    pub len: c_uint,
}

/// The value that an access loaded or stored: the size as a logarithm, and the bytes.
#[repr(C)]
pub struct MemValue {
    pub kind: c_int,
    pub data: [u64; 2],
}

/// Describes one register.
#[repr(C)]
pub struct RegisterDescriptor {
    pub handle: *mut RegisterHandle,
    pub name: *const c_char,
    pub feature: *const c_char,
}

/// What the emulator tells at installation; only the beginning is declared.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

pub const NO_REGISTERS: c_int = 0;
pub const READ_REGISTERS: c_int = 1;
pub const MEMORY_READ_WRITE: c_int = 3;
pub const INLINE_STORE: c_int = 1;

pub type TranslateCallback = extern "C" fn(PluginId, *mut Tb);
pub type ExecCallback = extern "C" fn(c_uint, *mut c_void);
pub type MemCallback = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub type ExitCallback = extern "C" fn(PluginId, *mut c_void);

extern "C" {
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslateCallback);
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: ExitCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        op: c_int,
        entry: U64Entry,
        imm: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemCallback,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn, destination: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *mut c_void;
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_mem_get_value(info: MemInfo) -> MemValue;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut HwAddr;
    pub fn qemu_plugin_hwaddr_is_io(address: *const HwAddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(address: *const HwAddr) -> u64;
    pub fn qemu_plugin_get_registers() -> *mut Array;
    pub fn qemu_plugin_read_register(handle: *mut RegisterHandle, buffer: *mut ByteArray) -> c_int;
    pub fn qemu_plugin_read_memory_vaddr(address: u64, data: *mut ByteArray, len: usize) -> bool;
    pub fn qemu_plugin_scoreboard_new(size: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_scoreboard_find(score: *mut Scoreboard, vcpu: c_uint) -> *mut c_void;
    pub fn qemu_plugin_reset(id: PluginId, callback: extern "C" fn(PluginId));
    pub fn g_byte_array_new() -> *mut ByteArray;
    pub fn g_byte_array_set_size(array: *mut ByteArray, len: c_uint) -> *mut ByteArray;
}
