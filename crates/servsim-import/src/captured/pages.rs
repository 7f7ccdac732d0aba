//! What a captured trace shows of the mappings: which physical page is whose, and what lies there.
//!
//! A captured reference has its virtual and its physical address, so the mappings of every process
//! can be read off the pages it touches. A page's *area* follows from the addresses it is reached
//! by; whether it is *private* follows from the area, as an operating system would set the P bit of
//! a page-table entry when it makes the mapping:
//!
//! * reached by no user address: the kernel's, so shared (per-process kernel data can be told
//!   apart: [`Pages::privacy`]);
//! * holding code, or reached by two processes: shared;
//! * reached by several threads of one process: shared, but for the load generator, whose threads stand
//!   for users with machines of their own;
//! * reached by one process only: private, unless it lies in a segment that processes share. A page
//!   lies in such a segment when, among the pages of the same program with evidence, its neighbours
//!   on both sides are shared and written. Evidence for the contrary is one virtual page that is
//!   different physical pages in different processes: copied on write, or never shared.
//!
//! A physical page that one process frees and another takes within the trace counts as shared.

mod kept;
#[cfg(test)]
mod tests;

use servsim_core::source::PageHash;
use servsim_core::{PageOrigin, Privacy, PAGE_SHIFT};
use servsim_trace::{slots, MemOp, Ref, Shape, TaskInfo, TaskKind};
use std::collections::{BTreeMap, HashMap};

const FILTER: usize = 1 << 13;

/// The page was written.
const STORE: u8 = 1;
/// Code was fetched.
const CODE: u8 = 2;
/// It was addressed by the stack pointer.
const STACK: u8 = 4;

/// Who uses a page: nobody, one, or more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Users<T = u32> {
    #[default]
    None,
    One(T),
    Many,
}

/// Who has a page for itself: a thread, or the load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Thread(u32),
    Client(u32),
}

