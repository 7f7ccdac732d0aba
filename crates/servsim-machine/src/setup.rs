//! What both engines need to know of a machine, with names already turned into components.

use servsim_mem::protocol::Table;
use servsim_mem::Geometry;

/// The memory system and the processors of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Number of processors.
    pub processors: usize,
    /// Every processor's cache.
    pub geometry: Geometry,
    /// The coherence protocol.
    pub protocol: Table,
    /// Whether conflict and capacity misses are told apart.
    pub shadow: bool,
}

/// Calls `$run::<W>($($argument),*)` with the narrowest word mask for lines of `$line` bytes.
/// With `$run<_>`, `$run` has a second type parameter, which is inferred.
macro_rules! with_word_mask {
    ($line:expr, $run:ident<_>($($argument:expr),*)) => {
        match $line / servsim_mem::words::WORD_BYTES {
            ..=16 => $run::<u16, _>($($argument),*),
            17..=32 => $run::<u32, _>($($argument),*),
            33..=64 => $run::<u64, _>($($argument),*),
            _ => $run::<servsim_mem::Wide, _>($($argument),*),
        }
    };
    ($line:expr, $run:ident($($argument:expr),*)) => {
        match $line / servsim_mem::words::WORD_BYTES {
            ..=16 => $run::<u16>($($argument),*),
            17..=32 => $run::<u32>($($argument),*),
            33..=64 => $run::<u64>($($argument),*),
            _ => $run::<servsim_mem::Wide>($($argument),*),
        }
    };
}
pub(crate) use with_word_mask;
