//! What a walk over a trace finds, and who takes it.

use crate::event::Event;
use crate::model::{Ref, ShapeId, TaskId};

/// One execution of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Which block.
    pub shape: ShapeId,
    /// Addresses of its accesses, one per [`crate::MemOp`] of the shape, in program order.
    pub refs: &'a [Ref],
}

/// One step of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item<'a> {
    /// It executed a block.
    Block(Block<'a>),
    /// Something else happened.
    Event(Event),
}

/// Takes what a walk finds while it is decoded, so that nothing is kept in between.
pub trait Sink {
    /// `task` executes a block; its references come next.
    fn block(&mut self, task: TaskId, shape: ShapeId);
    /// The reference of access number `index` of that block.
    fn reference(&mut self, index: usize, reference: Ref);
    /// All references of the block were told; whether the walk is to go on.
    fn end_block(&mut self) -> bool;
    /// Something else happened in `task`.
    fn event(&mut self, task: TaskId, event: Event);
}