impl<T: Copy + PartialEq> Users<T> {
    fn join(&mut self, one: T) {
        *self = match *self {
            Users::None => Users::One(one),
            Users::One(before) if before == one => Users::One(one),
            _ => Users::Many,
        };
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct PageUse {
    /// Processes that reach it by a user address.
    processes: Users,
    /// First of them.
    first_process: u32,
    /// Threads that reach it by a user address, those of the load generator as one.
    threads: Users<Owner>,
    /// Its virtual page.
    user_page: u64,
    /// Union of the marks above, by user addresses.
    user: u8,
    /// Tasks that reach it by a kernel address, the stack accesses of handlers left out.
    tasks: Users,
    /// First kernel virtual page.
    kernel_page: u64,
    /// Union of the marks above, by kernel addresses.
    kernel: u8,
}

/// Virtual page areas of the x86-64 kernel (Linux, `Documentation/arch/x86/x86_64/mm.rst`), by the
/// first address, highest first.
const KERNEL_AREAS: [(u64, &str); 8] = [
    (0xffff_ffff_c000_0000, "kernel modules"),
    (0xffff_ffff_8000_0000, "kernel image"),
    (0xffff_ffff_0000_0000, "kernel image"),
    (0xffff_fe80_0000_0000, "kernel, other"),
    (0xffff_fe00_0000_0000, "kernel entry area"),
    (0xffff_ea00_0000_0000, "kernel page structures"),
    (0xffff_c900_0000_0000, "kernel vmalloc area"),
    (0xffff_8880_0000_0000, "kernel heap and page cache"),
];

/// First address of the area where Linux puts mappings and stacks of x86-64 programs, about.
const MAPPING_AREA: u64 = 0x7000_0000_0000;

/// What is seen of the pages while a trace is read.
#[derive(Debug)]
pub struct Pages {
    facts: HashMap<u64, PageUse, PageHash>,
    /// Last sightings: physical page, virtual page, task, marks.
    filter: Vec<(u64, u64, u32, u8)>,
    /// Process, kind, and whose data it makes its own (its thread's or its process's) per task.
    tasks: Vec<(u32, TaskKind, Owner)>,
    programs: HashMap<u32, u32>,
    shared: HashMap<u64, bool, PageHash>,
}

impl Pages {
    /// Nothing seen yet.
    pub fn new(tasks: &[TaskInfo]) -> Self {
        let mut names = BTreeMap::new();
        let mut programs = HashMap::new();
        let mut of = |task: &TaskInfo| {
            let next = names.len() as u32;
            let program = *names.entry(task.name.clone()).or_insert(next);
            programs.insert(task.tgid, program);
        };
        tasks.iter().for_each(&mut of);
        let owner = |(number, task): (usize, &TaskInfo)| {
            let owner = if task.client { Owner::Client(task.tgid) } else { Owner::Thread(number as u32) };
            (task.tgid, task.kind, owner)
        };
        let tasks = tasks.iter().enumerate().map(owner).collect();
        Self {
            facts: HashMap::default(),
            filter: vec![(u64::MAX, 0, 0, 0); FILTER],
            tasks,
            programs,
            shared: HashMap::default(),
        }
    }

    /// Physical pages seen.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// Notes the code of a block that `task` executes.
    #[inline]
    pub fn code(&mut self, task: u32, shape: &Shape) {
        self.record(task, shape.vaddr, shape.paddr, CODE);
        if let Some(next) = shape.next_page {
            self.record(task, shape.vaddr + (1 << PAGE_SHIFT), next, CODE);
        }
    }

    /// Notes an access of `task`.
    #[inline]
    pub fn data(&mut self, task: u32, op: &MemOp, reference: &Ref) {
        let store = if op.store { STORE } else { 0 };
        let marks = store | if op.slot == slots::STACK { STACK } else { 0 };
        self.record(task, reference.vaddr, reference.paddr, marks);
        if reference.next_page != 0 {
            let next = reference.vaddr.wrapping_add(1 << PAGE_SHIFT);
            self.record(task, next, reference.next_page, marks);
        }
    }

    #[inline]
    fn record(&mut self, task: u32, vaddr: u64, paddr: u64, marks: u8) {
        let (virtual_page, page) = (vaddr >> PAGE_SHIFT, paddr >> PAGE_SHIFT);
        let slot = (page ^ u64::from(task) << 5) as usize & (FILTER - 1);
        let last = &mut self.filter[slot];
        let same = last.0 == page && last.1 == virtual_page && last.2 == task;
        if same && last.3 & marks == marks {
            return;
        }
        *last = (page, virtual_page, task, if same { last.3 | marks } else { marks });
        self.record_miss(task, virtual_page, page, marks);
    }

    #[cold]
    fn record_miss(&mut self, task: u32, virtual_page: u64, page: u64, marks: u8) {
        let (process, kind, owner) = self.tasks[task as usize];
        let facts = self.facts.entry(page).or_default();
        if virtual_page >> (63 - PAGE_SHIFT) == 0 {
            if facts.processes == Users::None {
                facts.user_page = virtual_page;
                facts.first_process = process;
            }
            facts.processes.join(process);
            facts.threads.join(owner);
            facts.user |= marks;
        } else {
            if facts.kernel_page == 0 {
                facts.kernel_page = virtual_page;
            }
            facts.kernel |= marks;
            // Interrupts push on the stack of whoever runs; that does not make it theirs.
            if kind != TaskKind::Interrupt || marks & STACK == 0 {
                facts.tasks.join(task);
            }
        }
    }

    /// Ends the reading: decides which pages are shared.
    pub fn classify(&mut self) {
        self.filter = Vec::new();
        // Per program: virtual page -> physical pages there.
        let mut maps: BTreeMap<(u32, u64), Vec<u64>> = BTreeMap::new();
        for (&page, facts) in &self.facts {
            if let Some(program) = self.program(facts) {
                maps.entry((program, facts.user_page)).or_default().push(page);
            }
        }
        let evidence: Vec<Option<bool>> = maps.values().map(|pages| self.evidence(pages)).collect();
        let keys: Vec<(u32, u64)> = maps.keys().copied().collect();
        let segment = bracketed(&keys, &evidence);
        let mut shared = HashMap::default();
        for (pages, inside) in maps.values().zip(segment) {
            for &page in pages {
                let facts = &self.facts[&page];
                let multiple = facts.processes == Users::Many || facts.user & CODE != 0;
                shared.insert(page, multiple || inside);
            }
        }
        self.shared = shared;
    }

    fn program(&self, facts: &PageUse) -> Option<u32> {
        let first = self.programs.get(&facts.first_process).copied();
        first.filter(|_| facts.processes != Users::None)
    }

    /// What the physical pages at one virtual page say: a shared segment, private memory, nothing.
    fn evidence(&self, pages: &[u64]) -> Option<bool> {
        let written_by_many = |page: &u64| {
            let facts = &self.facts[page];
            facts.processes == Users::Many && facts.user & STORE != 0 && facts.user & CODE == 0
        };
        if pages.iter().any(written_by_many) {
            Some(true)
        } else if pages.len() > 1 || pages.iter().any(|page| self.facts[page].user & CODE != 0) {
            Some(false)
        } else {
            None
        }
    }

    /// Which pages are private and which are users'. With `private_kernel`, kernel pages that one
    /// task alone uses (its kernel stack, its structures where they fill a page) are private too.
    pub fn privacy(&self, private_kernel: bool) -> Privacy {
        let is_shared = |(page, facts): &(&u64, &PageUse)| match self.shared.get(page) {
            Some(&shared) => shared || facts.threads == Users::Many,
            None => !(private_kernel && Self::is_one_tasks(facts)),
        };
        let shared = self.facts.iter().filter(is_shared).map(|(&page, _)| page);
        let users = self.facts.iter().filter(|(_, f)| f.processes != Users::None).map(|(&page, _)| page);
        Privacy::from_shared_pages(shared).with_user_pages(users)
    }

    fn is_one_tasks(facts: &PageUse) -> bool {
        matches!(facts.tasks, Users::One(_)) && facts.kernel & CODE == 0
    }

    /// What lies on a physical page, if the trace touches it.
    pub fn page_origin(&self, page: u64) -> Option<PageOrigin> {
        let facts = self.facts.get(&page)?;
        let is_user = facts.processes != Users::None;
        let virtual_page = if is_user { facts.user_page } else { facts.kernel_page };
        let area = if is_user { self.user_area(page, facts) } else { Self::kernel_area(facts) };
        let process = is_user.then_some(facts.first_process);
        Some(PageOrigin { area, address: virtual_page << PAGE_SHIFT, process })
    }

    fn user_area(&self, page: u64, facts: &PageUse) -> &'static str {
        let shared = self.shared.get(&page).copied().unwrap_or(false);
        if facts.user & CODE != 0 {
            "user text"
        } else if shared && facts.user & STORE != 0 {
            "shared memory"
        } else if shared {
            "shared, only read"
        } else if facts.user & STACK != 0 && facts.user_page << PAGE_SHIFT >= MAPPING_AREA {
            "user stack"
        } else if facts.user_page << PAGE_SHIFT >= MAPPING_AREA {
            "private mappings"
        } else {
            "heap and static data"
        }
    }

    fn kernel_area(facts: &PageUse) -> &'static str {
        let address = facts.kernel_page << PAGE_SHIFT;
        let area = KERNEL_AREAS.iter().find(|(first, _)| address >= *first).map_or("kernel, other", |a| a.1);
        match area {
            _ if facts.kernel & CODE != 0 => "kernel text",
            "kernel image" => "kernel static data",
            "kernel vmalloc area" if facts.kernel & STACK != 0 => "kernel stacks",
            other => other,
        }
    }
}

/// Which pages (program, virtual page; sorted) lie in shared segments: those with evidence for it,
/// and those without any between two of them.
fn bracketed(keys: &[(u32, u64)], evidence: &[Option<bool>]) -> Vec<bool> {
    let mut inside: Vec<bool> = evidence.iter().map(|e| *e == Some(true)).collect();
    // The last page of the same program with evidence for a shared segment, if none against it came since.
    let mut open: Option<usize> = None;
    for at in 0..keys.len() {
        if at > 0 && keys[at].0 != keys[at - 1].0 {
            open = None;
        }
        match (evidence[at], open) {
            (Some(true), Some(first)) => inside[first..at].fill(true),
            (Some(false), _) => open = None,
            _ => {}
        }
        if evidence[at] == Some(true) {
            open = Some(at);
        }
    }
    inside
}
