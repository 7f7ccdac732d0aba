//! The heap: small allocations in runs of one size, large ones mapped one by one; nothing in here allocates.
//!
//! Memory comes in *chunks* that begin at multiples of a mebibyte, with a header in their first page, so that the header
//! of any allocation is found from its address. A chunk of small allocations has fifteen *runs* of 64 KiB behind that of
//! its header; a large allocation has a chunk of its own, however long. Each *arena* takes its chunks from one place: one
//! for every node that a policy distinguishes.

use crate::lock::Lock;
use crate::placing::{Placing, MOST_NODES};
use crate::sizes::{self, CHUNK, CLASSES, PAGE};
use servsim_rset::raw;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

const RUN: usize = 64 << 10;
const RUNS: usize = CHUNK / RUN;
/// Allocations aligned to whole chunks have their headers elsewhere: so many at a time.
const MOST_ALIGNED: usize = 1024;

/// The first page of a chunk.
#[repr(C)]
pub struct Header {
    /// The next chunk of the arena's list.
    next: *mut Header,
    previous: *mut Header,
    arena: usize,
    /// Bytes of the whole mapping.
    length: usize,
    /// Where the only allocation begins, for a large one; 0 for a chunk of runs.
    begin: usize,
    /// Class of each run, for a chunk of runs.
    class: [u8; RUNS],
    /// Whether the kernel took the chunk's policy.
    placed: bool,
}

struct Arena {
    chunks: *mut Header,
    /// Allocations of each class that were given back.
    free: [*mut Free; CLASSES],
    /// What is left of each class's newest run: nobody has touched it, so that its pages go to who first does.
    fresh: [(usize, usize); CLASSES],
    /// Runs of the newest chunk that nobody has yet.
    spare: *mut Header,
    next_run: usize,
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

/// All of the heap.
pub struct Heap {
    arenas: [Lock<Arena>; MOST_NODES + 1],
    aligned: Lock<[Aligned; MOST_ALIGNED]>,
    placing: AtomicPtr<Placing>,
    complained: AtomicBool,
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
            next_run: RUNS,
        }
    }
}

impl Heap {
    #[allow(clippy::large_stack_arrays)] // It is evaluated by the compiler.
    const fn new() -> Self {
        Self {
            arenas: [const { Lock::new(Arena::new()) }; MOST_NODES + 1],
            aligned: Lock::new([Aligned { memory: 0, header: 0 }; MOST_ALIGNED]),
            placing: AtomicPtr::new(null_mut()),
            complained: AtomicBool::new(false),
        }
    }

    /// From now on takes memory so.
    pub fn place(&self, placing: &'static Placing) {
        self.placing.store(std::ptr::from_ref(placing).cast_mut(), Ordering::Release);
    }

