//! The window of transactions that a capture measures, and the point before it at which a guest is saved.
//!
//! Nobody is idle at either end: the machine is saved while users are at work, the window begins some
//! transactions after it goes on, and ends while the users are still at work.

use std::time::{Duration, Instant};

use crate::control::{Control, Orders};
use crate::cpu::{Server, Times};
use crate::mark::{MarkKind, Marker};
use crate::pause::{pause, Pause};
use crate::Result;

/// Where a guest is saved in the midst of its work, and told what to measure when it goes on.
#[derive(Clone, Copy, Debug)]
pub struct SavePoint<'a> {
    /// Carries the report of the warm-up out, and orders in.
    pub control: &'a Control,
    /// How to stop.
    pub pause: Pause,
}

impl SavePoint<'_> {
    /// Leaves the report of the warm-up (JSON), and returns when the machine goes on, with its orders.
    ///
    /// # Errors
    /// When the control device does not work, or the machine cannot be stopped.
    pub fn pass(self, warm_up: &str) -> Result<Orders> {
        self.control.write_result(warm_up)?;
        pause(self.pause)?;
        self.control.orders()
    }
}

/// What was ordered, how many transactions have ended since, when the window began, how long it was, and
/// the processor time in it.
#[derive(Debug, Default)]
pub struct Window {
    orders: Option<Orders>,
    ended: u64,
    begin: Option<(Instant, Times)>,
    measured: Option<(Duration, Times)>,
}

impl Window {
    /// The window's orders have arrived: transactions count from here.
    pub fn order(&mut self, orders: Orders) {
        *self = Window { orders: Some(orders), ..Window::default() };
    }

    /// The orders, if they have arrived.
    pub fn orders(&self) -> Option<Orders> {
        self.orders
    }

    /// How long the window was, and the processor time in it, once it is over.
    pub fn measured(&self) -> Option<(Duration, Times)> {
        self.measured
    }

    /// Whether it has begun and is not over.
    pub fn is_open(&self) -> bool {
        self.begin.is_some() && self.measured.is_none()
    }

    /// Marks the window's end, however many transactions were ordered.
    pub fn close(&mut self, server: Server, marker: &mut Marker) {
        marker.event(MarkKind::Stop);
        self.measured = self.begin.map(|(begin, before)| (begin.elapsed(), server.times().since(before)));
    }

    /// A transaction of one of `users` users has ended, and was marked: marks the window's beginning and end where they
    /// fall on it. Returns whether the transaction lies within. `server` says whose processor time is read.
    pub fn ended(&mut self, users: u64, server: Server, marker: &mut Marker) -> bool {
        let Some(orders) = self.orders.filter(|_| self.measured.is_none()) else { return false };
        let (lead_in, transactions) = (orders.lead_in(users), orders.transactions);
        self.ended += 1;
        if self.ended == lead_in {
            self.begin = Some((Instant::now(), server.times()));
            marker.event(MarkKind::Start);
        } else if self.ended == lead_in + transactions {
            self.close(server, marker);
        }
        (lead_in + 1..=lead_in + transactions).contains(&self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_begins_behind_its_lead_in_and_holds_what_was_ordered() {
        let (mut window, mut marker) = (Window::default(), Marker::default());
        assert!(!window.ended(2, Server::Elsewhere, &mut marker), "nothing is ordered yet");
        window.order(Orders { transactions: 3, seed: 1, check: true, lead_in: None });
        let within: Vec<bool> = (0..7).map(|_| window.ended(2, Server::Elsewhere, &mut marker)).collect();
        assert_eq!(within, [false, false, true, true, true, false, false]);
        let counts = marker.counts();
        assert_eq!((counts["start"].as_u64(), counts["stop"].as_u64()), (Some(1), Some(1)));
        assert!(window.measured().is_some());
    }
}
