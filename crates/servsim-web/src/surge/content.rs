//! What is in a file: printable bytes of the set's seed and the file's number, and their checksum.

use servsim_driver::rng::{Purpose, Stream};

/// Files have the streams from here on, beyond those of sizes and requests.
const STREAMS: u64 = 1 << 32;
/// Characters of the contents; 64, so that six random bits choose one.
const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ,0123456789";

/// The content of file `index` of the set with `seed`.
pub fn content(seed: u64, index: u32, bytes: u64) -> Vec<u8> {
    let mut stream = Stream::new(seed, Purpose::Load, STREAMS + u64::from(index));
    let mut content = Vec::with_capacity(bytes as usize + 10);
    while (content.len() as u64) < bytes {
        let mut bits = stream.bits();
        for _ in 0..10 {
            content.push(CHARACTERS[(bits & 63) as usize]);
            bits >>= 6;
        }
    }
    content.truncate(bytes as usize);
    content
}

/// The checksum of a whole content (CRC-32C).
pub fn checksum(content: &[u8]) -> u32 {
    crc32c::crc32c(content)
}
