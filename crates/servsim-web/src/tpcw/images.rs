//! The shop's images: for each number a thumbnail of 5 KB, and an image whose sizes have TPC-W's shares (clause 4.7.1).
//!
//! What is in them means nothing, but the last four bytes are a checksum of the others: whoever has received an image
//! knows whether it is whole without a list of all.

use std::path::Path;

use servsim_driver::rng::{Purpose, Stream};

use crate::{Error, Result};

/// Sizes of images in KB (10^3 bytes), and how many of a hundred have each.
const SIZES: [(usize, usize); 5] = [(5, 45), (10, 35), (50, 15), (100, 4), (250, 1)];
const THUMBNAIL: usize = 5000;

/// Whether an image is whole.
pub fn whole(image: &[u8]) -> bool {
    image.split_last_chunk().is_some_and(|(content, sum)| {
        content.starts_with(b"GIF89a") && crc32c::crc32c(content) == u32::from_le_bytes(*sum)
    })
}

fn image(bytes: usize, stream: &mut Stream) -> Vec<u8> {
    let mut content = b"GIF89a".to_vec();
    while content.len() < bytes - 4 {
        content.extend_from_slice(&stream.bits().to_le_bytes());
    }
    content.truncate(bytes - 4);
    content.extend_from_slice(&crc32c::crc32c(&content).to_le_bytes());
    content
}

/// Bytes of `count` images: the shares as exactly as whole numbers have them, in an order that the seed draws.
fn sizes(count: u32, seed: u64) -> Vec<usize> {
    let place = |index: u32| (2 * index as usize + 1) * 50 / count as usize;
    let size = |index| {
        let mut upto = 0;
        let of = SIZES.iter().find(|(_, share)| {
            upto += share;
            place(index) < upto
        });
        of.map_or(THUMBNAIL, |(size, _)| size * 1000)
    };
    let mut sizes: Vec<usize> = (0..count).map(size).collect();
    Stream::new(seed, Purpose::Constants, 0).shuffle(&mut sizes);
    sizes
}

/// Makes `count` images of each kind below `root`.
///
/// # Errors
/// [`Error::Environment`] when they cannot be written.
pub fn make(root: &Path, count: u32, seed: u64) -> Result<()> {
    let write = |kind: &str, number: usize, bytes, stream: &mut Stream| {
        let path = root.join(kind).join(format!("{number:05}.gif"));
        std::fs::create_dir_all(root.join(kind))
            .and_then(|()| std::fs::write(&path, image(bytes, stream)))
            .map_err(|error| Error::Environment(format!("{} could not be written: {error}", path.display())))
    };
    for (number, bytes) in sizes(count, seed).into_iter().enumerate() {
        let mut stream = Stream::new(seed, Purpose::Load, number as u64);
        write("full", number, bytes, &mut stream)?;
        write("thumb", number, THUMBNAIL, &mut stream)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_shares() {
        let sizes = sizes(200, 1);
        for (size, share) in SIZES {
            assert_eq!(sizes.iter().filter(|&&found| found == size * 1000).count(), 2 * share);
        }
        assert!(super::sizes(1, 1) == [10_000]);
    }

    #[test]
    fn an_image_that_was_changed_or_cut_is_not_whole() {
        let good = image(5000, &mut Stream::new(1, Purpose::Load, 0));
        assert!(good.len() == 5000 && whole(&good));
        let mut bad = good.clone();
        bad[100] ^= 1;
        assert!(!whole(&bad) && !whole(&good[..4999]) && !whole(b"abc"));
    }
}
