//! How much of a trace warms the caches.

use crate::error::transactions;
use std::fmt;
use std::str::FromStr;

/// A number of transactions or of references, or all there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Until so many transactions have ended.
    Transactions(u64),
    /// Until so many references have been made.
    References(u64),
    /// All of the trace, which then begins again: what the run touches has been touched once before.
    Whole,
}

/// How the last is written.
const WHOLE: &str = "whole trace";

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not the length of a functional warm-up: write a number of transactions, for example `200`, \
                 or of references, for example `5000000 references`, or `{WHOLE}`"
            )
        };
        if text.trim() == WHOLE {
            return Ok(Self::Whole);
        }
        let (number, unit) = match text.trim().split_once(' ') {
            Some((number, unit)) => (number, unit.trim()),
            None => (text.trim(), "transactions"),
        };
        let number: u64 = number.replace('_', "").parse().map_err(|_| wrong())?;
        match unit {
            _ if number == 0 => Err(wrong()),
            "transaction" | "transactions" => Ok(Self::Transactions(number)),
            "references" => Ok(Self::References(number)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transactions(number) => f.write_str(&transactions(*number)),
            Self::References(number) => write!(f, "{number} references"),
            Self::Whole => f.write_str(WHOLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_comes_back_from_its_own_text_and_a_wrong_one_is_refused() {
        assert_eq!(Amount::Transactions(1).to_string(), "1 transaction");
        for amount in
            [Amount::Transactions(1), Amount::Transactions(200), Amount::References(5_000_000), Amount::Whole]
        {
            assert_eq!(amount.to_string().parse(), Ok(amount));
        }
        assert_eq!("24".parse(), Ok(Amount::Transactions(24)));
        for wrong in ["", "0", "-1", "200 tx", "many", "1.5 references", "0 references", "whole"] {
            assert!(wrong.parse::<Amount>().is_err_and(|e| e.contains("write a number")), "{wrong}");
        }
    }
}
