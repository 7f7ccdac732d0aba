use super::*;
use servsim_trace::Insn;

#[test]
fn code_and_accesses_that_cross_into_a_page_touch_it_too() {
    let kind = TaskKind::User;
    let tasks = [TaskInfo { pid: 1, tgid: 1, name: String::new(), kind, client: false }];
    let shape = Shape {
        vaddr: 0x40_0fff,
        paddr: 0x1fff,
        next_page: Some(0x7000),
        insns: [Insn { len: 2, atomic: false }].into(),
        code: [0x90; 2].into(),
        ops: Box::default(),
        stack_step: 0,
    };
    let op = MemOp { insn: 0, size: 8, store: true, slot: 0, disp: 0 };
    let mut pages = Pages::new(&tasks);
    pages.code(0, &shape);
    pages.data(0, &op, &Ref { vaddr: 0x50_0ffc, paddr: 0x2ffc, next_page: 0x9000 });
    pages.classify();
    let origin = |page| pages.page_origin(page).map(|origin| (origin.area, origin.address));
    assert_eq!(origin(1), Some(("user text", 0x40_0000)));
    assert_eq!(origin(7), Some(("user text", 0x40_1000)));
    assert_eq!(origin(2), Some(("heap and static data", 0x50_0000)));
    assert_eq!(origin(9), Some(("heap and static data", 0x50_1000)));
}

#[test]
fn a_page_without_evidence_is_judged_by_its_neighbours() {
    let (yes, no) = (Some(true), Some(false));
    let evidence = [None, yes, None, None, yes, None, no, None, yes, None, yes];
    let mut keys: Vec<(u32, u64)> = (0..11).map(|page| (0, page)).collect();
    let shared = [false, true, true, true, true, false, false, false, true, true, true];
    assert_eq!(bracketed(&keys, &evidence), shared);
    // Another program's page says nothing about this one's.
    for key in &mut keys[10..] {
        key.0 = 1;
    }
    assert!(!bracketed(&keys, &evidence)[9]);
}

fn task(tgid: u32, kind: TaskKind) -> TaskInfo {
    TaskInfo { pid: tgid, tgid, name: "server".into(), kind, client: false }
}

#[test]
fn what_threads_of_a_process_share_is_shared_but_for_the_load_generators() {
    let thread = |pid, tgid, client| TaskInfo { pid, tgid, client, ..task(tgid, TaskKind::User) };
    let mut pages =
        Pages::new(&[thread(1, 1, false), thread(2, 1, false), thread(3, 3, true), thread(4, 3, true)]);
    let at = |page: u64| page << PAGE_SHIFT;
    for (task, page) in [(0, 1), (1, 1), (1, 2), (2, 3), (3, 3)] {
        pages.record(task, at(0x100 + page), at(page), STORE);
    }
    pages.classify();
    let privacy = pages.privacy(false);
    let of = |page| servsim_core::Record::new(0, servsim_core::Op::Load, at(page), 1);
    let private: Vec<bool> = (1..4).map(|page| privacy.is_private(&of(page))).collect();
    assert_eq!(private, [false, true, true]);
}

#[test]
fn mappings_are_read_off_the_addresses() {
    let kinds = [TaskKind::User, TaskKind::User, TaskKind::Interrupt];
    let tasks: Vec<TaskInfo> = kinds.iter().zip(1..).map(|(&kind, pid)| task(pid, kind)).collect();
    let mut pages = Pages::new(&tasks);
    let at = |page: u64| page << PAGE_SHIFT;
    let kernel = 0xffff_8880_0000_0000_u64;
    for process in 0..2 {
        // Physical 1: code of both. 2: written by both. 10, 11: one virtual page, two copies.
        pages.record(process, at(0x100), at(1), CODE);
        pages.record(process, at(0x200), at(2), STORE);
        pages.record(process, at(0x202), at(3), STORE);
        pages.record(process, at(0x300), at(10 + u64::from(process)), STORE);
        // 20, 21: the kernel's, one for each; 22: of both.
        pages.record(process, kernel + at(20 + u64::from(process)), at(20 + u64::from(process)), STORE);
        pages.record(process, kernel + at(22), at(22), 0);
    }
    // 4: one process, but between 2 and 3. 5: one process, after the copies.
    pages.record(0, at(0x201), at(4), STORE);
    pages.record(0, at(0x301), at(5), STORE);
    // A handler pushes on the first one's kernel stack, and reads the second one's page.
    pages.record(2, kernel + at(20), at(20), STACK);
    pages.record(2, kernel + at(21), at(21), 0);
    pages.classify();
    let private = |with_kernel: bool| -> Vec<u64> {
        let privacy = pages.privacy(with_kernel);
        let of = |page: &u64| servsim_core::Record::new(0, servsim_core::Op::Load, at(*page), 1);
        (1..32).filter(|page| pages.page_origin(*page).is_some() && privacy.is_private(&of(page))).collect()
    };
    assert_eq!(private(false), [5, 10, 11]);
    assert_eq!(private(true), [5, 10, 11, 20]);
    assert_eq!(pages.page_origin(2).unwrap().area, "shared memory");
    assert_eq!(pages.page_origin(1).unwrap().area, "user text");
    assert_eq!(pages.page_origin(22).unwrap().area, "kernel heap and page cache");
}
