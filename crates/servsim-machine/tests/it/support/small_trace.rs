//! A captured trace of some hundred items that holds every kind of event: tasks that wait for one another, for
//! the disk, the timer and a lock, an interrupt of each kind, a task created on the way.

use servsim_trace::EventKind::{
    Create, FutexWait, FutexWake, InterruptBegin, InterruptEnd, IoComplete, IoSubmit, LockAcquire,
    LockRelease, Mark, SwitchIn, SwitchOut, SyscallEnter, SyscallExit, Wake,
};
use servsim_trace::{
    slots, Event, EventKind, Insn, LockClass, MarkKind, MemOp, Meta, Ref, Shape, SwitchReason, TaskInfo,
    TaskKind, TraceWriter, WriterOptions,
};
use std::path::Path;

const IDLE: u32 = 0;
const INTERRUPTS: u32 = 1;
const CLIENT: u32 = 2;
/// Task and process of the server.
pub const SERVER: u32 = 3;
const DAEMON: u32 = 4;
const CHILD: u32 = 5;
const DEVICE: u32 = 0;
const TIMER: u32 = 1;
/// Transactions of the trace.
pub const TRANSACTIONS: u64 = 3;

/// Where the lock is that the server takes.
const LOCK: u64 = 0x5000_0000;

struct Build {
    writer: TraceWriter,
    now: u64,
    blocks: [u64; 6],
}

fn shape(vaddr: u64, ops: &[(u8, bool, u8)]) -> Shape {
    let access = |(index, &(size, store, slot)): (usize, &(u8, bool, u8))| MemOp {
        insn: index as u16,
        size,
        store,
        slot,
        disp: 8,
    };
    // `mov rax,[rcx]` for each access, then `jne -2`.
    let mut code: Vec<u8> = ops.iter().flat_map(|_| [0x48, 0x8b, 0x01]).collect();
    code.extend([0x75, 0xfe]);
    let insns =
        (0..ops.len()).map(|i| Insn { len: 3, atomic: i == 1 }).chain([Insn { len: 2, atomic: false }]);
    Shape {
        vaddr,
        paddr: vaddr & 0xfff_ffff,
        next_page: None,
        insns: insns.collect(),
        code: code.into(),
        ops: ops.iter().enumerate().map(access).collect(),
        stack_step: -8,
    }
}

impl Build {
    fn does(&mut self, task: u32, kind: EventKind) {
        self.now += 700;
        self.writer.switch_to(task);
        self.writer.event(Event { time_ns: self.now, kind });
    }

    /// `task` executes both its blocks, user and kernel, on data of its own and of all.
    fn runs(&mut self, task: u32) {
        self.writer.switch_to(task);
        let own = 0x7fff_0000_0000 + u64::from(task) * 0x10_000 + self.now % 4096;
        let access = |vaddr: u64, frame: u64| Ref { vaddr, paddr: frame * 4096 + vaddr % 4096, next_page: 0 };
        let user = [access(own, 0x100 + u64::from(task)), access(LOCK + 8, 0x200)];
        self.writer.block(0, &user).unwrap();
        let area = access(0xffff_8881_0000_0010, 0x10_0000);
        let kernel = [access(0xffff_8880_0030_0040, 0x300), area, access(0xffff_8880_0030_1000, 0x301)];
        self.writer.block(1, &kernel).unwrap();
    }

    fn waits(&mut self, task: u32) -> u64 {
        self.blocks[task as usize] += 1;
        let block = self.blocks[task as usize];
        self.does(task, SwitchOut(SwitchReason::Blocked { block, state: 1 }));
        block
    }

    fn interrupt(&mut self, source: u32, interrupted: u32, kinds: &[EventKind]) {
        self.does(INTERRUPTS, InterruptBegin { source, interrupted });
        self.runs(INTERRUPTS);
        kinds.iter().for_each(|kind| self.does(INTERRUPTS, *kind));
        self.does(INTERRUPTS, InterruptEnd);
    }

