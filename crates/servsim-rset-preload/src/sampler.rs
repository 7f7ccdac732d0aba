//! A monitor without performance counters: pages are protected at random moments, and whoever touches one next is noted.
//!
//! Watched are mappings with a name and large allocations, whose pages hold data of the program alone. Every period a
//! thread of this library protects some of their pages, drawn at random, for a short moment. The fault of a touch opens
//! the page and notes the page, the thread and the processor; what nobody touched is opened at the end of the moment. So a
//! count is the number of moments in which somebody was first: short moments, because in long ones somebody who touches a
//! page seldom comes first while its owner does not run. How many pages are protected goes by what a fault takes here.
//!
//! The kernel itself does not fault on a protected page but fails the call (`EFAULT`), so memory that a program hands to
//! system calls must not be watched this way; numeric programs rarely do that.

use crate::faults::{self, WATCHING, WRITTEN};
use crate::lock::Lock;
use crate::sampled::{Data, Found, NAME};
use crate::sizes::PAGE;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::mem::zeroed;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ranges that can be watched at once.
const MOST_RANGES: usize = 4096;
/// Pages that are protected at once: each is a mapping of its own for the kernel, of 65,530.
const MOST_PROTECTED: usize = 1000;
/// Share of the program's processor time that faults may take.
const SHARE: f64 = 0.02;
/// Faults that are tried to know what one takes.
const TRIED: u32 = 64;
#[derive(Clone, Copy)]
struct Watched {
    start: usize,
    end: usize,
    data: Data,
}

struct Ranges {
    held: usize,
    list: [Watched; MOST_RANGES],
    pages: usize,
}

static RANGES: Lock<Ranges> = Lock::new(Ranges {
    held: 0,
    list: [Watched { start: 0, end: 0, data: Data { name: [0; NAME], site: 0 } }; MOST_RANGES],
    pages: 0,
});
static FOUND: Lock<Found> = Lock::new(Found { counts: BTreeMap::new(), read: 0, lost: 0, periods: 0 });
/// Where what was found goes.
static TARGET: OnceLock<OsString> = OnceLock::new();

/// Begins to watch, when the environment asks for it: this program, not those that it starts.
pub fn begin() {
    let Some(target) = std::env::var_os("SERVSIM_RSET_SAMPLE") else { return };
    std::env::remove_var("SERVSIM_RSET_SAMPLE");
    let _ = TARGET.set(target);
    let period: u64 =
        std::env::var("SERVSIM_RSET_SAMPLE_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    if !faults::handle() {
        return;
    }
    WATCHING.store(true, Relaxed);
    let cost = cost_of_a_fault();
    FOUND.with(|found| found.read = WRITTEN.load(Relaxed));
    let looks = move || {
        // The program's signals are for its own threads.
        // SAFETY: a set of this thread's own.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut set);
            libc::sigdelset(&raw mut set, libc::SIGSEGV);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        let mut before = processor_time();
        while WATCHING.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(period));
            let now = processor_time();
            let faults = now.saturating_sub(before).as_secs_f64() * SHARE / cost.as_secs_f64();
            look(faults as usize);
            before = now;
        }
    };
    if std::thread::Builder::new().name("servsim-sampler".into()).spawn(looks).is_err() {
        WATCHING.store(false, Relaxed);
        eprintln!("servsim rset: cannot begin a thread to sample with; nothing is sampled");
    }
}

/// What a fault takes on this host: of some on a page of ours, the mean.
fn cost_of_a_fault() -> Duration {
    let Ok(page) = servsim_rset::raw::map(PAGE) else { return Duration::from_micros(50) };
    let Some(slot) = faults::take_slot(page) else { return Duration::from_micros(50) };
    let begin = Instant::now();
    for _ in 0..TRIED {
        faults::close(slot);
        // SAFETY: the handler opens the page.
        unsafe { (page as *mut u8).write_volatile(1) };
    }
    let took = begin.elapsed() / TRIED;
    // SAFETY: nobody else knows of it.
    unsafe { servsim_rset::raw::unmap(page, PAGE) };
    took.max(Duration::from_nanos(500))
}

