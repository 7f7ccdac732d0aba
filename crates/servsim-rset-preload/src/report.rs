//! Where the pages lie at the end, wished and found.

use crate::heap::HEAP;
use crate::placing::MOST_NODES;
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
}

/// Standard error as it was at the beginning: programs close their own before they end. Negative when it is not wanted.
static STANDARD_ERROR: AtomicI32 = AtomicI32::new(-1);

/// Looks whether a report is wanted on standard error.
pub fn prepare() {
    if std::env::var("SERVSIM_RSET_REPORT").is_ok_and(|target| target == "-") {
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
    let placing = |arena| (arena != MOST_NODES).then(|| HEAP.placing()).flatten();
    let allowed = |arena, page, node| placing(arena).is_none_or(|placing| placing.allows(arena, page, node));
    let mut found = Found::default();
    HEAP.for_each_chunk(|start, length, arena, placed| {
        if !placed {
            found.refused += 1;
        }
        for first in (start..start + length).step_by(PAGE * 512) {
            let pages: Vec<usize> = (first..(start + length).min(first + PAGE * 512)).step_by(PAGE).collect();
            let mut status = vec![-1; pages.len()];
            if raw::move_pages(&pages, None, &mut status).is_err() {
                continue;
            }
            for (&page, node) in pages.iter().zip(status) {
                if node < 0 {
                    found.absent += 1;
                } else {
                    *found.per_node.entry(node).or_default() += 1;
                    found.elsewhere += u64::from(!allowed(arena, page, node));
                }
            }
        }
    });
    json!({
        "schema": "servsim.rset.report/1",
        "program": std::env::args().next(),
        "process": std::process::id(),
        "pages_per_node": found.per_node.iter().map(|(node, pages)| (node.to_string(), json!(pages))).collect::<serde_json::Map<_, _>>(),
        "pages_elsewhere": found.elsewhere,
        "pages_untouched": found.absent,
        "ranges_refused": found.refused,
    })
}
