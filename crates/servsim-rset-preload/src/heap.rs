//! The heap: small allocations in runs of one size, large ones mapped one by one; nothing in here allocates.
//!
//! Memory comes in *chunks* that begin at multiples of a mebibyte, with a header in their first page, so that the header
//! of any allocation is found from its address. A chunk of small allocations has fifteen *runs* of 64 KiB behind that of
//! its header; a large allocation has a chunk of its own, however long. Each *arena* takes its chunks from one place: one
//! for every node that a policy distinguishes. A *zone* is all arenas of one policy: the first is that of all
//! allocations without a rule, each of the others that of an allocation site with one. Over 400 lines: who holds which lock
//! is easier to see in one place.

use crate::lock::Lock;
use crate::placing::{Placing, MOST_NODES};
use crate::rules;
use crate::sizes::{self, CHUNK, CLASSES, PAGE};
use crate::{pool, sampler, sites};
use servsim_rset::raw;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

const RUN: usize = 64 << 10;
const RUNS: usize = CHUNK / RUN;
/// Allocations aligned to whole chunks have their headers elsewhere: so many at a time.
const MOST_ALIGNED: usize = 1024;
/// Zones that there can be: one for everything without a rule, the others for allocation sites with one.
pub const MOST_ZONES: usize = 129;
/// What was allocated before anything was told.
const EARLY: usize = MOST_ZONES;

/// The first page of a chunk.
#[repr(C)]
pub struct Header {
    /// The next chunk of the arena's list.
    next: *mut Header,
    previous: *mut Header,
    zone: usize,
    arena: usize,
    /// Bytes of the whole mapping.
    length: usize,
    /// Where the only allocation begins, for a large one; 0 for a chunk of runs.
    begin: usize,
    /// Class of each run, for a chunk of runs.
    class: [u8; RUNS],
    /// Whether the kernel took the chunk's policy.
    placed: bool,
    /// Whether ranges of the allocation have rules of their own.
    in_parts: bool,
}

impl Header {
    fn chunk(&self) -> Chunk {
        Chunk {
            start: std::ptr::from_ref(self) as usize,
            length: self.length,
            zone: (self.zone != EARLY).then_some(self.zone),
            arena: self.arena,
            placed: self.placed,
            in_parts: self.in_parts,
        }
    }
}

struct Arena {
    chunks: *mut Header,
    /// Allocations of each class that were given back.
    free: [*mut Free; CLASSES],
    /// What is left of each class's newest run: nobody has touched it, so that its pages go to who first does.
    fresh: [(usize, usize); CLASSES],
    /// The newest chunk, and how many of its runs nobody has yet.
    spare: *mut Header,
    runs_left: usize,
}

struct Free {
    next: *mut Free,
}

// SAFETY: its pointers lead to memory that only the holder of its lock reaches.
unsafe impl Send for Arena {}

#[derive(Clone, Copy)]
struct Aligned {
    memory: usize,
    header: usize,
}

/// The arenas of one policy. All zeros at first, so that zones that nobody needs take no memory.
struct Zone {
    arenas: [Lock<Arena>; MOST_NODES],
    placing: AtomicPtr<Placing>,
}

/// All of the heap.
pub struct Heap {
    zones: [Zone; MOST_ZONES + 1],
    /// Zones that were told where to take memory from.
    placed: AtomicUsize,
    aligned: Lock<[Aligned; MOST_ALIGNED]>,
    complained: AtomicBool,
    /// Chunks with mappings of their own, and how many there may be; whether there were too many.
    chunks: AtomicUsize,
    most_chunks: AtomicUsize,
    crowded: AtomicBool,
}

/// A chunk, for whoever looks at all of them.
#[derive(Clone, Copy)]
pub struct Chunk {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub length: usize,
    /// Its zone, where that was told a policy.
    pub zone: Option<usize>,
    /// Its arena: the node of the thread that allocated.
    pub arena: usize,
    /// Whether the kernel took its policy.
    pub placed: bool,
    /// Whether ranges of it have rules of their own.
    pub in_parts: bool,
}

/// Where a thread allocates at a moment.
#[derive(Clone, Copy)]
struct Here {
    zone: usize,
    arena: usize,
}

/// The heap of this process.
pub static HEAP: Heap = Heap::new();