/// What the process has used of processors.
fn processor_time() -> Duration {
    faults::clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Watches a mapping with a name.
pub fn named(start: usize, bytes: usize, name: &CStr) {
    let mut data = Data { name: [0; NAME], site: 0 };
    data.name.iter_mut().zip(name.to_bytes()).for_each(|(to, from)| *to = *from);
    watch(start, bytes, data);
}

/// Watches a large allocation.
pub fn allocated(start: usize, bytes: usize, site: usize) {
    watch(start, bytes, Data { name: [0; NAME], site });
}

fn watch(start: usize, bytes: usize, data: Data) {
    if !WATCHING.load(Relaxed) {
        return;
    }
    goes(start, bytes);
    RANGES.with(|ranges| {
        if ranges.held < MOST_RANGES {
            ranges.list[ranges.held] = Watched { start, end: start + bytes / PAGE * PAGE, data };
            ranges.held += 1;
            ranges.pages += bytes / PAGE;
        }
    });
}

/// Watches a range no more; its protected pages are opened.
pub fn goes(start: usize, bytes: usize) {
    if !WATCHING.load(Relaxed) {
        return;
    }
    let end = start.saturating_add(bytes);
    RANGES.with(|ranges| {
        let mut at = 0;
        while at < ranges.held {
            let range = ranges.list[at];
            if range.start < end && start < range.end {
                (range.start..range.end).step_by(PAGE).filter_map(faults::slot_of).for_each(faults::open);
                ranges.held -= 1;
                ranges.list[at] = ranges.list[ranges.held];
                ranges.pages -= (range.end - range.start) / PAGE;
            } else {
                at += 1;
            }
        }
    });
}

/// Takes the locks, so that a child of a fork finds all whole.
pub fn hold() {
    FOUND.take();
    RANGES.take();
}

/// Gives them back.
pub fn release() {
    RANGES.give();
    FOUND.give();
}

/// In a child of a fork nobody looks: pages that are protected open when they are touched.
pub fn abandon() {
    WATCHING.store(false, Relaxed);
}

/// Protects some pages for a moment, and counts who touched them.
fn look(faults: usize) {
    let mut period = 0;
    FOUND.with(|found| {
        found.periods += 1;
        period = found.periods;
    });
    let mut closed = [0; MOST_PROTECTED];
    let many = RANGES.with(|ranges| close(ranges, period, &mut closed[..faults.min(MOST_PROTECTED)]));
    std::thread::sleep(faults::MOMENT);
    FOUND.with(|found| {
        RANGES.with(|ranges| {
            closed[..many].iter().copied().for_each(faults::open);
            found.count(|address| ranges.data(address));
        });
    });
}

/// Protects pages drawn at random, as many as there is room for; returns how many.
fn close(ranges: &mut Ranges, period: u64, closed: &mut [usize]) -> usize {
    if !WATCHING.load(Relaxed) || ranges.pages == 0 {
        return 0;
    }
    // Splitmix64 (Steele, Lea and Flood 2014) from a number for each period: further apart than there are draws in one.
    let mut state = (period << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let mut many = 0;
    for _ in 0..closed.len() {
        let page = ranges.page(draw() as usize % ranges.pages);
        if let Some(slot) = page.and_then(faults::take_slot).filter(|&slot| faults::close(slot)) {
            closed[many] = slot;
            many += 1;
        }
    }
    many
}

impl Ranges {
    /// What lies at an address, and how far from its beginning.
    fn data(&self, address: usize) -> Option<(Data, usize)> {
        let range =
            self.list[..self.held].iter().find(|range| (range.start..range.end).contains(&address))?;
        Some((range.data, address - range.start))
    }

    /// A page by its number among all.
    fn page(&self, mut number: usize) -> Option<usize> {
        for range in &self.list[..self.held] {
            let pages = (range.end - range.start) / PAGE;
            if number < pages {
                return Some(range.start + number * PAGE);
            }
            number -= pages;
        }
        None
    }
}

/// Writes what was found, when it was asked for.
pub fn at_exit() {
    if !WATCHING.swap(false, Relaxed) {
        return;
    }
    let Some(target) = TARGET.get() else { return };
    let mut document = Value::Null;
    FOUND.with(|found| {
        RANGES.with(|ranges| found.count(|address| ranges.data(address)));
    });
    FOUND.with(|found| document = found.document());
    if let Err(error) = write(target, &format!("{document}\n")) {
        eprintln!("servsim rset: cannot write what was sampled to {}: {error}", target.to_string_lossy());
    }
}

/// Writes a file that is whole or not there; a device, a pipe, is written as it is.
fn write(target: &OsString, text: &str) -> std::io::Result<()> {
    if std::fs::metadata(target).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(target, text);
    }
    let mut partial = target.clone();
    partial.push(format!(".{}.partial", std::process::id()));
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, target)
}
