//! A monitor without performance counters: pages are protected for short moments, and whoever touches one next is noted.
//!
//! Watched are mappings with a name and large allocations, whose pages hold data of the program alone. They are divided
//! into *stretches*, which a thread of this library protects in turn, each by one call, for a moment. The fault of a touch
//! opens the page and notes the thread and the processor; then the rest is opened, by one call again. So a count is the
//! number of moments in which somebody was first.
//!
//! What it costs: a signal for each touch, which nothing avoids without help by the kernel, and changes of mappings, during
//! which everybody who touches one waits. To split a mapping at every touched page and to join it again takes longer than
//! the signal; so a stretch is split into its pages for good, once, by advice about reading ahead, which means nothing to
//! such memory, for every other page. Of a process's mappings ([`pool::mappings`]) a quarter may be used up so; what is watched
//! beyond is split for its moment only. What was spent is counted, and the next moment comes when that is no more than
//! a share of the program's processor time. Stretches are long, so that whoever runs has pages of its own in them.
//!
//! A thread's moment begins with its first touch, which counts nothing because somebody is always first, and is of the
//! thread's own processor time without that of its faults: so a thread that faults at every step sees as much of what it
//! uses as one that rarely does, whoever has the processors. Moments are so long that about half of the pages that a
//! thread uses all the time are touched, and no more count of a thread than half of its equal share of a stretch; in longer
//! ones those that it uses seldom would catch up. Later touches count
//! nothing, and much later ones open all, because this library's own thread did not get a processor in time.
//!
//! Other ways were weighed. Userfaultfd's write protection neither splits mappings nor needs as long, but does not see who
//! reads. Its missing pages see that, at the price of moving the program's data out and back. Protection keys would need
//! no change of mappings at all; few hosts have them. The kernel's own hint faults are on machines of several nodes only,
//! at the kernel's times, and tell their addresses to privileged readers of events.
//!
//! The kernel itself does not fault on a protected page but fails the call (`EFAULT`), so memory that a program hands to
//! system calls must not be watched this way; numeric programs rarely do that. A range whose protection the program changes
//! is watched no more.

use crate::faults::{self, FAULTS, WATCHING};
use crate::lock::Lock;
use crate::pool;
use crate::ranges::{Ranges, RANGES};
use crate::sampled::{Data, Found, NAME};
use crate::sizes::PAGE;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsString};
use std::mem::zeroed;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Share of the program's processor time that sampling may take.
const SHARE: f64 = 0.02;
/// Faults that are tried to know what one takes.
const TRIED: usize = 64;
/// The first, the shortest and the longest moment, of a thread's own time.
const MOMENT: Duration = Duration::from_micros(40);
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(5);
/// The moment shrinks by a factor when fewer pages are touched in its second half than this share of those in its first,
/// and grows otherwise: so a thread touches half of the pages that it uses all the time (1 - .7^2).
const LATER: f64 = 0.7;
const CHANGES: f64 = 1.3;
/// Touches that tell.
const ENOUGH: u64 = 50;
/// The longest time between two moments, when the program does hardly anything.
const PAUSE: Duration = Duration::from_millis(200);
/// How often it is looked whether a moment has begun.
const POLL: Duration = Duration::from_millis(1);
/// The fractional part of the golden ratio: its multiples, modulo one, fill every interval evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

static FOUND: Lock<Found> =
    Lock::new(Found { counts: BTreeMap::new(), threads: BTreeMap::new(), lost: 0, moments: 0, pages: 0 });
/// Where what was found goes.
static TARGET: OnceLock<OsString> = OnceLock::new();

/// Begins to watch, when the environment asks for it: this program, not those that it starts.
pub fn begin() {
    let Some(target) = std::env::var_os("SERVSIM_RSET_SAMPLE") else { return };
    std::env::remove_var("SERVSIM_RSET_SAMPLE");
    let _ = TARGET.set(target);
    let share = std::env::var("SERVSIM_RSET_SAMPLE_SHARE").ok().and_then(|text| text.parse().ok());
    if !faults::handle() {
        return;
    }
    let looks = Looks::new(share.filter(|share| (0.0001..=1.0).contains(share)).unwrap_or(SHARE));
    WATCHING.store(true, Relaxed);
    if std::thread::Builder::new().name("servsim-sampler".into()).spawn(move || looks.go_on()).is_err() {
        WATCHING.store(false, Relaxed);
        eprintln!("servsim rset: cannot begin a thread to sample with; nothing is sampled");
    }
}

/// What this library's thread knows.
struct Looks {
    share: f64,
    /// What a fault takes.
    fault: Duration,
    /// Pages that may be split for good.
    pages: usize,
    moment: Duration,
    /// Moments so far.
    number: u64,
    /// Whether it was said that pages cannot be protected.
    said: bool,
}

/// What a moment took.
struct Took {
    pages: usize,
    faults: u64,
    /// In which the kernel changed mappings.
    changing: Duration,
}

impl Looks {
    fn new(share: f64) -> Self {
        let fault = cost_of_a_fault();
        // A little less: what is taken off too much would never let a moment end.
        faults::FAULT.store(fault.as_nanos() as u64 * 9 / 10, Relaxed);
        Self { share, fault, pages: pool::mappings() / 4, moment: MOMENT, number: 0, said: false }
    }

