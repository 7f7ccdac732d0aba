//! Where an export goes: beside its place until it is whole, compressed if the name's end says so.

use crate::io_error;
use servsim_core::SourceError;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Strength of xz: the usual 6 takes minutes for what 1 does in seconds, for a third less.
const XZ_LEVEL: u32 = 1;

enum Stream {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Xz(liblzma::write::XzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

/// A file being written.
pub struct Sink {
    stream: Option<Stream>,
    temporary: PathBuf,
    path: PathBuf,
}

impl Sink {
    /// Begins the file that will be `path`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Self, SourceError> {
        let fail = |e: io::Error| io_error(path, &e);
        servsim_trace::refuse_special(path).map_err(fail)?;
        let name = path
            .file_name()
            .ok_or_else(|| SourceError(format!("{}: not the name of a file", path.display())))?;
        let temporary =
            path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        let file = BufWriter::with_capacity(1 << 18, File::create(&temporary).map_err(fail)?);
        let stream = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Stream::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            Some("xz") => Stream::Xz(liblzma::write::XzEncoder::new(file, XZ_LEVEL)),
            Some("zst") => {
                let mut encoder = zstd::stream::write::Encoder::new(file, 0).map_err(fail)?;
                encoder.include_checksum(true).map_err(fail)?;
                Stream::Zstd(encoder)
            }
            _ => Stream::Plain(file),
        };
        Ok(Self { stream: Some(stream), temporary, path: path.to_owned() })
    }

    /// Completes the file, gives it its name, and returns its length.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> io::Result<u64> {
        let mut file = match self.stream.take() {
            Some(Stream::Plain(file)) => file,
            Some(Stream::Gzip(encoder)) => encoder.finish()?,
            Some(Stream::Xz(encoder)) => encoder.finish()?,
            Some(Stream::Zstd(encoder)) => encoder.finish()?,
            None => return Ok(0),
        };
        file.flush()?;
        let length = file.get_ref().metadata()?.len();
        std::fs::rename(&self.temporary, &self.path)?;
        Ok(length)
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

impl Drop for Sink {
    /// Removes what is not whole; after the renaming there is nothing of that name.
    fn drop(&mut self) {
        drop(self.stream.take());
        let _ = std::fs::remove_file(&self.temporary);
    }
}
