//! Where an export goes, compressed if the name's end says so; it has its name when it is whole.

use servsim_files::{AtomicFile, Special};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Strength of xz: the usual 6 takes minutes for what 1 does in seconds, for a third less.
const XZ_LEVEL: u32 = 1;

enum Stream {
    Plain(BufWriter<AtomicFile>),
    Gzip(flate2::write::GzEncoder<BufWriter<AtomicFile>>),
    Xz(liblzma::write::XzEncoder<BufWriter<AtomicFile>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<AtomicFile>>),
}

/// A file being written.
pub struct Sink {
    stream: Option<Stream>,
}

impl Sink {
    /// Begins the file that will be `path`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 18, AtomicFile::create(path, Special::Refuse)?);
        let stream = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Stream::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            Some("xz") => Stream::Xz(liblzma::write::XzEncoder::new(file, XZ_LEVEL)),
            Some("zst") => {
                let mut encoder = zstd::stream::write::Encoder::new(file, 0)?;
                encoder.include_checksum(true)?;
                Stream::Zstd(encoder)
            }
            _ => Stream::Plain(file),
        };
        Ok(Self { stream: Some(stream) })
    }

    /// Completes the file, gives it its name, and returns its length.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> io::Result<u64> {
        let file = match self.stream.take() {
            Some(Stream::Plain(file)) => file,
            Some(Stream::Gzip(encoder)) => encoder.finish()?,
            Some(Stream::Xz(encoder)) => encoder.finish()?,
            Some(Stream::Zstd(encoder)) => encoder.finish()?,
            None => return Ok(0),
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.stream.as_mut() {
            Some(Stream::Plain(file)) => file.write(bytes),
            Some(Stream::Gzip(encoder)) => encoder.write(bytes),
            Some(Stream::Xz(encoder)) => encoder.write(bytes),
            Some(Stream::Zstd(encoder)) => encoder.write(bytes),
            None => Err(io::Error::other("written after its end")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
