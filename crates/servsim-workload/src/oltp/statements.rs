//! The five transactions as a client program sends them: a statement at a time, between BEGIN and
//! COMMIT, where the procedures need one round trip for all.
//!
//! The statements, their order and so the order of locks are those of `postgres/sql/procedures.sql`. What a
//! procedure computes between statements, the client computes. Amounts travel in cents. The texts are `PostgreSQL`'s;
//! another engine translates them.

use super::engine::Outcome;
use super::request::{Customer, Line, TransactionInput};
use crate::{Error, Result};

/// The statements in the order of [`Sql`].
pub const STATEMENTS: [&str; 24] = [
    "SELECT w_tax::float8 FROM warehouse WHERE w_id = $1",
    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
     RETURNING d_next_o_id - 1, d_tax::float8",
    "SELECT c_discount::float8, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
     VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP, NULL, $5, $6)",
    "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
    "SELECT (i_price * 100)::int, i_name, i_data FROM item WHERE i_id = $1",
    "UPDATE stock SET \
     s_quantity = CASE WHEN s_quantity >= $3 + 10 THEN s_quantity - $3 ELSE s_quantity - $3 + 91 END, \
     s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4 \
     WHERE s_w_id = $1 AND s_i_id = $2 \
     RETURNING s_quantity, s_data, \
     CASE $5::int WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 WHEN 4 THEN s_dist_04 \
     WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 \
     WHEN 9 THEN s_dist_09 ELSE s_dist_10 END",
    "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, \
     ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8::int * 0.01, $9)",
    "UPDATE warehouse SET w_ytd = w_ytd + $2::int * 0.01 WHERE w_id = $1 \
     RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    "UPDATE district SET d_ytd = d_ytd + $3::int * 0.01 WHERE d_w_id = $1 AND d_id = $2 \
     RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    "SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first, c_id",
    "UPDATE customer SET c_balance = c_balance - $4::int * 0.01, c_ytd_payment = c_ytd_payment + $4::int * 0.01, \
     c_payment_cnt = c_payment_cnt + 1, c_data = CASE WHEN c_credit = 'BC' \
     THEN substr(c_id || ' ' || c_d_id || ' ' || c_w_id || ' ' || $5::int || ' ' || $6::int || ' ' || $4::int * 0.01 \
     || ' | ' || c_data, 1, 500) ELSE c_data END WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 \
     RETURNING c_credit, substr(c_data, 1, 200), c_first, c_middle, c_last, c_street_1, c_street_2, \
     c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance",
    "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
     VALUES ($1, $2, $3, $4, $5, CURRENT_TIMESTAMP, $6::int * 0.01, $7)",
    "SELECT c_first, c_middle, c_last, c_balance FROM customer \
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
     ORDER BY o_id DESC LIMIT 1",
    "SELECT ol_supply_w_id, ol_i_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
    "SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1 FOR UPDATE",
    "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3",
    "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
    "UPDATE order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 \
     RETURNING (ol_amount * 100)::int",
    "UPDATE customer SET c_balance = c_balance + $4::bigint * 0.01, c_delivery_cnt = c_delivery_cnt + 1 \
     WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2",
    "SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id \
     WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 - 20 AND ol_o_id < $3 AND s_quantity < $4",
    // Sent as statements of their own, prepared like any other.
    "COMMIT",
];

/// The statements by name.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // each is the statement in its place above
pub enum Sql {
    WarehouseTax,
    NextOrder,
    CustomerDiscount,
    InsertOrder,
    InsertNewOrder,
    Item,
    UpdateStock,
    InsertLine,
    PayWarehouse,
    PayDistrict,
    CustomersByName,
    PayCustomer,
    InsertHistory,
    CustomerBalance,
    LastOrder,
    OrderLines,
    OldestNewOrder,
    DeleteNewOrder,
    SetCarrier,
    DeliverLines,
    CreditCustomer,
    NextOrderNumber,
    LowStock,
    Commit,
}

/// A value that goes into a statement, for any engine.
pub trait Argument: Sync {
    /// As `PostgreSQL`'s client takes it.
    fn for_postgres(&self) -> &(dyn tokio_postgres::types::ToSql + Sync);
    /// As `SQLite` takes it.
    fn for_sqlite(&self) -> &dyn rusqlite::ToSql;
}