    fn transaction(&mut self, number: u64) {
        let class = LockClass::LightweightExclusive;
        self.does(CLIENT, SwitchIn);
        self.runs(CLIENT);
        let reply = self.blocks[SERVER as usize];
        self.does(CLIENT, Wake { task: SERVER, block: reply });
        let asked = self.waits(CLIENT);
        self.does(SERVER, SwitchIn);
        self.does(SERVER, SyscallEnter { number: 17 });
        self.does(SERVER, LockAcquire { class, address: LOCK });
        self.runs(SERVER);
        let submit =
            IoSubmit { request: number, device: 0, sector: 64 * number, bytes: 8192, write: number == 1 };
        self.does(SERVER, submit);
        let read = self.waits(SERVER);
        self.does(IDLE, SwitchIn);
        let done = [IoComplete { request: number }, Wake { task: SERVER, block: read }];
        self.interrupt(DEVICE, IDLE, &done);
        self.does(SERVER, SwitchIn);
        self.does(SERVER, FutexWake { address: LOCK });
        self.does(SERVER, LockRelease { class, address: LOCK });
        self.interrupt(TIMER, SERVER, &[Wake { task: DAEMON, block: self.blocks[DAEMON as usize] }]);
        self.does(SERVER, SyscallExit);
        self.does(SERVER, Wake { task: CLIENT, block: asked });
        self.waits(SERVER);
        self.does(DAEMON, SwitchIn);
        self.does(DAEMON, LockAcquire { class: LockClass::KernelSpin, address: 0xffff_8880_0030_1000 });
        self.runs(DAEMON);
        self.does(DAEMON, LockRelease { class: LockClass::KernelSpin, address: 0xffff_8880_0030_1000 });
        self.waits(DAEMON);
        self.does(CLIENT, SwitchIn);
        let mark = Mark { kind: MarkKind::TransactionEnd, transaction: 1, sequence: number, server: SERVER };
        self.does(CLIENT, mark);
        self.does(CLIENT, SwitchOut(SwitchReason::Preempted));
    }
}

/// Writes the trace to `path`.
pub fn write(path: &Path) {
    let meta = Meta {
        workload: "small".into(),
        per_cpu_area: (0xffff_8881_0000_0000, 0x2000),
        transaction_kinds: vec!["none".into(), "sale".into()],
        devices: vec!["vda".into()],
        files: "vda 0 4096 base/1 stock".into(),
        ..Meta::default()
    };
    let writer = TraceWriter::create(path, &meta, WriterOptions { epoch_bytes: 600 }).unwrap();
    let mut build = Build { writer, now: 0, blocks: [0; 6] };
    let kinds = [
        TaskKind::Idle,
        TaskKind::Interrupt,
        TaskKind::User,
        TaskKind::User,
        TaskKind::Kernel,
        TaskKind::User,
    ];
    for (pid, kind) in (0..).zip(kinds) {
        let name = format!("task{pid}");
        build.writer.add_task(TaskInfo { pid, tgid: pid, name, kind, client: pid == CLIENT });
    }
    build.writer.add_shape(shape(0x40_1000, &[(8, true, slots::STACK), (8, false, 0)]));
    let kernel = [(8, false, slots::ABSOLUTE), (8, true, slots::GS), (4, true, 1)];
    build.writer.add_shape(shape(0xffff_ffff_8100_0000, &kernel));
    build.does(SERVER, SwitchIn);
    build.does(SERVER, Create { task: CHILD });
    build.does(SERVER, FutexWait { address: LOCK });
    build.waits(SERVER);
    build.does(DAEMON, SwitchIn);
    build.waits(DAEMON);
    build.does(CHILD, SwitchIn);
    build.runs(CHILD);
    build.does(CHILD, SwitchOut(SwitchReason::Exited));
    for number in 0..TRANSACTIONS {
        build.transaction(number);
    }
    build.writer.finish().unwrap();
}
