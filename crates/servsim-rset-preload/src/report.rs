//! Where the pages lie at the end, wished and found.

use crate::heap::HEAP;
use crate::rules::{self, Rule};
use crate::sites;
use crate::sizes::PAGE;
use serde_json::json;
use servsim_rset::raw;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};

/// What was found of one node's wish.
#[derive(Default)]
struct Found {
    per_node: BTreeMap<i32, u64>,
    elsewhere: u64,
    absent: u64,
    refused: u64,
    unknown: u64,
}

/// Standard error as it was at the beginning: programs close their own before they end. Negative when it is not wanted.
static STANDARD_ERROR: AtomicI32 = AtomicI32::new(-1);

/// Looks whether a report is wanted, and where.
pub fn prepare() {
    let Ok(target) = std::env::var("SERVSIM_RSET_REPORT") else { return };
    sites::want();
    if target == "-" {
        // SAFETY: makes a descriptor of this library's own.
        STANDARD_ERROR.store(unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 3) }, Ordering::Relaxed);
    }
}

/// Writes the report, if one is wanted. A target that cannot be written is nothing to end a program for.
pub extern "C" fn at_exit() {
    let Ok(target) = std::env::var("SERVSIM_RSET_REPORT") else { return };
    let text = format!("{}\n", report());
    let descriptor = STANDARD_ERROR.load(Ordering::Relaxed);
    if descriptor >= 0 {
        // SAFETY: writes from a string that lives.
        unsafe { libc::write(descriptor, text.as_ptr().cast(), text.len()) };
    } else if let Err(error) = append(&target, &text) {
        let said = format!("servsim rset: cannot write the report to {target}: {error}\n");
        // SAFETY: as above.
        unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
    }
}

/// Adds a line: every program that the first one starts has its own.
fn append(target: &str, text: &str) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).create(true).open(target)?.write_all(text.as_bytes())
}

fn report() -> serde_json::Value {
    // What was allocated before the policy was read lies anywhere.
    let placing = |zone: Option<usize>| zone.and_then(|zone| HEAP.placing(zone));
    let mut found = Found::default();
    HEAP.for_each_chunk(|chunk| {
        if !chunk.placed {
            found.refused += 1;
        }
        if chunk.in_parts {
            // Its rules tell.
            return;
        }
        let end = chunk.start + chunk.length;
        for first in (chunk.start..end).step_by(PAGE * 512) {
            let pages: Vec<usize> = (first..end.min(first + PAGE * 512)).step_by(PAGE).collect();
            let mut status = vec![-1; pages.len()];
            if raw::move_pages(&pages, None, &mut status).is_err() {
                found.unknown += pages.len() as u64;
                continue;
            }
            for (&page, node) in pages.iter().zip(status) {
                if node < 0 {
                    found.absent += 1;
                } else {
                    *found.per_node.entry(node).or_default() += 1;
                    let allowed =
                        placing(chunk.zone).is_none_or(|placing| placing.allows(chunk.arena, page, node));
                    found.elsewhere += u64::from(!allowed);
                }
            }
        }
    });
    rules::settle();
    let of_rules = rules::rules().map_or(&[][..], |rules| &rules.list);
    json!({
        "schema": "servsim.rset.report/1",
        "program": std::env::args().next(),
        "process": std::process::id(),
        "pages_per_node": found.per_node.iter().map(|(node, pages)| (node.to_string(), json!(pages))).collect::<serde_json::Map<_, _>>(),
        "pages_elsewhere": found.elsewhere,
        "pages_untouched": found.absent,
        "pages_unknown": found.unknown,
        "ranges_refused": found.refused,
        "rules": of_rules.iter().map(told).collect::<Vec<_>>(),
        "sites": sites::report(),
    })
}

/// What became of a rule: without pages, nothing that the program did fell under it.
fn told(rule: &Rule) -> serde_json::Value {
    let nodes = rule.per_node.iter().enumerate().filter(|(_, pages)| pages.get() > 0);
    json!({
        "rule": rule.name,
        "wished": rule.wish,
        "pages_per_node": nodes.map(|(node, pages)| (node.to_string(), json!(pages.get()))).collect::<serde_json::Map<_, _>>(),
        "pages_elsewhere": rule.elsewhere.get(),
        "pages_unknown": rule.unknown.get(),
        "ranges_refused": rule.refused.get(),
    })
}
