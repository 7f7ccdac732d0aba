//! One file of a drmemtrace trace: records to references, up to the next timestamp.

use crate::foreign::push;
use crate::input::{Input, Records};
use servsim_core::reference::KERNEL;
use servsim_core::{Op, Record, SourceError, ANY_CPU};
use std::path::Path;

/// Bytes per record.
const RECORD: usize = 12;
/// Versions of the format that are understood.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=7;

/// Record types (`trace_type_t`).
mod kind {
    use std::ops::RangeInclusive;
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    /// Software prefetches of every sort.
    pub const PREFETCH: RangeInclusive<u16> = 2..=9;
    /// Instructions by sort: plain, jumps, calls, return.
    pub const INSTR: RangeInclusive<u16> = 10..=16;
    /// Further instructions right behind the last one; their lengths are in the address field.
    pub const BUNDLE: u16 = 17;
    /// Flushes of instructions and data, each with its optional end.
    pub const FLUSH: RangeInclusive<u16> = 18..=21;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PID: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const HARDWARE_PREFETCH: u16 = 27;
    pub const MARKER: u16 = 28;
    /// A further iteration of a string instruction, which is not fetched again.
    pub const NO_FETCH: u16 = 29;
    pub const SYSENTER: u16 = 31;
    pub const MORE_PREFETCH: RangeInclusive<u16> = 32..=46;
    pub const ENCODING: u16 = 47;
    pub const TAKEN: u16 = 48;
    pub const UNTAKEN: u16 = 49;
}

/// Marker types (`trace_marker_type_t`) that matter here.
mod marker {
    pub const TIMESTAMP: u16 = 2;
    pub const FILETYPE: u16 = 9;
    pub const VERSION: u16 = 12;
    pub const SYSCALL_TRACE_START: u16 = 27;
    pub const SYSCALL_TRACE_END: u16 = 28;
    pub const CONTEXT_SWITCH_START: u16 = 34;
    pub const CONTEXT_SWITCH_END: u16 = 35;
    /// The last one known here (`TRACE_MARKER_TYPE_VECTOR_LENGTH`).
    pub const LAST: u16 = 36;
    /// From here up, markers belong to users.
    pub const CUSTOM: u16 = 100;
}

/// Bits of the file type (`offline_file_type_t`).
mod filetype {
    /// References that hit a small cache while tracing are missing.
    pub const FILTERED: u64 = 0x01 | 0x80 | 0x100;
    pub const INSTRUCTION_ONLY: u64 = 0x04;
    pub const BITS_32: u64 = 0x10 | 0x20;
}

/// What was left out, and what the file said of itself.
#[allow(clippy::struct_excessive_bools)] // independent flags
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub prefetches: u64,
    pub flushes: u64,
    /// Loads and stores of no bytes.
    pub empty: u64,
    /// Markers of types that are not known here; markers are never references.
    pub unknown_markers: u64,
    pub filtered: bool,
    pub no_data: bool,
    pub no_footer: bool,
}

/// Where reading stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// At a timestamp.
    Time,
    /// At a change of the thread.
    Thread,
    /// Enough references were read.
    Enough,
    /// At the end.
    End,
}

/// One file being read. References carry no task yet: they are those of `thread`.
pub struct ThreadFile {
    records: Records<RECORD>,
    /// Process and thread of the references to come.
    pub thread: (Option<u64>, Option<u64>),
    /// Timestamp of the references to come, in microseconds.
    pub time: u64,
    pub summary: Summary,
    system_call: bool,
    context_switch: bool,
    footer: bool,
    /// Where the next instruction of a bundle begins.
    next_instruction: u64,
}