    fn go_on(mut self) {
        // The program's signals are for its own threads.
        // SAFETY: a set of this thread's own.
        unsafe {
            let mut set: libc::sigset_t = zeroed();
            libc::sigfillset(&raw mut set);
            libc::sigdelset(&raw mut set, libc::SIGSEGV);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        let mut allowed = Duration::ZERO;
        // Processors that the program keeps busy, as last seen.
        let mut busy = 1.0;
        while WATCHING.load(Relaxed) {
            let (used, begin) = (processor_time(), Instant::now());
            std::thread::sleep(allowed.clamp(SHORTEST, PAUSE));
            let passed = begin.elapsed().as_secs_f64();
            let had = processor_time().saturating_sub(used).as_secs_f64();
            busy = 0.9 * busy + 0.1 * (had / passed);
            allowed = allowed.saturating_sub(Duration::from_secs_f64(had / busy.max(0.01)));
            if allowed > SHORTEST {
                continue;
            }
            let Some(took) = self.look() else {
                allowed = PAUSE;
                continue;
            };
            // Whoever runs meanwhile waits for the kernel's lock of the mappings.
            let spent = took.changing.mul_f64(1.0 + busy) + self.fault * took.faults as u32;
            allowed = spent.div_f64(self.share * busy.max(0.01));
            let [early, late] = faults::halves();
            let fewer = early + late >= ENOUGH && (late as f64) < LATER * early as f64;
            let changed = if fewer { self.moment.div_f64(CHANGES) } else { self.moment.mul_f64(CHANGES) };
            self.moment = changed.clamp(SHORTEST, LONGEST);
        }
    }

    /// Protects a stretch for a moment, and counts who touched it.
    fn look(&mut self) -> Option<Took> {
        self.number += 1;
        let (begin, faults) = (thread_time(), FAULTS.load(Relaxed));
        let (at, pages, moment) = (self.number as f64 * GOLDEN % 1.0, self.pages, self.moment);
        let threads = FOUND.with(|found| found.threads());
        let stretch = match RANGES.with(|ranges| ranges.close(at, pages, threads, moment))? {
            Ok(stretch) => stretch,
            Err(number) => {
                if !std::mem::replace(&mut self.said, true) {
                    let error = std::io::Error::from_raw_os_error(number);
                    eprintln!("servsim rset: cannot protect pages to sample who uses them ({error}; vm.max_map_count is what a process may have of mappings); the samples are of other moments");
                }
                return None;
            }
        };
        // While no thread of the program touches it, which may be because none has a processor, it costs nothing.
        let closed = Instant::now();
        while !faults::begun() && closed.elapsed() < PAUSE && WATCHING.load(Relaxed) {
            std::thread::sleep(POLL);
        }
        std::thread::sleep(moment + self.fault * (stretch.bytes / PAGE) as u32 / 4);
        let mut took = Took { pages: stretch.bytes / PAGE, faults: 0, changing: Duration::ZERO };
        FOUND.with(|found| {
            RANGES.with(|ranges| {
                ranges.open();
                took.faults = FAULTS.load(Relaxed) - faults;
                took.changing = thread_time().saturating_sub(begin);
                found.moments += 1;
                found.pages += took.pages as u64;
                for touch in faults::touches() {
                    let address = stretch.start + touch.page * PAGE;
                    found.count(ranges.data(address), address, &touch);
                }
            });
        });
        Some(took)
    }
}

/// What a fault takes on this host: of some on a page of ours, the median.
fn cost_of_a_fault() -> Duration {
    let unknown = Duration::from_micros(10);
    let Ok(page) = servsim_rset::raw::map(PAGE) else { return unknown };
    let mut took = [unknown; TRIED];
    for took in &mut took {
        if faults::close(page, PAGE, Duration::from_secs(1), 1).is_err() {
            return unknown;
        }
        let begin = thread_time();
        // SAFETY: the handler opens the page.
        unsafe { (page as *mut u8).write_volatile(1) };
        *took = thread_time().saturating_sub(begin);
    }
    took.sort_unstable();
    let took = took[TRIED / 2];
    faults::open(page, PAGE);
    // SAFETY: nobody else knows of it.
    unsafe { servsim_rset::raw::unmap(page, PAGE) };
    took.max(Duration::from_nanos(500))
}

/// What the process has used of processors.
fn processor_time() -> Duration {
    faults::clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// What this thread has used of them.
fn thread_time() -> Duration {
    faults::clock(libc::CLOCK_THREAD_CPUTIME_ID)
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
    RANGES.with(|ranges| ranges.add(start, bytes, data));
}

/// Watches a range no more; what of it is protected is opened.
pub fn goes(start: usize, bytes: usize) {
    if !WATCHING.load(Relaxed) {
        return;
    }
    RANGES.with(|ranges| ranges.remove(start, start.saturating_add(bytes)));
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

/// In a child of a fork nobody looks: what is protected is opened.
pub fn abandon() {
    if WATCHING.swap(false, Relaxed) {
        RANGES.with(Ranges::open);
    }
}

/// Writes what was found, when it was asked for.
pub fn at_exit() {
    if !WATCHING.swap(false, Relaxed) {
        return;
    }
    let Some(target) = TARGET.get() else { return };
    let mut document = Value::Null;
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
