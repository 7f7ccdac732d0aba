//! What the sampler found: notes of faults, counted by page, thread and processor, and the document made of them.

use crate::faults::Touch;
use crate::{modules, sizes::PAGE};
use serde_json::{json, Value};
use servsim_rset::Topology;
use std::collections::BTreeMap;
use std::ffi::CStr;

/// Bytes of a name (the kernel's `ANON_VMA_NAME_MAX_LEN`).
pub const NAME: usize = 80;

/// A thread with less than one of so many touches is none that the pages are shared with.
const FEW: u64 = 50;

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
    /// The same by thread.
    pub threads: BTreeMap<u64, u64>,
    /// Notes of what was given back before they were read.
    pub lost: u64,
    /// Moments so far, and pages that were protected in them.
    pub moments: u64,
    pub pages: u64,
}

impl Found {
    /// Counts a touch of the page at an address, where something lies so far from its beginning.
    pub fn count(&mut self, data: Option<(Data, usize)>, address: usize, touch: &Touch) {
        let Some((data, offset)) = data else {
            self.lost += 1;
            return;
        };
        let key = Key { data, offset, address, processor: touch.processor, thread: touch.thread };
        *self.counts.entry(key).or_default() += 1;
        *self.threads.entry(touch.thread).or_default() += 1;
    }

    /// Threads with more than a few of the touches so far, at least one.
    pub fn threads(&self) -> usize {
        let all: u64 = self.threads.values().sum();
        self.threads.values().filter(|&&own| own * FEW > all).count().max(1)
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
            "moments": self.moments,
            "pages_protected": self.pages,
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