impl ThreadFile {
    /// Opens `path` and checks its header.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let mut records = Records::new(Input::open(path)?);
        let first = records.record()?.copied();
        let header = first.map(|bytes| fields(&bytes));
        match header {
            Some((kind::HEADER, _, version)) if VERSIONS.contains(&version) => {}
            Some((kind::HEADER, _, version)) if version < 1 << 16 => {
                return Err(records.fault(&format!(
                    "version {version} of drmemtrace; versions {} to {} are read: convert the trace \
                     with a DynamoRIO of that age",
                    VERSIONS.start(),
                    VERSIONS.end()
                )))
            }
            _ => {
                return Err(records.fault(
                    "no drmemtrace header of a 64-bit program; is this a final trace of DynamoRIO? \
                     (a ChampSim trace is read with --format champsim)",
                ))
            }
        }
        Ok(Self {
            records,
            thread: (None, None),
            time: 0,
            summary: Summary::default(),
            system_call: false,
            context_switch: false,
            footer: false,
            next_instruction: 0,
        })
    }

    /// Appends references, about `limit` at most, up to the next timestamp or change of thread.
    pub fn read(&mut self, out: &mut Vec<Record>, limit: usize) -> Result<Stop, SourceError> {
        let enough = out.len() + limit;
        while out.len() < enough {
            let Some(bytes) = self.records.record()? else {
                self.summary.no_footer |= !self.footer;
                return Ok(Stop::End);
            };
            let (kind, size, address) = fields(bytes);
            let stop = self.record(kind, size, address, out).map_err(|what| self.records.fault(&what))?;
            if let Some(stop) = stop {
                return Ok(stop);
            }
        }
        Ok(Stop::Enough)
    }

    #[inline]
    fn record(
        &mut self,
        kind: u16,
        size: u16,
        address: u64,
        out: &mut Vec<Record>,
    ) -> Result<Option<Stop>, String> {
        let op = match kind {
            kind::READ => Op::Load,
            kind::WRITE => Op::Store,
            kind if kind::INSTR.contains(&kind) => Op::Fetch,
            kind::SYSENTER | kind::TAKEN | kind::UNTAKEN => Op::Fetch,
            kind::ENCODING | kind::NO_FETCH => return Ok(None),
            _ => return self.other(kind, size, address, out),
        };
        if op == Op::Fetch {
            self.next_instruction = address.wrapping_add(u64::from(size));
        }
        if size == 0 && op != Op::Fetch {
            // Instructions that touch nothing this time, such as a masked store without a set bit.
            self.summary.empty += 1;
            return Ok(None);
        }
        push(out, self.reference(op, address)?, u64::from(size))?;
        Ok(None)
    }

    /// The records that are neither a plain instruction nor a data reference.
    fn other(
        &mut self,
        kind: u16,
        size: u16,
        address: u64,
        out: &mut Vec<Record>,
    ) -> Result<Option<Stop>, String> {
        match kind {
            kind::BUNDLE => return self.bundle(size, address, out).map(|()| None),
            kind::THREAD => {
                self.thread.1 = Some(address);
                return Ok(Some(Stop::Thread));
            }
            kind::PID => {
                self.thread.0 = Some(address);
                return Ok(Some(Stop::Thread));
            }
            kind::MARKER => return self.marker(size, address),
            kind::FOOTER => self.footer = true,
            kind::HEADER if VERSIONS.contains(&address) => self.footer = false,
            kind::THREAD_EXIT => {}
            kind::HARDWARE_PREFETCH => self.summary.prefetches += 1,
            _ if kind::PREFETCH.contains(&kind) || kind::MORE_PREFETCH.contains(&kind) => {
                self.summary.prefetches += 1;
            }
            _ if kind::FLUSH.contains(&kind) => self.summary.flushes += 1,
            _ => {
                return Err(format!(
                    "record type {kind} is not of versions 1 to 7 of drmemtrace; the file is damaged, or \
                     of a newer DynamoRIO: take such records out with its record_filter"
                ))
            }
        }
        Ok(None)
    }

    fn bundle(&mut self, count: u16, lengths: u64, out: &mut Vec<Record>) -> Result<(), String> {
        if !(1..=8).contains(&count) {
            return Err(format!("a bundle of {count} instructions; it holds 1 to 8"));
        }
        for &length in &lengths.to_le_bytes()[..usize::from(count)] {
            let fetch = self.reference(Op::Fetch, self.next_instruction)?;
            push(out, fetch, u64::from(length))?;
            self.next_instruction += u64::from(length);
        }
        Ok(())
    }

    fn marker(&mut self, kind: u16, value: u64) -> Result<Option<Stop>, String> {
        match kind {
            marker::TIMESTAMP => {
                self.time = value;
                return Ok(Some(Stop::Time));
            }
            marker::SYSCALL_TRACE_START => self.system_call = true,
            marker::SYSCALL_TRACE_END => self.system_call = false,
            marker::CONTEXT_SWITCH_START => self.context_switch = true,
            marker::CONTEXT_SWITCH_END => self.context_switch = false,
            marker::VERSION if !VERSIONS.contains(&value) => {
                return Err(format!("the version marker says {value}; versions 1 to 7 are read"))
            }
            marker::FILETYPE => {
                if value & filetype::BITS_32 != 0 {
                    return Err("a trace of a 32-bit program; only those of 64-bit ones are read".into());
                }
                self.summary.filtered |= value & filetype::FILTERED != 0;
                self.summary.no_data |= value & filetype::INSTRUCTION_ONLY != 0;
            }
            _ if kind <= marker::LAST || kind >= marker::CUSTOM => {}
            _ => self.summary.unknown_markers += 1,
        }
        Ok(None)
    }

    fn reference(&self, op: Op, address: u64) -> Result<Record, String> {
        let (Some(_), Some(_)) = self.thread else {
            return Err("a reference before the records that name its thread and process".into());
        };
        let flags = if self.system_call || self.context_switch { KERNEL } else { 0 };
        Ok(Record { flags, cpu: ANY_CPU, ..Record::new(0, op, address, 1) })
    }
}

fn fields(bytes: &[u8; RECORD]) -> (u16, u16, u64) {
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    (half(0), half(2), u64::from_le_bytes(bytes[4..].try_into().expect("8 bytes")))
}