impl Arena {
    const fn new() -> Self {
        Self {
            chunks: null_mut(),
            free: [null_mut(); CLASSES],
            fresh: [(0, 0); CLASSES],
            spare: null_mut(),
            runs_left: 0,
        }
    }
}

impl Heap {
    #[allow(clippy::large_stack_arrays)] // It is evaluated by the compiler.
    const fn new() -> Self {
        #[allow(clippy::declare_interior_mutable_const)] // Each use is a zone of its own.
        const ZONE: Zone = Zone {
            arenas: [const { Lock::new(Arena::new()) }; MOST_NODES],
            placing: AtomicPtr::new(null_mut()),
        };
        Self {
            zones: [const { ZONE }; MOST_ZONES + 1],
            placed: AtomicUsize::new(0),
            aligned: Lock::new([Aligned { memory: 0, header: 0 }; MOST_ALIGNED]),
            complained: AtomicBool::new(false),
            chunks: AtomicUsize::new(0),
            most_chunks: AtomicUsize::new(usize::MAX),
            crowded: AtomicBool::new(false),
        }
    }

    /// From now on takes memory without a rule so.
    pub fn place(&self, placing: &'static Placing) {
        self.zones[0].placing.store(std::ptr::from_ref(placing).cast_mut(), Ordering::Release);
        self.placed.fetch_max(1, Ordering::Release);
    }

    /// Makes a zone that takes memory so; `None` when there are too many. After [`Self::place`], by one thread.
    pub fn zone(&self, placing: &'static Placing) -> Option<usize> {
        let zone = self.placed.load(Ordering::Acquire);
        if zone == MOST_ZONES {
            return None;
        }
        self.zones[zone].placing.store(std::ptr::from_ref(placing).cast_mut(), Ordering::Release);
        self.placed.store(zone + 1, Ordering::Release);
        Some(zone)
    }

