//! Threads with memory of their own.

use crate::{failure, parsed};
use servsim_rset::{Block, Member, ResourceSet, RsetError, Team};
use std::ffi::{c_char, c_int, c_void};
use std::num::NonZeroUsize;

type Work = extern "C" fn(&Member<'_>, *mut c_void);

/// The caller's argument, which every thread is given.
struct Argument(*mut c_void);

// SAFETY: what it points to is the caller's, who passes it to threads knowingly.
unsafe impl Sync for Argument {}

#[no_mangle]
pub unsafe extern "C" fn servsim_team_run(
    threads: usize,
    set: Option<&ResourceSet>,
    order: *const c_char,
    policy: *const c_char,
    work: Work,
    argument: *mut c_void,
) -> c_int {
    let argument = Argument(argument);
    let run = || {
        let threads = NonZeroUsize::new(threads)
            .ok_or_else(|| RsetError::Unreadable { what: "number of threads".into(), text: "0".into() })?;
        // SAFETY: the header asks for texts.
        let (order, policy) =
            unsafe { (parsed(order, "order of threads")?, parsed(policy, "policy of memory")?) };
        let team = Team::new(threads).order(order).memory(policy);
        let team = match set {
            Some(set) => team.within(set.clone()),
            None => team,
        };
        let argument = &argument;
        team.run(|member| work(member, argument.0)).map(drop)
    };
    failure::status(run())
}

#[no_mangle]
pub extern "C" fn servsim_member_index(member: &Member<'_>) -> usize {
    member.index
}

#[no_mangle]
pub extern "C" fn servsim_member_processor(member: &Member<'_>) -> u32 {
    member.processor
}

#[no_mangle]
pub extern "C" fn servsim_member_allocate(member: &Member<'_>, bytes: usize) -> *mut Block {
    failure::object(member.allocate(bytes))
}