impl<T: tokio_postgres::types::ToSql + rusqlite::ToSql + Sync> Argument for T {
    fn for_postgres(&self) -> &(dyn tokio_postgres::types::ToSql + Sync) {
        self
    }

    fn for_sqlite(&self) -> &dyn rusqlite::ToSql {
        self
    }
}

/// The arguments of a statement.
pub type Arguments<'a> = &'a [&'a dyn Argument];

/// A row of a reply.
pub trait Columns {
    /// A whole number.
    fn integer(&self, column: usize) -> i64;
    /// A rate.
    fn real(&self, column: usize) -> f64;
    /// A text.
    fn text(&self, column: usize) -> &str;
}

/// A connection with the prepared statements.
#[allow(async_fn_in_trait)] // each future is awaited on the thread that made it
pub trait Connection {
    /// A row of a reply.
    type Row: Columns;

    /// Begins a transaction, which may write or only reads.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn begin(&self, writes: bool) -> Result<()>;

    /// Undoes the transaction.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn roll_back(&self) -> Result<()>;

    /// Executes a statement and reads its rows.
    ///
    /// # Errors
    /// When the engine refuses.
    async fn rows(&self, sql: Sql, arguments: Arguments<'_>) -> Result<Vec<Self::Row>>;
}

/// Executes one transaction, a statement at a time, and reads every reply.
///
/// # Errors
/// When the engine reports any error, or replies something impossible.
pub async fn execute<C: Connection>(
    connection: &C,
    request: &TransactionInput,
    districts: i32,
) -> Result<Outcome> {
    let work = Transaction(connection);
    connection.begin(request.kind().writes()).await?;
    let outcome = match request {
        TransactionInput::NewOrder { warehouse, district, customer, lines, invalid } => {
            work.new_order(*warehouse, *district, *customer, lines, *invalid).await
        }
        TransactionInput::Payment { warehouse, district, home, customer, cents } => {
            work.payment(*warehouse, *district, *home, customer, *cents).await
        }
        TransactionInput::OrderStatus { warehouse, district, customer } => {
            work.order_status(*warehouse, *district, customer).await
        }
        TransactionInput::Delivery { warehouse, carrier } => {
            work.delivery(*warehouse, *carrier, districts).await
        }
        TransactionInput::StockLevel { warehouse, district, threshold } => {
            work.stock_level(*warehouse, *district, *threshold).await
        }
    }?;
    if !outcome.rolled_back {
        work.execute(Sql::Commit, &[]).await?;
    }
    Ok(outcome)
}

/// A transaction under way.
struct Transaction<'a, C>(&'a C);

impl<C: Connection> Transaction<'_, C> {
    async fn rows(&self, sql: Sql, arguments: Arguments<'_>) -> Result<Vec<C::Row>> {
        self.0.rows(sql, arguments).await
    }

    async fn row(&self, sql: Sql, arguments: Arguments<'_>) -> Result<C::Row> {
        let mut rows = self.rows(sql, arguments).await?;
        match (rows.pop(), rows.len()) {
            (Some(row), 0) => Ok(row),
            (last, others) => {
                let count = others + usize::from(last.is_some());
                Err(Error::Check(format!("executing {sql:?}: {count} rows, expected one")))
            }
        }
    }

    async fn execute(&self, sql: Sql, arguments: Arguments<'_>) -> Result<()> {
        self.rows(sql, arguments).await.map(drop)
    }

    async fn new_order(&self, w: i32, d: i32, c: i32, lines: &[Line], invalid: bool) -> Result<Outcome> {
        let warehouse_tax = self.row(Sql::WarehouseTax, &[&w]).await?.real(0);
        let district = self.row(Sql::NextOrder, &[&w, &d]).await?;
        let (order, district_tax) = (district.integer(0), district.real(1));
        let order = order as i32;
        let discount = self.row(Sql::CustomerDiscount, &[&w, &d, &c]).await?.real(0);
        let local = i32::from(lines.iter().all(|line| line.0 == w));
        self.execute(Sql::InsertOrder, &[&order, &d, &w, &c, &(lines.len() as i32), &local]).await?;
        self.execute(Sql::InsertNewOrder, &[&order, &d, &w]).await?;
        let mut total = 0.0;
        for (number, (supply, item, quantity)) in (1_i32..).zip(lines) {
            let found = self.rows(Sql::Item, &[item]).await?;
            let Some(price) = found.first().map(|row| row.integer(0) as i32) else {
                // The unused item number of clause 2.4.1.4.
                self.0.roll_back().await?;
                return if invalid {
                    Ok(Outcome { rolled_back: true, delivered: 0 })
                } else {
                    Err(Error::Check(format!("the server knows no item {item}")))
                };
            };
            let remote = i32::from(*supply != w);
            let stock = self.row(Sql::UpdateStock, &[supply, item, quantity, &remote, &d]).await?;
            let (cents, information) = (quantity * price, stock.text(2));
            total += f64::from(cents);
            let line: Arguments<'_> =
                &[&order, &d, &w, &number, item, supply, quantity, &cents, &information];
            self.execute(Sql::InsertLine, line).await?;
        }
        total *= (1.0 - discount) * (1.0 + warehouse_tax + district_tax);
        if invalid || !total.is_finite() {
            return Err(Error::Check(format!("order {order} of an item that does not exist was accepted")));
        }
        Ok(Outcome::default())
    }

    /// The number of the customer: the middle one of those with a name (clause 2.5.2.2).
    async fn number(&self, w: i32, d: i32, customer: &Customer) -> Result<i32> {
        match customer {
            Customer::Number(number) => Ok(*number),
            Customer::LastName(name) => {
                let rows = self.rows(Sql::CustomersByName, &[&w, &d, name]).await?;
                let middle = rows.get(rows.len().saturating_sub(1) / 2);
                middle
                    .map(|row| row.integer(0) as i32)
                    .ok_or_else(|| Error::Check(format!("no customer {name} in warehouse {w} district {d}")))
            }
        }
    }

    async fn payment(
        &self,
        w: i32,
        d: i32,
        home: (i32, i32),
        customer: &Customer,
        cents: i32,
    ) -> Result<Outcome> {
        let warehouse = self.row(Sql::PayWarehouse, &[&w, &cents]).await?;
        let district = self.row(Sql::PayDistrict, &[&w, &d, &cents]).await?;
        let c = self.number(home.0, home.1, customer).await?;
        self.row(Sql::PayCustomer, &[&home.0, &home.1, &c, &cents, &d, &w]).await?;
        let data = format!("{}    {}", warehouse.text(0), district.text(0));
        self.execute(Sql::InsertHistory, &[&c, &home.1, &home.0, &d, &w, &cents, &data]).await?;
        Ok(Outcome::default())
    }

    async fn order_status(&self, w: i32, d: i32, customer: &Customer) -> Result<Outcome> {
        let c = self.number(w, d, customer).await?;
        self.row(Sql::CustomerBalance, &[&w, &d, &c]).await?;
        let order = self.row(Sql::LastOrder, &[&w, &d, &c]).await?.integer(0) as i32;
        let lines = self.rows(Sql::OrderLines, &[&w, &d, &order]).await?.len();
        if (5..=15).contains(&lines) {
            Ok(Outcome::default())
        } else {
            Err(Error::Check(format!("order {order} of warehouse {w} district {d} has {lines} lines")))
        }
    }

    async fn delivery(&self, w: i32, carrier: i32, districts: i32) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for d in 1..=districts {
            let oldest = self.rows(Sql::OldestNewOrder, &[&w, &d]).await?;
            let Some(order) = oldest.first().map(|row| row.integer(0) as i32) else { continue };
            self.execute(Sql::DeleteNewOrder, &[&w, &d, &order]).await?;
            let customer = self.row(Sql::SetCarrier, &[&w, &d, &order, &carrier]).await?.integer(0) as i32;
            let lines = self.rows(Sql::DeliverLines, &[&w, &d, &order]).await?;
            let cents: i64 = lines.iter().map(|line| line.integer(0)).sum();
            self.execute(Sql::CreditCustomer, &[&w, &d, &customer, &cents]).await?;
            outcome.delivered += 1;
        }
        Ok(outcome)
    }

    async fn stock_level(&self, w: i32, d: i32, threshold: i32) -> Result<Outcome> {
        let next = self.row(Sql::NextOrderNumber, &[&w, &d]).await?.integer(0) as i32;
        self.row(Sql::LowStock, &[&w, &d, &next, &threshold]).await?;
        Ok(Outcome::default())
    }
}