    /// What a zone was told, if anything was.
    pub fn placing(&self, zone: usize) -> Option<&'static Placing> {
        // SAFETY: it points at what `place` or `zone` was given, which is shared and for ever.
        unsafe { self.zones[zone].placing.load(Ordering::Acquire).as_ref() }
    }

    fn zones_in_use(&self) -> impl Iterator<Item = &Zone> {
        let placed = self.placed.load(Ordering::Acquire);
        self.zones[..placed].iter().chain(&self.zones[EARLY..])
    }

    /// Takes every lock, so that a child of a fork finds the heap whole.
    pub fn hold(&self) {
        self.zones_in_use().flat_map(|zone| &zone.arenas).for_each(Lock::take);
        self.aligned.take();
        pool::hold();
    }

    /// Gives them back.
    pub fn release(&self) {
        pool::release();
        self.aligned.give();
        self.zones_in_use().flat_map(|zone| &zone.arenas).for_each(Lock::give);
    }

    /// Memory for `bytes` for whoever called from `site`, and whether it is known to be zero; null when there is none.
    pub fn allocate(&self, bytes: usize, alignment: usize, site: usize) -> (*mut u8, bool) {
        sites::count(site, bytes);
        let rule = rules::of_site(site);
        let here = self.here(rule.and_then(|rule| rule.zone).unwrap_or(0));
        if let Some(class) = sizes::class(bytes, alignment) {
            return self.zones[here.zone].arenas[here.arena].with(|held| self.small(held, here, class));
        }
        let memory = self.large(here, bytes, alignment);
        if !memory.is_null() {
            if let (Some(named), Some(rules)) = (rule.filter(|named| named.has_parts()), rules::rules()) {
                // SAFETY: the allocation is nobody else's yet.
                unsafe { (*self.header(memory)).in_parts = true };
                named.place(rules, memory as usize, bytes.next_multiple_of(PAGE));
            }
            sampler::allocated(memory as usize, bytes, site);
        }
        (memory, true)
    }

    /// The arena of this thread at this moment.
    fn here(&self, zone: usize) -> Here {
        match self.placing(zone) {
            None => Here { zone: EARLY, arena: 0 },
            Some(placing) => Here { zone, arena: placing.arena() },
        }
    }

    /// A small allocation, and whether it is zero.
    fn small(&self, held: &mut Arena, here: Here, class: usize) -> (*mut u8, bool) {
        let first = held.free[class];
        if !first.is_null() {
            // SAFETY: what is in the list is free memory of this arena, whose lock is held.
            held.free[class] = unsafe { (*first).next };
            return (first.cast(), false);
        }
        let (next, end) = held.fresh[class];
        let next = if next == end { self.run(held, here, class) } else { next };
        if next == 0 {
            return (null_mut(), false);
        }
        held.fresh[class].0 = next + sizes::bytes(class);
        (next as *mut u8, true)
    }

    /// Gives a class a run of its own; 0 when there is no memory.
    fn run(&self, held: &mut Arena, here: Here, class: usize) -> usize {
        if held.runs_left == 0 {
            let chunk = self.chunk(here, CHUNK);
            if chunk.is_null() {
                return 0;
            }
            held.link(chunk);
            (held.spare, held.runs_left) = (chunk, RUNS - 1);
        }
        let index = RUNS - held.runs_left;
        let run = held.spare as usize + index * RUN;
        // SAFETY: the chunk is this arena's, and the run is nobody's yet.
        unsafe { (*held.spare).class[index] = class as u8 };
        held.runs_left -= 1;
        let bytes = sizes::bytes(class);
        held.fresh[class] = (run, run + RUN / bytes * bytes);
        run
    }

    fn large(&self, here: Here, bytes: usize, alignment: usize) -> *mut u8 {
        // Where it begins in its chunk; with whole chunks of alignment, how far behind the header's chunk at most.
        let begin = alignment.max(PAGE);
        let Some(length) = bytes.checked_add(begin).and_then(|sum| sum.checked_next_multiple_of(PAGE)) else {
            return null_mut();
        };
        if length > isize::MAX as usize / 2 {
            return null_mut();
        }
        let chunk = self.chunk(here, length);
        if chunk.is_null() {
            return null_mut();
        }
        let memory = if alignment < CHUNK {
            chunk as usize + begin
        } else {
            (chunk as usize + PAGE).next_multiple_of(alignment)
        };
        // SAFETY: the header is of the chunk just made.
        unsafe { (*chunk).begin = memory };
        if alignment >= CHUNK && !self.remember(memory, chunk as usize) {
            // SAFETY: nobody knows of it.
            unsafe { self.unmap(chunk as usize, length) };
            return null_mut();
        }
        self.zones[here.zone].arenas[here.arena].with(|held| held.link(chunk));
        memory as *mut u8
    }

    /// A chunk of at least `length` bytes, placed; null when there is no memory.
    fn chunk(&self, here: Here, length: usize) -> *mut Header {
        let Some((start, placed)) = self.map(here, length) else { return null_mut() };
        let chunk = start as *mut Header;
        // SAFETY: the chunk is mapped, zeroed and nobody else's.
        unsafe {
            (*chunk).zone = here.zone;
            (*chunk).arena = here.arena;
            (*chunk).length = length;
            (*chunk).placed = placed;
        }
        chunk
    }

    /// Fresh memory for a chunk, and whether it lies as its policy says.
    fn map(&self, here: Here, length: usize) -> Option<(usize, bool)> {
        if self.chunks.load(Ordering::Relaxed) < self.most_chunks.load(Ordering::Relaxed) {
            if let Ok(found) = raw::map(length + CHUNK) {
                let start = found.next_multiple_of(CHUNK);
                // SAFETY: both ends are of the mapping just made, outside of the chunk.
                unsafe {
                    raw::unmap(found, start - found);
                    raw::unmap(start + length, found + CHUNK - start);
                }
                self.chunks.fetch_add(1, Ordering::Relaxed);
                return Some((start, self.place_chunk(here, start, length)));
            }
        }
        let start = pool::take(length);
        if start != 0 && !self.crowded.swap(true, Ordering::Relaxed) {
            say(b"servsim rset: the process has almost as many mappings as it may have (vm.max_map_count); memory is placed as the kernel does by default from now on\n");
        }
        (start != 0).then_some((start, false))
    }

    /// Gives a chunk's memory back.
    ///
    /// # Safety
    /// It came from [`Self::map`], and nobody uses it.
    unsafe fn unmap(&self, start: usize, length: usize) {
        // SAFETY: as promised.
        unsafe {
            if !pool::give_back(start, length) {
                raw::unmap(start, length);
                self.chunks.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// How many mappings the process may have: a large allocation takes up to two, and half of all are left to the program.
    pub fn may_map(&self, mappings: usize) {
        self.most_chunks.store(mappings / 4, Ordering::Relaxed);
    }

    fn place_chunk(&self, here: Here, start: usize, length: usize) -> bool {
        let done =
            self.placing(here.zone).is_none_or(|placing| placing.take(start, length, here.arena).is_ok());
        if !done && !self.complained.swap(true, Ordering::Relaxed) {
            say(b"servsim rset: the kernel refuses the policy of memory; it is placed as the kernel does by default\n");
        }
        done
    }

    /// The header of an allocation.
    ///
    /// # Safety
    /// It came from here and was not given back.
    unsafe fn header(&self, memory: *mut u8) -> *mut Header {
        let address = memory as usize;
        if address % CHUNK != 0 {
            return (address - address % CHUNK) as *mut Header;
        }
        let find =
            |list: &mut [Aligned; MOST_ALIGNED]| list.iter().find(|entry| entry.memory == address).copied();
        self.aligned.with(find).map_or(null_mut(), |entry| entry.header as *mut Header)
    }

    fn remember(&self, memory: usize, header: usize) -> bool {
        self.aligned.with(|list| match list.iter_mut().find(|entry| entry.memory == 0) {
            Some(entry) => {
                *entry = Aligned { memory, header };
                true
            }
            None => false,
        })
    }

    /// Bytes that an allocation can hold.
    ///
    /// # Safety
    /// It came from here and was not given back.
    pub unsafe fn usable(&self, memory: *mut u8) -> usize {
        // SAFETY: as promised.
        unsafe {
            let header = self.header(memory);
            if header.is_null() {
                0
            } else if (*header).begin != 0 {
                header as usize + (*header).length - memory as usize
            } else {
                sizes::bytes((*header).class[memory as usize % CHUNK / RUN] as usize)
            }
        }
    }

    /// Takes an allocation back.
    ///
    /// # Safety
    /// It came from here and was not given back.
    pub unsafe fn give_back(&self, memory: *mut u8) {
        // SAFETY: as promised; a header is written by its arena's holder only.
        unsafe {
            let header = self.header(memory);
            if header.is_null() {
                return;
            }
            let arena = &self.zones[(*header).zone].arenas[(*header).arena];
            if (*header).begin != 0 {
                rules::chunk_goes((*header).chunk());
                sampler::goes(header as usize, (*header).length);
                arena.with(|held| held.unlink(header));
                if memory as usize % CHUNK == 0 {
                    self.aligned.with(|list| {
                        list.iter_mut()
                            .filter(|entry| entry.memory == memory as usize)
                            .for_each(|entry| entry.memory = 0);
                    });
                }
                self.unmap(header as usize, (*header).length);
                return;
            }
            let class = (*header).class[memory as usize % CHUNK / RUN] as usize;
            arena.with(|held| {
                let free: *mut Free = memory.cast();
                (*free).next = held.free[class];
                held.free[class] = free;
            });
        }
    }

    /// Calls `each` with every chunk.
    pub fn for_each_chunk(&self, mut each: impl FnMut(Chunk)) {
        for arena in self.zones_in_use().flat_map(|zone| &zone.arenas) {
            // The list is copied link by link, so that what is called may allocate.
            let mut chunk = arena.with(|held| held.chunks);
            while !chunk.is_null() {
                // SAFETY: chunks are given back by their users only, who have ended when this is asked.
                let header = unsafe { &*chunk };
                each(header.chunk());
                chunk = header.next;
            }
        }
    }
}

/// Says something without allocating.
fn say(what: &[u8]) {
    // SAFETY: writes from what lives.
    unsafe { libc::write(2, what.as_ptr().cast(), what.len()) };
}

impl Arena {
    fn link(&mut self, chunk: *mut Header) {
        // SAFETY: both are chunks of this arena, whose lock is held.
        unsafe {
            (*chunk).next = self.chunks;
            (*chunk).previous = null_mut();
            if let Some(first) = self.chunks.as_mut() {
                first.previous = chunk;
            }
        }
        self.chunks = chunk;
    }

    fn unlink(&mut self, chunk: *mut Header) {
        // SAFETY: as above.
        unsafe {
            if let Some(next) = (*chunk).next.as_mut() {
                next.previous = (*chunk).previous;
            }
            match (*chunk).previous.as_mut() {
                Some(previous) => previous.next = (*chunk).next,
                None => self.chunks = (*chunk).next,
            }
        }
    }
}
