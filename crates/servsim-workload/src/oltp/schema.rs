//! The tables, their keys and names, as `PostgreSQL` takes them; another engine translates them.

/// The tables, without keys.
pub const TABLES: &str = include_str!("sql/tables.sql");
/// Keys and indexes, made after loading.
pub const KEYS: &str = include_str!("sql/keys.sql");
/// Names of all tables, for starting over.
pub const NAMES: [&str; 10] = [
    "warehouse",
    "district",
    "customer",
    "history",
    "new_order",
    "orders",
    "order_line",
    "item",
    "stock",
    "servsim_oltp",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_table_is_created_once() {
        for name in NAMES {
            assert_eq!(TABLES.matches(&format!("CREATE TABLE {name} (")).count(), 1, "{name}");
        }
        assert_eq!(TABLES.matches("CREATE TABLE").count(), NAMES.len());
    }
}
