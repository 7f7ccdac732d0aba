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
    /// Something else happened in `task`; whether the walk is to go on.
    fn event(&mut self, task: TaskId, event: Event) -> bool;
}

/// Takes one item: for whoever walks item by item.
#[derive(Debug, Default)]
pub(crate) struct OneItem {
    task: TaskId,
    /// Its block, unless it is an event.
    shape: ShapeId,
    event: Option<Event>,
    /// The references of the block, and others behind them.
    refs: Vec<Ref>,
    count: usize,
}

impl OneItem {
    /// What was told, and of which task.
    #[inline]
    pub fn told(&self) -> (TaskId, Item<'_>) {
        let block = Block { shape: self.shape, refs: &self.refs[..self.count] };
        (self.task, self.event.map_or(Item::Block(block), Item::Event))
    }
}

impl Sink for OneItem {
    #[inline]
    fn block(&mut self, task: TaskId, shape: ShapeId) {
        (self.task, self.shape, self.event, self.count) = (task, shape, None, 0);
    }

    #[inline]
    fn reference(&mut self, index: usize, reference: Ref) {
        match self.refs.get_mut(index) {
            Some(place) => *place = reference,
            None => self.refs.push(reference),
        }
        self.count = index + 1;
    }

    #[inline]
    fn end_block(&mut self) -> bool {
        false
    }

    fn event(&mut self, task: TaskId, event: Event) -> bool {
        (self.task, self.event) = (task, Some(event));
        false
    }
}
