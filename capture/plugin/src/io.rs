//! Block-device requests: numbered when they are given to the device, recognised when they end.

use crate::facts::Facts;
use crate::guest::Guest;
use servsim_trace::EventKind;
use std::collections::HashMap;

/// Linux `REQ_OP_MASK` and operations (`include/linux/blk_types.h`).
const OPERATION_MASK: u64 = 0xff;
const OPERATION_WRITE: u64 = 1;
const OPERATION_FLUSH: u64 = 2;

/// Offsets of the members that are read, and the requests under way.
pub struct Requests {
    sector: u64,
    length: u64,
    flags: u64,
    queue: u64,
    disk: u64,
    disk_name: u64,
    under_way: HashMap<u64, u64>,
    count: u64,
}

impl Requests {
    /// Fails when the guest's kernel lacks a member.
    pub fn new(facts: &Facts) -> Result<Self, String> {
        Ok(Requests {
            sector: facts.offset("request.__sector")?,
            length: facts.offset("request.__data_len")?,
            flags: facts.offset("request.cmd_flags")?,
            queue: facts.offset("request.q")?,
            disk: facts.offset("request_queue.disk")?,
            disk_name: facts.offset("gendisk.disk_name")?,
            under_way: HashMap::new(),
            count: 0,
        })
    }

    /// The request at `address` is given to its device.
    pub fn submit(&mut self, guest: &mut Guest, devices: &[String], address: u64) -> EventKind {
        let request = self.count;
        self.count += 1;
        self.under_way.insert(address, request);
        let operation = guest.read(address + self.flags, 4) & OPERATION_MASK;
        let flush = operation == OPERATION_FLUSH;
        let queue = guest.read(address + self.queue, 8);
        let disk = guest.read(queue + self.disk, 8);
        let name = guest.read_text(disk + self.disk_name, 32);
        let device = devices.iter().position(|known| *known == name).unwrap_or(devices.len());
        EventKind::IoSubmit {
            request,
            device: device as u32,
            sector: if flush { 0 } else { guest.read(address + self.sector, 8) },
            bytes: if flush { 0 } else { guest.read(address + self.length, 4) as u32 },
            write: operation == OPERATION_WRITE || flush,
        }
    }

    /// The request at `address` has ended; `None` when it was submitted before the trace.
    pub fn complete(&mut self, address: u64) -> Option<EventKind> {
        self.under_way.remove(&address).map(|request| EventKind::IoComplete { request })
    }
}
