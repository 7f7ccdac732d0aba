//! The transactions as stored procedures, in the SQL text beside this file.

/// The five transactions.
pub const PROCEDURES: &str = include_str!("procedures.sql");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_random_function_is_called_inside_the_database() {
        assert!(!PROCEDURES.to_lowercase().contains("random("));
    }
}
