//! What the server itself says it has done: Apache's counter of requests (`mod_status`).

use crate::http::Client;
use crate::{Error, Result};

/// How often the counter is read until it no longer lags behind the replies.
const TRIES: u32 = 50;
/// What is asked for.
const REQUEST: &str = "GET /server-status?auto HTTP/1.1\r\nHost: servsim\r\n\r\n";

/// The server's own count of requests, on a connection of its own.
#[derive(Debug)]
pub struct Counter {
    client: Client,
    /// Readings so far, which the server counts too.
    readings: u64,
}

impl Counter {
    /// Connects to the server at `address`.
    ///
    /// # Errors
    /// When nothing answers there.
    pub fn connect(address: &str) -> Result<Self> {
        Ok(Counter { client: Client::connect(address)?, readings: 0 })
    }

    /// Requests that the server has counted, without our own readings.
    ///
    /// # Errors
    /// [`Error::Environment`] when the server does not tell.
    pub fn requests(&mut self) -> Result<u64> {
        let mut page = Vec::new();
        let reply = self.client.exchange(REQUEST.as_bytes(), |part| page.extend_from_slice(part))?;
        let text = String::from_utf8_lossy(&page);
        let found =
            text.lines().find_map(|line| line.strip_prefix("Total Accesses: ")?.trim().parse::<u64>().ok());
        let Some(found) = found.filter(|_| reply.status == 200) else {
            return Err(Error::Environment(format!(
                "the server at {} does not tell how many requests it has answered (status {} of /server-status?auto): \
                 let it load mod_status, or give --server-count none",
                self.client.address(),
                reply.status
            )));
        };
        let own = self.readings;
        self.readings += 1;
        // A reading is counted when it has been answered: not yet in what it tells.
        Ok(found.saturating_sub(own))
    }

    /// Reads until the server has counted `expected` requests since `before`, and returns how many it has: a server
    /// counts a request a little after its reply.
    ///
    /// # Errors
    /// As for [`Counter::requests`].
    pub fn settled(&mut self, before: u64, expected: u64) -> Result<u64> {
        let mut found = 0;
        for _ in 0..TRIES {
            found = self.requests()?.saturating_sub(before);
            if found == expected {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(found)
    }
}
