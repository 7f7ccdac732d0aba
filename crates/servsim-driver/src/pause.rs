//! The checkpoint hook: stops the emulated machine at a quiet moment.
//!
//! `pvpanic` writes 1 ("the guest has a problem") to the port of the pvpanic ISA device, 0x505
//! (QEMU, `docs/specs/pvpanic`): an emulator told to pause on that event stops here, its state is
//! saved, and whenever it is resumed the program continues behind the instruction.

use crate::{Error, Result};

/// How to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pause {
    /// Write to the pvpanic port; needs root inside a guest with that device.
    Pvpanic,
    /// Do not stop.
    None,
}

/// The input/output port of the pvpanic ISA device.
const PVPANIC_PORT: u16 = 0x505;
/// Bit 0 of the port: the guest panicked.
const PANICKED: u8 = 1;

/// Stops the machine, and returns when it is resumed.
///
/// # Errors
/// [`Error::Environment`] when the port may not be used.
pub fn pause(how: Pause) -> Result<()> {
    match how {
        Pause::None => Ok(()),
        Pause::Pvpanic => pvpanic(),
    }
}

#[cfg(target_arch = "x86_64")]
fn pvpanic() -> Result<()> {
    // SAFETY: ioperm only changes this thread's permission bits.
    let granted = unsafe { libc::ioperm(u64::from(PVPANIC_PORT), 1, 1) };
    if granted != 0 {
        return Err(Error::Environment(format!(
            "port {PVPANIC_PORT:#x} may not be used ({}); run as root inside the guest, or give --pause none",
            std::io::Error::last_os_error()
        )));
    }
    // SAFETY: the port was granted above; the device has no effect on this program's memory.
    unsafe {
        std::arch::asm!("out dx, al", in("dx") PVPANIC_PORT, in("al") PANICKED, options(nomem, nostack, preserves_flags));
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn pvpanic() -> Result<()> {
    Err(Error::Environment("the pvpanic pause needs an x86-64 guest; give --pause none".to_owned()))
}
