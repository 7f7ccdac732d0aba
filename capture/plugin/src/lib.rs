//! The capture plug-in: loaded by the emulator, writes a servsim trace of everything the guest
//! does between the load generator's start and stop marks, kernel included.
//!
//! Arguments: `facts=FILE` (see [`facts`]). One guest processor is captured. What the emulator
//! does not show is not in the trace: page-table walks, transfers by devices.

// Internal to the plug-in: nothing here is a public interface.
#![allow(missing_docs, clippy::missing_errors_doc)]

pub mod block;
mod capture;
pub mod clock;
mod events;
pub mod facts;
mod ffi;
mod guest;
mod hooks;
mod io;
mod kinds;
pub mod operands;
mod spin;
mod summary;
mod tasks;
mod translation;

use block::{Block, Site, TranslatedInsn};
use capture::{Capture, Phase};
use facts::Facts;
use hooks::Hook;
use operands::Operands;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Checked by the emulator before anything else.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = ffi::API_VERSION;

/// The capture's state, from installation on; null while a callback works on it.
static CAPTURE: AtomicPtr<Capture> = AtomicPtr::new(std::ptr::null_mut());
/// The scoreboard of the counter of instructions begun.
static PROGRESS: AtomicPtr<ffi::Scoreboard> = AtomicPtr::new(std::ptr::null_mut());

/// Works on the capture's state. A second processor's thread, or a callback within a callback, finds
/// the place of the state empty: that ends the emulator, rather than that two work on it at once.
#[inline]
fn with_capture<R>(work: impl FnOnce(&mut Capture) -> R) -> R {
    let state = CAPTURE.load(Ordering::Relaxed);
    CAPTURE.store(std::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the pointer came from a box that is never freed, and whoever has it is alone: it is put
    // back below. One processor is captured, whose thread makes all calls (the exit callback runs when
    // that thread has stopped), so the exchange need not be indivisible.
    let Some(capture) = (unsafe { state.as_mut() }) else { entered_twice() };
    let result = work(capture);
    CAPTURE.store(state, Ordering::Relaxed);
    result
}

#[cold]
fn entered_twice() -> ! {
    eprintln!("servsim capture: the emulator called back while an earlier call was under way");
    std::process::abort()
}

/// The counter of instructions begun, for the emulator's inline stores.
fn counter() -> ffi::U64Entry {
    ffi::U64Entry { score: PROGRESS.load(Ordering::Relaxed), offset: 0 }
}

/// Called by the emulator when it loads the plug-in; a non-zero result stops the emulator.
///
/// # Safety
/// The emulator passes valid pointers.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: ffi::PluginId,
    info: *const ffi::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: `info` and `argv` are valid for the duration of this call.
    let installed = unsafe {
        let arguments =
            (0..argc as usize).map(|i| CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned());
        prepare(&*info, arguments)
    };
    match installed {
        Ok(mut state) => {
            state.id = id;
            // SAFETY: nothing runs yet.
            unsafe {
                CAPTURE.store(Box::into_raw(Box::new(state)), Ordering::Relaxed);
                PROGRESS.store(ffi::qemu_plugin_scoreboard_new(8), Ordering::Relaxed);
                ffi::qemu_plugin_register_vcpu_init_cb(id, on_processor);
                ffi::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
                ffi::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
            }
            0
        }
        Err(message) => {
            eprintln!("servsim capture: {message}");
            1
        }
    }
}

fn prepare(info: &ffi::Info, arguments: impl IntoIterator<Item = String>) -> Result<Capture, String> {
    if !info.system_emulation || info.smp_vcpus != 1 {
        return Err("exactly one processor of a whole system is captured: use -smp 1".to_owned());
    }
    let facts = arguments.into_iter().find_map(|argument| argument.strip_prefix("facts=").map(str::to_owned));
    Capture::new(Facts::read(&facts.ok_or("the argument facts=FILE is missing")?)?)
}

