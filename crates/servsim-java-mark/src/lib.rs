//! The transaction mark for programs in Java: a library that the virtual machine loads.
//!
//! Java has no way to name an instruction, so the mark is a native method of its class `Mark`
//! (Java Native Interface: `Java_`, the class, the method). The library counts what it executes, so that a
//! program can compare that with what it asked for.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use servsim_driver::mark::{code, instruction, MarkKind};
use servsim_driver::pause::{pause, Pause};

static EXECUTED: AtomicU64 = AtomicU64::new(0);

/// `static native void execute(int kind, int type, boolean rolledBack, long process)`: executes a mark.
/// A kind that there is not is not executed, and so not counted.
#[no_mangle]
pub extern "system" fn Java_Mark_execute(
    _environment: *mut c_void,
    _class: *mut c_void,
    kind: i32,
    transaction_type: i32,
    rolled_back: u8,
    process: i64,
) {
    let kinds = [MarkKind::Transaction, MarkKind::Start, MarkKind::Stop, MarkKind::Client];
    if let Some(kind) = kinds.into_iter().find(|known| *known as i32 == kind) {
        let sequence = EXECUTED.fetch_add(1, Ordering::Relaxed);
        instruction(code(kind, transaction_type as u8, rolled_back != 0), sequence, process as u64);
    }
}

/// `static native long executed()`: the marks executed so far.
#[no_mangle]
pub extern "system" fn Java_Mark_executed(_environment: *mut c_void, _class: *mut c_void) -> i64 {
    EXECUTED.load(Ordering::Relaxed) as i64
}

/// `static native boolean pause()`: stops the emulated machine, and returns when it goes on; false where it cannot.
#[no_mangle]
pub extern "system" fn Java_Mark_pause(_environment: *mut c_void, _class: *mut c_void) -> u8 {
    u8::from(pause(Pause::Pvpanic).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_executed_and_counted_and_unknown_kinds_are_not() {
        let nothing = std::ptr::null_mut();
        for kind in [1, 2, 3, 4, 0, 5, -1] {
            Java_Mark_execute(nothing, nothing, kind, 6, 1, 42);
        }
        assert_eq!(Java_Mark_executed(nothing, nothing), 4);
    }
}
