//! The request record every importer produces and every model reads.
//!
//! Times are whole nanoseconds since the first arrival of the trace: no capture facility is finer,
//! and 64 bits then last for centuries. Sectors are 512 bytes whatever the device's own size.

use serde::{Deserialize, Serialize};

/// Bytes in a sector, the unit of [`Request::lba`] and [`Request::sectors`].
pub const SECTOR_BYTES: u64 = 512;
/// No device is longer than the longest file (2^63 bytes).
pub const DEVICE_SECTORS: u64 = 1 << 54;

/// `start_ns` of a request whose service start was not recorded.
pub const NO_START: u64 = u64::MAX;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    /// Data from the device.
    Read = 0,
    /// Data to the device.
    Write = 1,
}

/// One completed request of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When the request reached the device queue, in ns since the first arrival.
    pub arrival_ns: u64,
    /// When the device began to serve it, or [`NO_START`].
    pub start_ns: u64,
    /// When it completed, in ns since the first arrival.
    pub completion_ns: u64,
    /// First sector (512 bytes each).
    pub lba: u64,
    /// Length in sectors of 512 bytes.
    pub sectors: u32,
    /// Device, as an index into the names of the import report.
    pub device: u16,
    /// Read or write.
    pub op: Op,
    /// Set when the request was made by the tracer itself.
    pub by_tracer: bool,
}

impl Request {
    /// Response time: completion minus arrival, in ns; it includes any wait.
    pub fn response_ns(&self) -> u64 {
        self.completion_ns - self.arrival_ns
    }

    /// First sector after the request.
    pub fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }

    /// The recorded start of service, if the trace has one.
    pub fn recorded_start_ns(&self) -> Option<u64> {
        (self.start_ns != NO_START).then_some(self.start_ns)
    }
}

/// The part of a request that a device sees.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// First sector.
    pub lba: u64,
    /// Length in sectors.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
}

impl From<&Request> for Command {
    fn from(request: &Request) -> Self {
        Command { lba: request.lba, sectors: request.sectors, op: request.op }
    }
}

/// All that is known of a request when its service starts.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The request.
    pub command: Command,
    /// Start of service, ns.
    pub start_ns: u64,
    /// Time without work before it, ns; 0 when it waited.
    pub idle_ns: u64,
    /// Requests in service then, itself left out.
    pub others: u32,
}

/// Signed difference of two sector numbers.
pub fn distance(to: u64, from: u64) -> i64 {
    to as i64 - from as i64
}

/// Requests on the device at each arrival, the arriving one included (so at least 1).
///
/// `requests` are those of one device in arrival order. Takes O(n log q) time.
pub fn queue_lengths(requests: &[Request]) -> Vec<u32> {
    use std::cmp::Reverse;
    let mut outstanding = std::collections::BinaryHeap::new();
    let mut lengths = Vec::with_capacity(requests.len());
    for request in requests {
        while outstanding.peek().is_some_and(|&Reverse(done)| done <= request.arrival_ns) {
            outstanding.pop();
        }
        outstanding.push(Reverse(request.completion_ns));
        lengths.push(outstanding.len() as u32);
    }
    lengths
}

/// Signed start-to-start distance from the previous arrival, 0 for the first request of a device.
pub fn arrival_seeks(requests: &[Request]) -> Vec<i64> {
    let mut previous = requests.first().map_or(0, |first| first.lba);
    requests
        .iter()
        .map(|request| {
            let seek = distance(request.lba, previous);
            previous = request.lba;
            seek
        })
        .collect()
}

/// Splits a trace by device, each part in arrival order (ties keep their order).
pub fn by_device(requests: &[Request]) -> Vec<(u16, Vec<Request>)> {
    into_devices(requests.to_vec())
}

/// The same of a trace that is not needed whole: that of one device is passed on as it is.
pub fn into_devices(mut requests: Vec<Request>) -> Vec<(u16, Vec<Request>)> {
    let Some(device) = requests.first().map(|first| first.device) else { return Vec::new() };
    if requests.iter().all(|request| request.device == device) {
        requests.sort_by_key(|request| request.arrival_ns);
        return vec![(device, requests)];
    }

    let mut parts: std::collections::BTreeMap<u16, Vec<Request>> = std::collections::BTreeMap::new();
    for request in requests {
        parts.entry(request.device).or_default().push(request);
    }
    for part in parts.values_mut() {
        part.sort_by_key(|request| request.arrival_ns);
    }
    parts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(arrival_ns: u64, completion_ns: u64, lba: u64) -> Request {
        Request {
            arrival_ns,
            start_ns: NO_START,
            completion_ns,
            lba,
            sectors: 8,
            device: 0,
            op: Op::Read,
            by_tracer: false,
        }
    }

    #[test]
    fn a_request_counts_itself_and_those_not_completed_at_its_arrival() {
        let trace = [request(0, 10, 0), request(5, 20, 0), request(10, 30, 0)];
        assert_eq!(queue_lengths(&trace), [1, 2, 2]);
    }

    #[test]
    fn block_2000_then_1000_is_a_distance_of_minus_1000() {
        let trace = [request(0, 1, 2000), request(2, 3, 1000)];
        assert_eq!(arrival_seeks(&trace), [0, -1000]);
    }
}
