//! The control block device of a guest: orders are read from it, results are written to it.
//!
//! Layout: a JSON object in the first 4096 bytes, padded with zeros; at 1 MiB an 8-byte
//! little-endian length followed by that many bytes of JSON, padded with zeros to a whole block.
//! All access bypasses the page cache (`O_DIRECT`): the guest was saved before the host wrote
//! the orders, so a cached block would be stale, and a result in the cache would never arrive.

use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Bytes of the control block, and the alignment of every direct transfer.
pub const BLOCK: usize = 4096;
/// Where the result starts, in bytes.
pub const RESULT_OFFSET: u64 = 1 << 20;

/// What to run, as found in the control block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Orders {
    /// Transactions to measure, over all users.
    pub transactions: u64,
    /// Seed of the measured requests.
    pub seed: u64,
    /// Whether the consistency conditions are checked afterwards.
    #[serde(default = "yes")]
    pub check: bool,
    /// Transactions from the moment the machine goes on to the start of the measurement, over all users; one for
    /// each user if it is not said. Captures with different ones begin at different moments of the guest.
    #[serde(default)]
    pub lead_in: Option<u64>,
}

impl Orders {
    /// Transactions before the measurement, for so many users; at least one.
    pub fn lead_in(&self, users: u64) -> u64 {
        self.lead_in.unwrap_or(users).max(1)
    }
}

fn yes() -> bool {
    true
}

/// A zeroed buffer aligned for direct input and output.
struct Aligned {
    start: *mut u8,
    layout: Layout,
}

impl Aligned {
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(BLOCK), BLOCK).expect("a buffer size fits memory");
        // SAFETY: the layout has a non-zero size.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            std::alloc::handle_alloc_error(layout);
        }
        Aligned { start, layout }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `start` owns `layout.size()` initialised bytes, borrowed through `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.layout.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

/// The control device, opened for direct access.
#[derive(Debug)]
pub struct Control {
    file: File,
    path: PathBuf,
}

impl Control {
    /// Opens the device (or, in tests, a file).
    ///
    /// # Errors
    /// [`Error::Environment`] when it cannot be opened for direct reading and writing.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_DIRECT | libc::O_SYNC)
            .open(path)
            .map_err(|error| problem(path, "cannot be opened for direct access", &error))?;
        Ok(Control { file, path: path.to_owned() })
    }

    /// Reads the orders from the first block.
    ///
    /// # Errors
    /// [`Error::Environment`] on a failed read, [`Error::Usage`] when the block holds no orders.
    pub fn orders(&self) -> Result<Orders> {
        let mut buffer = Aligned::new(BLOCK);
        self.file
            .read_exact_at(buffer.bytes(), 0)
            .map_err(|error| problem(&self.path, "has no readable first block", &error))?;
        let bytes = buffer.bytes();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(BLOCK);
        serde_json::from_slice(&bytes[..end]).map_err(|error| {
            Error::Usage(format!(
                "control block of {} is not valid: {error}; expected {{\"transactions\": N, \"seed\": S, \"check\": true}}",
                self.path.display()
            ))
        })
    }

    /// Writes the result behind its length at 1 MiB; it is on the device when this returns.
    ///
    /// # Errors
    /// [`Error::Environment`] when the device is too small or the write fails.
    pub fn write_result(&self, json: &str) -> Result<()> {
        let mut buffer = Aligned::new((8 + json.len()).next_multiple_of(BLOCK));
        let bytes = buffer.bytes();
        bytes[..8].copy_from_slice(&(json.len() as u64).to_le_bytes());
        bytes[8..8 + json.len()].copy_from_slice(json.as_bytes());
        self.file
            .write_all_at(bytes, RESULT_OFFSET)
            .map_err(|error| problem(&self.path, "does not take the result", &error))
    }
}

fn problem(path: &Path, what: &str, error: &std::io::Error) -> Error {
    Error::Environment(format!("control device {} {what}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(content: &[u8]) -> tempfile::NamedTempFile {
        // Beside the sources rather than in /tmp, which may be a memory file system without O_DIRECT.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().set_len(2 << 20).unwrap();
        file.as_file().write_all_at(content, 0).unwrap();
        file
    }

    #[test]
    fn orders_are_read_and_results_written_at_their_places() {
        let file = device(br#"{"transactions": 200, "seed": 7}"#);
        let control = Control::open(file.path()).unwrap();
        assert_eq!(
            control.orders().unwrap(),
            Orders { transactions: 200, seed: 7, check: true, lead_in: None }
        );
        let text = "x".repeat(5000);
        control.write_result(&text).unwrap();
        let written = std::fs::read(file.path()).unwrap();
        let result = &written[RESULT_OFFSET as usize..];
        assert_eq!(result[..8], 5000u64.to_le_bytes());
        assert_eq!(&result[8..5008], text.as_bytes());
        assert!(result[5008..8192].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_block_without_orders_is_refused() {
        for content in
            [&b""[..], b"{\"transactions\": 3}", b"{\"transactions\": 3, \"seed\": 1, \"chekc\": true}"]
        {
            let file = device(content);
            let error = Control::open(file.path()).unwrap().orders().unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
    }

    #[test]
    fn a_missing_device_is_an_environment_problem() {
        assert_eq!(Control::open(Path::new("/nonexistent/vdb")).unwrap_err().exit_code(), 3);
    }
}
