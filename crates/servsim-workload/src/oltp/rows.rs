//! The initial rows (TPC-C clause 4.3.3), as lines of `PostgreSQL`'s COPY text format.
//!
//! Every warehouse of every table has its own random stream, so the database depends on the seed
//! and the scale alone. Dates are fixed for the same reason.

use std::io::Write;

use super::names;
use super::scale::{Constants, Scale};
use servsim_driver::nurand::nurand;

use crate::rng::{Purpose, Stream};

/// The date of every initial row: deterministic, and earlier than any run.
const DATE: &str = "2003-02-01 00:00:00";

/// A table of the initial database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Items; the only table without warehouses.
    Item,
    /// Warehouses.
    Warehouse,
    /// Districts.
    District,
    /// Customers.
    Customer,
    /// One payment per customer.
    History,
    /// Stock of each item in each warehouse.
    Stock,
    /// Orders.
    Orders,
    /// Orders not yet delivered.
    NewOrder,
    /// Lines of the orders.
    OrderLine,
}

impl Table {
    /// In loading order.
    pub const ALL: [Table; 9] = [
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Customer,
        Table::History,
        Table::Stock,
        Table::Orders,
        Table::NewOrder,
        Table::OrderLine,
    ];

    /// The SQL name.
    pub fn name(self) -> &'static str {
        match self {
            Table::Item => "item",
            Table::Warehouse => "warehouse",
            Table::District => "district",
            Table::Customer => "customer",
            Table::History => "history",
            Table::Stock => "stock",
            Table::Orders => "orders",
            Table::NewOrder => "new_order",
            Table::OrderLine => "order_line",
        }
    }
}

/// Makes the rows of one database.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// Size of the database.
    pub scale: Scale,
    /// Seed of all rows.
    pub seed: u64,
    /// Constants A of `NURand`.
    pub a: Constants,
    /// Constants C of `NURand` for the load.
    pub c: Constants,
}

macro_rules! row {
    ($out:expr, $($arg:tt)*) => { write!($out, $($arg)*).expect("writing to memory cannot fail") };
}

impl Population {
    /// The population of a scale and a seed.
    pub fn new(scale: Scale, seed: u64) -> Self {
        Population { scale, seed, a: scale.a(), c: scale.c_load(seed) }
    }

    /// Number of parts a table is made in: its warehouses.
    pub fn parts(&self, table: Table) -> i32 {
        if table == Table::Item {
            1
        } else {
            self.scale.warehouses
        }
    }

    fn stream(&self, table: Table, warehouse: i32) -> Stream {
        Stream::new(self.seed, Purpose::Load, (table as u64) << 32 | warehouse as u64)
    }

    /// Appends the rows of `table` that belong to `warehouse` (from 1).
    pub fn append(&self, out: &mut Vec<u8>, table: Table, warehouse: i32) {
        let stream = &mut self.stream(table, warehouse);
        match table {
            Table::Item => self.items(out, stream),
            Table::Warehouse => self.warehouse(out, stream, warehouse),
            Table::District => self.districts(out, stream, warehouse),
            Table::Customer => self.customers(out, stream, warehouse),
            Table::History => self.history(out, stream, warehouse),
            Table::Stock => self.stock(out, stream, warehouse),
            Table::Orders => self.orders(out, stream, warehouse),
            Table::NewOrder => self.new_orders(out, warehouse),
            Table::OrderLine => self.order_lines(out, stream, warehouse),
        }
    }

    fn items(&self, out: &mut Vec<u8>, stream: &mut Stream) {
        for item in 1..=self.scale.items {
            row!(out, "{item}\t{}\t", stream.between(1, 10_000));
            names::text(out, stream, 14, 24);
            row!(out, "\t{}\t", Cents(stream.between(100, 10_000)));
            names::data(out, stream);
            out.push(b'\n');
        }
    }

    fn warehouse(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        row!(out, "{warehouse}\t");
        names::text(out, stream, 6, 10);
        address(out, stream);
        let ytd = i64::from(self.scale.districts) * i64::from(self.scale.customers) * 10;
        row!(out, "\t{}\t{ytd}.00\n", TenThousandths(stream.between(0, 2000)));
    }

    fn districts(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for district in 1..=self.scale.districts {
            row!(out, "{district}\t{warehouse}\t");
            names::text(out, stream, 6, 10);
            address(out, stream);
            let (ytd, next) = (self.scale.customers * 10, self.scale.orders() + 1);
            row!(out, "\t{}\t{ytd}.00\t{next}\n", TenThousandths(stream.between(0, 2000)));
        }
    }

    fn customers(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for district in 1..=self.scale.districts {
            for customer in 1..=self.scale.customers {
                row!(out, "{customer}\t{district}\t{warehouse}\t");
                names::text(out, stream, 8, 16);
                let name = if customer <= self.scale.names() {
                    customer - 1
                } else {
                    nurand(stream, self.a.last_name, self.c.last_name, 0, self.scale.names() - 1)
                };
                row!(out, "\tOE\t{}\t", names::last_name(name));
                names::text(out, stream, 10, 20);
                address_rest(out, stream);
                out.push(b'\t');
                names::digits(out, stream, 16);
                let credit = if stream.percent(10) { "BC" } else { "GC" };
                let discount = TenThousandths(stream.between(0, 5000));
                row!(out, "\t{DATE}\t{credit}\t50000.00\t{discount}\t-10.00\t10.00\t1\t0\t");
                names::text(out, stream, 300, 500);
                out.push(b'\n');
            }
        }
    }