    /// What was told, if anything was.
    pub fn placing(&self) -> Option<&'static Placing> {
        // SAFETY: it points at what `place` was given, which is shared and for ever.
        unsafe { self.placing.load(Ordering::Acquire).as_ref() }
    }

    /// Takes every lock, so that a child of a fork finds the heap whole.
    pub fn hold(&self) {
        self.arenas.iter().for_each(Lock::take);
        self.aligned.take();
    }

    /// Gives them back.
    pub fn release(&self) {
        self.aligned.give();
        self.arenas.iter().for_each(Lock::give);
    }

    /// Memory for `bytes`, and whether it is known to be zero; null when there is none.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> (*mut u8, bool) {
        let (arena, wish) = self.here();
        match sizes::class(bytes, alignment) {
            Some(class) => self.arenas[arena].with(|held| self.small(held, arena, wish, class)),
            None => (self.large(arena, wish, bytes, alignment), true),
        }
    }

    /// The arena of this thread at this moment, and the node that it takes memory from.
    fn here(&self) -> (usize, Option<u32>) {
        match self.placing() {
            None => (MOST_NODES, None),
            Some(Placing::ByNode { own, node_of }) => {
                // SAFETY: asks for a number.
                let processor = unsafe { libc::sched_getcpu() };
                let node =
                    usize::try_from(processor).ok().and_then(|at| node_of.get(at)).copied().unwrap_or(0);
                (node as usize, own[node as usize])
            }
            Some(_) => (0, None),
        }
    }

    /// A small allocation, and whether it is zero.
    fn small(&self, held: &mut Arena, arena: usize, wish: Option<u32>, class: usize) -> (*mut u8, bool) {
        let first = held.free[class];
        if !first.is_null() {
            // SAFETY: what is in the list is free memory of this arena, whose lock is held.
            held.free[class] = unsafe { (*first).next };
            return (first.cast(), false);
        }
        let (next, end) = held.fresh[class];
        let next = if next == end { self.run(held, arena, wish, class) } else { next };
        if next == 0 {
            return (null_mut(), false);
        }
        held.fresh[class].0 = next + sizes::bytes(class);
        (next as *mut u8, true)
    }

    /// Gives a class a run of its own; 0 when there is no memory.
    fn run(&self, held: &mut Arena, arena: usize, wish: Option<u32>, class: usize) -> usize {
        if held.next_run == RUNS {
            let chunk = self.chunk(arena, wish, CHUNK);
            if chunk.is_null() {
                return 0;
            }
            held.link(chunk);
            (held.spare, held.next_run) = (chunk, 1);
        }
        let run = held.spare as usize + held.next_run * RUN;
        // SAFETY: the chunk is this arena's, and the run is nobody's yet.
        unsafe { (*held.spare).class[held.next_run] = class as u8 };
        held.next_run += 1;
        let bytes = sizes::bytes(class);
        held.fresh[class] = (run, run + RUN / bytes * bytes);
        run
    }

    fn large(&self, arena: usize, wish: Option<u32>, bytes: usize, alignment: usize) -> *mut u8 {
        // Where it begins in its chunk; with whole chunks of alignment, how far behind the header's chunk at most.
        let begin = alignment.max(PAGE);
        let Some(length) = bytes.checked_add(begin).and_then(|sum| sum.checked_next_multiple_of(PAGE)) else {
            return null_mut();
        };
        if length > isize::MAX as usize / 2 {
            return null_mut();
        }
        let chunk = self.chunk(arena, wish, length);
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
            unsafe { raw::unmap(chunk as usize, length) };
            return null_mut();
        }
        self.arenas[arena].with(|held| held.link(chunk));
        memory as *mut u8
    }

    /// A chunk of at least `length` bytes, placed; null when there is no memory.
    fn chunk(&self, arena: usize, wish: Option<u32>, length: usize) -> *mut Header {
        let Ok(found) = raw::map(length + CHUNK) else { return null_mut() };
        let start = found.next_multiple_of(CHUNK);
        // SAFETY: both ends are of the mapping just made, outside of the chunk.
        unsafe {
            raw::unmap(found, start - found);
            raw::unmap(start + length, found + CHUNK - start);
        }
        let placed = arena == MOST_NODES || self.place_chunk(start, length, wish);
        let chunk = start as *mut Header;
        // SAFETY: the chunk is mapped, zeroed and nobody else's.
        unsafe {
            (*chunk).arena = arena;
            (*chunk).length = length;
            (*chunk).placed = placed;
        }
        chunk
    }

    fn place_chunk(&self, start: usize, length: usize, wish: Option<u32>) -> bool {
        let done = self.placing().is_none_or(|placing| placing.take(start, length, wish).is_ok());
        if !done && !self.complained.swap(true, Ordering::Relaxed) {
            let said = b"servsim rset: the kernel refuses the policy of memory; it is placed as the kernel does by default\n";
            // SAFETY: writes from a constant.
            unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
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
            let arena = &self.arenas[(*header).arena];
            if (*header).begin != 0 {
                arena.with(|held| held.unlink(header));
                if memory as usize % CHUNK == 0 {
                    self.aligned.with(|list| {
                        list.iter_mut()
                            .filter(|entry| entry.memory == memory as usize)
                            .for_each(|entry| entry.memory = 0);
                    });
                }
                raw::unmap(header as usize, (*header).length);
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

    /// Calls `each` with the first address and length of every chunk, the arena, and whether it was placed.
    pub fn for_each_chunk(&self, mut each: impl FnMut(usize, usize, usize, bool)) {
        for arena in &self.arenas {
            // The list is copied link by link, so that what is called may allocate.
            let mut chunk = arena.with(|held| held.chunks);
            while !chunk.is_null() {
                // SAFETY: chunks are given back by their users only, who have ended when this is asked.
                let (length, of, placed, next) =
                    unsafe { ((*chunk).length, (*chunk).arena, (*chunk).placed, (*chunk).next) };
                each(chunk as usize, length, of, placed);
                chunk = next;
            }
        }
    }
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
