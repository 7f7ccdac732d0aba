//! What a user asks for: the input data of the five transactions (TPC-C clauses 2.4 to 2.8).
//!
//! All randomness of a run is here, in one stream per user; a request is complete before it is
//! sent, so the log of requests can be hashed and compared between runs.

use super::scale::{Constants, Scale};
use servsim_driver::nurand::nurand;

use crate::rng::Stream;

/// The five kinds of transaction; the number is the type in the transaction mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TransactionKind {
    /// Enters an order of 5 to 15 lines.
    NewOrder = 1,
    /// Records a customer's payment.
    Payment = 2,
    /// Reads a customer's last order.
    OrderStatus = 3,
    /// Delivers the oldest new order of every district of a warehouse.
    Delivery = 4,
    /// Counts recently sold items that run low.
    StockLevel = 5,
}

impl TransactionKind {
    /// All kinds in the order of their numbers.
    pub const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// Whether it changes the database.
    pub fn writes(self) -> bool {
        !matches!(self, TransactionKind::OrderStatus | TransactionKind::StockLevel)
    }

    /// The key in reports.
    pub fn name(self) -> &'static str {
        match self {
            TransactionKind::NewOrder => "new_order",
            TransactionKind::Payment => "payment",
            TransactionKind::OrderStatus => "order_status",
            TransactionKind::Delivery => "delivery",
            TransactionKind::StockLevel => "stock_level",
        }
    }
}

/// Number of the kinds, for arrays indexed by kind.
pub const KINDS: usize = TransactionKind::ALL.len();

/// How a customer is named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Customer {
    /// By number.
    Number(i32),
    /// By last name; the middle one of those who share it is meant.
    LastName(String),
}

/// One order line: supplying warehouse, item, quantity. Sorted in this order before sending, so that all
/// transactions lock stock rows in the same order and cannot deadlock.
pub type Line = (i32, i32, i32);

/// The input data of one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the fields are the specification's; each variant names them in order
pub enum TransactionInput {
    /// Warehouse, district, customer and lines; an invalid order names the item after the last one.
    NewOrder { warehouse: i32, district: i32, customer: i32, lines: Vec<Line>, invalid: bool },
    /// Paying warehouse and district, the customer's own, and the amount in cents.
    Payment { warehouse: i32, district: i32, home: (i32, i32), customer: Customer, cents: i32 },
    /// Warehouse, district, customer.
    OrderStatus { warehouse: i32, district: i32, customer: Customer },
    /// Warehouse and carrier.
    Delivery { warehouse: i32, carrier: i32 },
    /// Warehouse, district and the quantity below which stock is low.
    StockLevel { warehouse: i32, district: i32, threshold: i32 },
}

impl TransactionInput {
    /// The kind of the transaction.
    pub fn kind(&self) -> TransactionKind {
        match self {
            TransactionInput::NewOrder { .. } => TransactionKind::NewOrder,
            TransactionInput::Payment { .. } => TransactionKind::Payment,
            TransactionInput::OrderStatus { .. } => TransactionKind::OrderStatus,
            TransactionInput::Delivery { .. } => TransactionKind::Delivery,
            TransactionInput::StockLevel { .. } => TransactionKind::StockLevel,
        }
    }
}

/// Where a user's transactions take place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserWarehouse {
    /// Warehouse and Stock-Level district drawn anew for each transaction (Alameldeen et al. 2003).
    Random,
    /// The terminal's fixed warehouse and district (clause 2.8.1.1).
    Home(i32, i32),
}

/// Draws the input data of one database scale.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// Size of the database.
    pub scale: Scale,
    /// Constants A of `NURand`.
    pub a: Constants,
    /// Constants C of `NURand`, the same for all users of a run.
    pub c: Constants,
}

impl Generator {
    /// The input data of the next transaction of `kind`.
    pub fn request(
        &self,
        kind: TransactionKind,
        works_at: UserWarehouse,
        stream: &mut Stream,
    ) -> TransactionInput {
        let warehouse = match works_at {
            UserWarehouse::Random => stream.between(1, self.scale.warehouses),
            UserWarehouse::Home(warehouse, _) => warehouse,
        };
        match kind {
            TransactionKind::NewOrder => self.new_order(warehouse, stream),
            TransactionKind::Payment => self.payment(warehouse, stream),
            TransactionKind::OrderStatus => {
                let district = self.district(stream);
                TransactionInput::OrderStatus { warehouse, district, customer: self.customer(stream) }
            }
            TransactionKind::Delivery => {
                TransactionInput::Delivery { warehouse, carrier: stream.between(1, 10) }
            }
            TransactionKind::StockLevel => {
                let district = match works_at {
                    UserWarehouse::Random => self.district(stream),
                    UserWarehouse::Home(_, district) => district,
                };
                TransactionInput::StockLevel { warehouse, district, threshold: stream.between(10, 20) }
            }
        }
    }

    fn district(&self, stream: &mut Stream) -> i32 {
        stream.between(1, self.scale.districts)
    }

    fn customer_number(&self, stream: &mut Stream) -> i32 {
        nurand(stream, self.a.customer, self.c.customer, 1, self.scale.customers)
    }

    /// 60 % by last name, 40 % by number (clauses 2.5.1.2 and 2.6.1.2).
    fn customer(&self, stream: &mut Stream) -> Customer {
        if stream.percent(60) {
            let number = nurand(stream, self.a.last_name, self.c.last_name, 0, self.scale.names() - 1);
            Customer::LastName(super::names::last_name(number))
        } else {
            Customer::Number(self.customer_number(stream))
        }
    }

    /// Another warehouse than `warehouse`, or the same when there is only one.
    fn other_warehouse(&self, warehouse: i32, stream: &mut Stream) -> i32 {
        if self.scale.warehouses == 1 {
            return warehouse;
        }
        let other = stream.between(1, self.scale.warehouses - 1);
        other + i32::from(other >= warehouse)
    }

    fn new_order(&self, warehouse: i32, stream: &mut Stream) -> TransactionInput {
        let district = self.district(stream);
        let customer = self.customer_number(stream);
        let count = stream.between(5, 15);
        let invalid = stream.percent(1);
        let mut lines: Vec<Line> = (0..count)
            .map(|_| {
                let item = nurand(stream, self.a.item, self.c.item, 1, self.scale.items);
                let supply =
                    if stream.percent(1) { self.other_warehouse(warehouse, stream) } else { warehouse };
                (supply, item, stream.between(1, 10))
            })
            .collect();
        if invalid {
            lines[count as usize - 1].1 = self.scale.items + 1;
        }
        lines.sort_unstable();
        TransactionInput::NewOrder { warehouse, district, customer, lines, invalid }
    }

    fn payment(&self, warehouse: i32, stream: &mut Stream) -> TransactionInput {
        let district = self.district(stream);
        let remote = stream.percent(15) && self.scale.warehouses > 1;
        let home = if remote {
            (self.other_warehouse(warehouse, stream), self.district(stream))
        } else {
            (warehouse, district)
        };
        let customer = self.customer(stream);
        TransactionInput::Payment { warehouse, district, home, customer, cents: stream.between(100, 500_000) }
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
