//! The malloc family, redirected by a Resource Set's policy or by rules: loaded before an unmodified program.
//!
//! `servsim rset run` sets [`settings`]' variables and preloads this. What it cannot do (a policy that this machine
//! does not have, a call that a filter forbids) it says once, and the program goes on with memory as the kernel places
//! it. At the end it can tell where the pages lie, wished and found.
//!
//! Whatever is called from here may itself allocate: before [`settings`] are read, and from inside the standard
//! library. So nothing in [`heap`] allocates, and no thread-local variable is used, because the first use of one may
//! allocate too. Without built-in functions, so that the compiler does not turn a function of the family into a call of
//! another one.

#![no_builtins]
// The functions are documented where they come from: malloc(3).
#![allow(missing_docs, clippy::missing_safety_doc)]

mod calls;
mod family;
mod faults;
mod heap;
mod lock;
mod modules;
mod placing;
mod pool;
mod ranges;
mod report;
mod rules;
mod sampled;
mod sampler;
mod settings;
mod sites;
mod sizes;
mod threads;

use heap::HEAP;

#[used]
#[link_section = ".init_array"]
static BEGIN: extern "C" fn() = begin;
#[used]
#[link_section = ".fini_array"]
static END: extern "C" fn() = end;

extern "C" fn begin() {
    // SAFETY: the handlers only take and give back the heap's locks.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    pool::prepare();
    HEAP.may_map(pool::mappings());
    // Its thread is none of those that are dealt.
    sampler::begin();
    settings::apply();
    report::prepare();
}

extern "C" fn end() {
    sampler::at_exit();
    report::at_exit();
}

extern "C" fn before_fork() {
    // In this order, because the sampler allocates while it holds its own.
    sampler::hold();
    rules::hold();
    HEAP.hold();
}

extern "C" fn after_fork() {
    HEAP.release();
    rules::release();
    sampler::release();
}

extern "C" fn in_child() {
    after_fork();
    sampler::abandon();
}