extern "C" fn on_processor(_id: ffi::PluginId, vcpu: c_uint) {
    with_capture(|capture| {
        capture.guest.find_registers();
        // SAFETY: the scoreboard was made at installation and has an entry for each processor.
        capture.progress = unsafe { ffi::qemu_plugin_scoreboard_find(counter().score, vcpu) }.cast();
    });
}

extern "C" fn on_translate(_id: ffi::PluginId, tb: *mut ffi::Tb) {
    // SAFETY: the emulator's translation structures are valid during this callback.
    unsafe {
        let count = ffi::qemu_plugin_tb_n_insns(tb);
        let insns: Vec<_> = (0..count).map(|i| ffi::qemu_plugin_tb_get_insn(tb, i)).collect();
        let block = Block::new(insns.iter().map(|insn| translated(*insn)).collect());
        with_capture(|capture| {
            capture.translated(&block);
            instrument(capture, tb, &insns, Box::into_raw(Box::new(block)));
        });
    }
}

/// Reads one instruction.
unsafe fn translated(insn: *mut ffi::Insn) -> TranslatedInsn {
    // SAFETY: `insn` is valid during the translation callback.
    unsafe {
        let vaddr = ffi::qemu_plugin_insn_vaddr(insn);
        let mut code = vec![0; ffi::qemu_plugin_insn_size(insn)];
        ffi::qemu_plugin_insn_data(insn, code.as_mut_ptr().cast(), code.len());
        let operands = Operands::decode(&code, vaddr);
        TranslatedInsn { vaddr, host: ffi::qemu_plugin_insn_haddr(insn) as u64, code, operands }
    }
}

/// Asks for a callback at the block's start, at each access and at hooked instructions, and for a store of how many
/// instructions were begun wherever the block may be left.
unsafe fn instrument(capture: &mut Capture, tb: *mut ffi::Tb, insns: &[*mut ffi::Insn], block: *mut Block) {
    // SAFETY: `block` is never freed; the emulator's structures are valid here.
    unsafe {
        ffi::qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, ffi::NO_REGISTERS, block.cast());
        for (index, insn) in insns.iter().enumerate() {
            // An instruction that always goes on to the next need not tell that it was begun, if the next does.
            if index + 1 == insns.len() || !(&(*block).insns)[index].operands.goes_on {
                ffi::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    *insn,
                    ffi::INLINE_STORE,
                    counter(),
                    index as u64 + 1,
                );
            }
            let known = &(&(*block).insns)[index];
            for hook in capture.hooks.find(known.vaddr, &known.code, index == 0) {
                let data = Box::into_raw(Box::new(hook)).cast();
                ffi::qemu_plugin_register_vcpu_insn_exec_cb(*insn, on_hook, ffi::READ_REGISTERS, data);
            }
            if known.operands.reads_time {
                capture.hooks.note_time_reading(known.vaddr + known.code.len() as u64);
            }
            let site = Site::new(block, index as u16, known.operands.exchanges_byte);
            ffi::qemu_plugin_register_vcpu_mem_cb(
                *insn,
                on_access,
                ffi::NO_REGISTERS,
                ffi::MEMORY_READ_WRITE,
                site.to_data(),
            );
        }
    }
}

extern "C" fn on_block(_vcpu: c_uint, block: *mut c_void) {
    with_capture(|capture| capture.begin_block(block.cast()));
}

extern "C" fn on_access(_vcpu: c_uint, info: ffi::MemInfo, vaddr: u64, site: *mut c_void) {
    with_capture(|capture| capture.access(info, vaddr, Site::of_data(site)));
}

extern "C" fn on_hook(_vcpu: c_uint, hook: *mut c_void) {
    // SAFETY: the hook was boxed at translation and is never freed.
    let hook = unsafe { *hook.cast::<Hook>() };
    with_capture(|capture| capture.hook(hook));
}

extern "C" fn on_exit(_id: ffi::PluginId, _data: *mut c_void) {
    with_capture(|capture| {
        if capture.phase != Phase::Done {
            capture.fail("the guest ended before the load generator's stop mark".to_owned());
        }
    });
}
