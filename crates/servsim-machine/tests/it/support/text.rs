//! A random trace as text.

use servsim_core::RandomStream;
use std::fmt::Write;

/// Tasks that share some pages, cross lines, change modes, migrate among three processors, now and then
/// with nobody between, and end transactions.
pub fn trace(seed: u64) -> String {
    let mut random = RandomStream::new(seed, "sharded");
    let (mut text, mut processors) = (String::new(), [0, 1, 2, 0, 1]);
    for n in 0..6000 {
        let task = random.below(5);
        let op = ["I", "L", "S", "L"][random.below(4) as usize];
        let base = if random.below(3) == 0 { 0x9000 } else { (task + 1) << 16 };
        let reach = [0x80, 0x2000][random.below(2) as usize];
        let address = base + random.below(reach);
        let mode = ["u", "k"][random.below(2) as usize];
        let processor = &mut processors[task as usize];
        if random.below(8) == 0 {
            *processor = random.below(3);
        }
        writeln!(text, "{task} {op} {address:x} {} {mode} @{processor}", 1 + random.below(16)).unwrap();
        if n % 500 == 499 {
            writeln!(text, "{task} X kind{}", task % 2).unwrap();
        }
    }
    text
}
