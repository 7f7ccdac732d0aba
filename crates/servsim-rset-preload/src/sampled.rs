//! What the sampler found: notes of faults, counted by page, thread and processor, and the document made of them.

use crate::faults::{NOTES, PAGES, RING, SLOTS, WRITTEN};
use crate::{modules, sizes::PAGE};
use serde_json::{json, Value};
use servsim_rset::Topology;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a name (the kernel's `ANON_VMA_NAME_MAX_LEN`).
pub const NAME: usize = 80;

/// What lies in a range: a name, or the site that allocated it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Data {
    /// The name; zeros without one.
    pub name: [u8; NAME],
    /// The place that allocated it; 0 for a mapping with a name.
    pub site: usize,
}

/// What a note counts for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    data: Data,
    offset: usize,
    address: usize,
    processor: u64,
    thread: u64,
}

/// What was found so far.
pub struct Found {
    /// Notes by what they are for.
    pub counts: BTreeMap<Key, u64>,
    /// Notes that were read.
    pub read: usize,
    /// Notes without a range, or overwritten.
    pub lost: u64,
    /// Looks so far.
    pub periods: u64,
}

impl Found {
    /// Reads what faults have noted; `data` tells what lies at an address, and how far from its beginning.
    pub fn count(&mut self, data: impl Fn(usize) -> Option<(Data, usize)>) {
        let written = WRITTEN.load(Relaxed);
        let oldest = written.saturating_sub(NOTES);
        self.lost += oldest.saturating_sub(self.read) as u64;
        self.read = self.read.max(oldest);
        while self.read < written {
            let note = RING[self.read % NOTES].swap(0, Relaxed);
            if note == 0 {
                return;
            }
            self.read += 1;
            let address = PAGES[(note >> 34) as usize & (SLOTS - 1)].load(Relaxed);
            let Some((data, offset)) = data(address) else {
                self.lost += 1;
                continue;
            };
            let key = Key { data, offset, address, processor: note >> 22 & 0xfff, thread: note & 0x3f_ffff };
            *self.counts.entry(key).or_default() += 1;
        }
    }

    /// As it is written.
    pub fn document(&self) -> Value {
        let modules = modules::loaded();
        let mut names: BTreeMap<Data, String> = BTreeMap::new();
        for key in self.counts.keys() {
            names.entry(key.data).or_insert_with(|| match CStr::from_bytes_until_nul(&key.data.name) {
                Ok(name) if !name.is_empty() => name.to_string_lossy().into_owned(),
                _ if key.data.site != 0 => modules::place(&modules, key.data.site),
                _ => "(unknown)".to_owned(),
            });
        }
        let machine = Topology::discover().ok();
        let node = |processor: u64| {
            let of = machine.as_ref()?.node_of(u32::try_from(processor).ok()?).ok()?.id;
            machine.as_ref()?.nodes().position(|node| node.id == of).map(|at| at + 1)
        };
        let column = |of: &dyn Fn(&Key, u64) -> Value| -> Vec<Value> {
            self.counts.iter().map(|(key, &count)| of(key, count)).collect()
        };
        json!({
            "schema": "servsim.rset.sample/1",
            "program": std::env::args().next(),
            "process": std::process::id(),
            "capabilities": {
                "exact": false,
                "counts": "short moments in which a page was protected and this thread touched it first",
                "granularity_bytes": PAGE,
                "addresses": "virtual",
                "who": ["node", "processor", "thread"],
                "sees_kernel": false,
            },
            "periods": self.periods,
            "lost": self.lost,
            "samples": self.counts.values().sum::<u64>(),
            "histogram": {
                "address": column(&|key, _| json!(format!("{:#x}", key.address))),
                "data": column(&|key, _| json!(names[&key.data])),
                "offset": column(&|key, _| json!(format!("{:#x}", key.offset))),
                "node": column(&|key, _| json!(node(key.processor))),
                "processor": column(&|key, _| json!(key.processor)),
                "thread": column(&|key, _| json!(key.thread)),
                "count": column(&|_, count| json!(count)),
            },
        })
    }
}
