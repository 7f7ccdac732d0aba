//! The transaction mark: one instruction without effect that a trace capture recognises.
//!
//! x86-64: the bytes `66 87 DB` (`xchg %bx,%bx`) with
//!
//! | register | content |
//! |---|---|
//! | EAX bits 0-7 | kind: 1 transaction end, 2 measurement start, 3 measurement stop, 4 this task is a client |
//! | EAX bits 8-15 | transaction type, from 1, as the program numbers its own (OLTP: 1 New-Order, 2 Payment, 3 Order-Status, 4 Delivery, 5 Stock-Level; a kernel: 1 an iteration); 0 otherwise |
//! | EAX bit 16 | 1 if the transaction was rolled back on purpose |
//! | RCX | sequence number among the marks of this process, from 0 |
//! | RDX | process identifier of the server process that did the work, the marking process's own if it did the work itself; 0 when the kind has none |
//!
//! The client executes it after it has read the complete reply, so a transaction counts when its
//! user could see it. On hardware it costs under a nanosecond and changes nothing. Other
//! architectures only count.

/// The meaning of a mark, in the low byte of EAX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MarkKind {
    /// A transaction's reply has been read in full.
    Transaction = 1,
    /// Warm-up is over and every user is idle; measurement starts.
    Start = 2,
    /// The last measured reply has been read.
    Stop = 3,
    /// The task that executes this mark belongs to the client, not to the server.
    Client = 4,
}

/// Bit of EAX that says the transaction was rolled back on purpose.
pub const ROLLED_BACK: u32 = 1 << 16;

/// The value of EAX for a mark.
pub fn code(kind: MarkKind, transaction_type: u8, rolled_back: bool) -> u32 {
    kind as u32 | u32::from(transaction_type) << 8 | if rolled_back { ROLLED_BACK } else { 0 }
}

/// Executes the mark instruction with the given register contents.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub fn instruction(code: u32, sequence: u64, server_process: u64) {
    // SAFETY: exchanging a register with itself changes neither registers, flags nor memory.
    unsafe {
        std::arch::asm!(
            ".byte 0x66, 0x87, 0xdb",
            in("eax") code,
            in("rcx") sequence,
            in("rdx") server_process,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Other architectures have no mark instruction yet: the mark is counted only.
#[cfg(not(target_arch = "x86_64"))]
pub fn instruction(_code: u32, _sequence: u64, _server_process: u64) {}

/// Executes marks and counts them, so that a capture can be compared with its driver.
#[derive(Debug, Default)]
pub struct Marker {
    sequence: u64,
    /// Marks executed, by kind (index 0 is kind 1).
    by_kind: [u64; 4],
    /// Transaction ends by transaction type (index 0 is type 1), as far as the highest that ended.
    by_type: Vec<u64>,
    rolled_back: u64,
}

impl Marker {
    /// Marks the end of a transaction of `transaction_type` (from 1) done by `server_process`.
    pub fn transaction(&mut self, transaction_type: u8, rolled_back: bool, server_process: u32) {
        self.execute(MarkKind::Transaction, transaction_type, rolled_back, server_process);
        let index = usize::from(transaction_type) - 1;
        if self.by_type.len() <= index {
            self.by_type.resize(index + 1, 0);
        }
        self.by_type[index] += 1;
        self.rolled_back += u64::from(rolled_back);
    }

    /// Marks the start or stop of the measurement, or the client task.
    pub fn event(&mut self, kind: MarkKind) {
        self.execute(kind, 0, false, 0);
    }

    fn execute(&mut self, kind: MarkKind, transaction_type: u8, rolled_back: bool, server_process: u32) {
        instruction(code(kind, transaction_type, rolled_back), self.sequence, u64::from(server_process));
        self.sequence += 1;
        self.by_kind[kind as usize - 1] += 1;
    }

    /// The counts so far as JSON, for the run's report.
    pub fn counts(&self) -> serde_json::Value {
        serde_json::json!({
            "transaction": self.by_kind[0],
            "start": self.by_kind[1],
            "stop": self.by_kind[2],
            "client": self.by_kind[3],
            "rolled_back": self.rolled_back,
            "by_type": self.by_type,
            "total": self.sequence,
        })
    }

    /// Transaction ends marked so far.
    pub fn transactions(&self) -> u64 {
        self.by_kind[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_packs_kind_type_and_rollback() {
        assert_eq!(code(MarkKind::Transaction, 5, true), 0x1_0501);
        assert_eq!(code(MarkKind::Start, 0, false), 2);
    }

    #[test]
    fn marks_are_counted_by_kind_and_type() {
        let mut marker = Marker::default();
        marker.event(MarkKind::Client);
        marker.transaction(1, true, 77);
        marker.transaction(3, false, 78);
        let counts = marker.counts();
        assert_eq!(counts["client"], 1);
        assert_eq!(counts["by_type"], serde_json::json!([1, 0, 1]));
        assert_eq!((counts["rolled_back"].as_u64(), counts["total"].as_u64()), (Some(1), Some(3)));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_instruction_is_present_once_in_its_function() {
        let start = instruction as *const u8;
        // SAFETY: the function's own code is readable; 64 bytes stay inside the text segment.
        let code = unsafe { std::slice::from_raw_parts(start, 64) };
        assert!(code.windows(3).any(|bytes| bytes == [0x66, 0x87, 0xdb]));
    }
}