    fn history(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for district in 1..=self.scale.districts {
            for customer in 1..=self.scale.customers {
                row!(out, "{customer}\t{district}\t{warehouse}\t{district}\t{warehouse}\t{DATE}\t10.00\t");
                names::text(out, stream, 12, 24);
                out.push(b'\n');
            }
        }
    }

    fn stock(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for item in 1..=self.scale.items {
            row!(out, "{item}\t{warehouse}\t{}", stream.between(10, 100));
            for _ in 0..10 {
                out.push(b'\t');
                names::text(out, stream, 24, 24);
            }
            out.extend_from_slice(b"\t0\t0\t0\t");
            names::data(out, stream);
            out.push(b'\n');
        }
    }

    /// The number of lines of each order of a district, which both orders and lines need.
    fn line_counts(&self, warehouse: i32, district: i32) -> Stream {
        Stream::new(self.seed, Purpose::Load, 0xff << 40 | (district as u64) << 32 | warehouse as u64)
    }

    fn orders(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for district in 1..=self.scale.districts {
            let mut customers: Vec<i32> = (1..=self.scale.customers).collect();
            stream.shuffle(&mut customers);
            let mut counts = self.line_counts(warehouse, district);
            for (order, customer) in (1..).zip(customers) {
                row!(out, "{order}\t{district}\t{warehouse}\t{customer}\t{DATE}\t");
                if order <= self.scale.delivered() {
                    row!(out, "{}", stream.between(1, 10));
                } else {
                    out.extend_from_slice(b"\\N");
                }
                row!(out, "\t{}\t1\n", counts.between(5, 15));
            }
        }
    }

    fn new_orders(&self, out: &mut Vec<u8>, warehouse: i32) {
        for district in 1..=self.scale.districts {
            for order in self.scale.delivered() + 1..=self.scale.orders() {
                row!(out, "{order}\t{district}\t{warehouse}\n");
            }
        }
    }

    fn order_lines(&self, out: &mut Vec<u8>, stream: &mut Stream, warehouse: i32) {
        for district in 1..=self.scale.districts {
            let mut counts = self.line_counts(warehouse, district);
            for order in 1..=self.scale.orders() {
                let delivered = order <= self.scale.delivered();
                for line in 1..=counts.between(5, 15) {
                    let item = stream.between(1, self.scale.items);
                    row!(out, "{order}\t{district}\t{warehouse}\t{line}\t{item}\t{warehouse}\t");
                    if delivered {
                        row!(out, "{DATE}\t5\t0.00\t");
                    } else {
                        row!(out, "\\N\t5\t{}\t", Cents(stream.between(1, 999_999)));
                    }
                    names::text(out, stream, 24, 24);
                    out.push(b'\n');
                }
            }
        }
    }
}

/// An amount of money, written with two decimals.
struct Cents(i32);

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// A rate below one, written with four decimals.
struct TenThousandths(i32);

impl std::fmt::Display for TenThousandths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "0.{:04}", self.0)
    }
}

/// Two streets, city, state and postal code, each after a separator.
fn address(out: &mut Vec<u8>, stream: &mut Stream) {
    out.push(b'\t');
    names::text(out, stream, 10, 20);
    address_rest(out, stream);
}

/// The second street, city, state and postal code.
fn address_rest(out: &mut Vec<u8>, stream: &mut Stream) {
    for (low, high) in [(10, 20), (10, 20), (2, 2)] {
        out.push(b'\t');
        names::text(out, stream, low, high);
    }
    out.push(b'\t');
    names::digits(out, stream, 4);
    out.extend_from_slice(b"11111");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oltp::scale::Preset;

    fn lines(table: Table, warehouse: i32) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        Population::new(Preset::Paper.scale(None), 42).append(&mut out, table, warehouse);
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn every_table_has_its_rows_and_columns() {
        for (table, rows, columns) in [
            (Table::Item, 100, 5),
            (Table::Warehouse, 1, 9),
            (Table::District, 3, 11),
            (Table::Customer, 90, 21),
            (Table::History, 90, 8),
            (Table::Stock, 100, 17),
            (Table::Orders, 90, 8),
            (Table::NewOrder, 27, 3),
        ] {
            let lines = lines(table, 7);
            assert_eq!(lines.len(), rows, "{table:?}");
            assert!(lines.iter().all(|line| line.len() == columns), "{table:?}");
        }
    }

    #[test]
    fn orders_agree_with_their_lines() {
        let orders = lines(Table::Orders, 5);
        let order_lines = lines(Table::OrderLine, 5);
        for order in &orders {
            let own = order_lines.iter().filter(|line| line[0] == order[0] && line[1] == order[1]);
            assert_eq!(own.count().to_string(), order[6]);
        }
    }

    #[test]
    fn every_name_has_a_customer_and_rows_repeat_exactly() {
        let customers = lines(Table::Customer, 3);
        for name in 0..10 {
            for district in ["1", "2", "3"] {
                assert!(customers.iter().any(|row| row[1] == district && row[5] == names::last_name(name)));
            }
        }
        assert_eq!(customers, lines(Table::Customer, 3));
        assert_ne!(customers[0][3], lines(Table::Customer, 4)[0][3]);
    }

    #[test]
    fn a_tenth_of_the_customers_has_bad_credit() {
        let bad: usize =
            (1..=200).map(|w| lines(Table::Customer, w).iter().filter(|r| r[13] == "BC").count()).sum();
        let sigma = (18_000.0f64 * 0.1 * 0.9).sqrt();
        assert!((bad as f64 - 1800.0).abs() < 3.0 * sigma, "{bad} of 18000");
    }
}
