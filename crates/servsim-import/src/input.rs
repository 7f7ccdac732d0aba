//! Bytes of a trace file, decompressed while they are read: gzip, bzip2, xz, LZ4, Zstandard, Snappy
//! (framed) and zip archives, told by their first bytes, not by the file's name. Only one block of
//! a decoder is in memory at a time.
//!
//! A zip archive stands for its members one after another in the archive's order, which is how
//! DynamoRIO splits a thread's trace into chunks.

use crate::io_error;
use bzip2::read::MultiBzDecoder;
use flate2::read::{DeflateDecoder, MultiGzDecoder};
use servsim_core::SourceError;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// First bytes of a compression format, its name, and its decoder.
type Codec = (&'static [u8], &'static str, fn(File) -> io::Result<Box<dyn Read + Send>>);

/// Every compression that is read.
const CODECS: &[Codec] = &[
    (b"\x1f\x8b", "gzip", |file| Ok(Box::new(MultiGzDecoder::new(BufReader::new(file))))),
    (b"BZh", "bzip2", |file| Ok(Box::new(MultiBzDecoder::new(BufReader::new(file))))),
    (b"\xfd7zXZ\0", "xz", |file| {
        // The dictionary is as large as the file says: up to 4 GiB.
        let memory = servsim_trace::Budget::of_environment().map_err(io::Error::other)?.bytes();
        let stream = liblzma::stream::Stream::new_stream_decoder(memory, liblzma::stream::CONCATENATED)?;
        Ok(Box::new(liblzma::read::XzDecoder::new_stream(file, stream)))
    }),
    (b"\x04\x22\x4d\x18", "lz4", |file| {
        Ok(Box::new(Frames { frame: Some(lz4_flex::frame::FrameDecoder::new(BufReader::new(file))) }))
    }),
    (b"\x28\xb5\x2f\xfd", "zstd", |file| Ok(Box::new(zstd::stream::read::Decoder::new(file)?))),
    (b"\xff\x06\0\0sNaPpY", "snappy", |file| {
        Ok(Box::new(snap::read::FrameDecoder::new(BufReader::new(file))))
    }),
    (b"PK\x03\x04", "zip", |file| Ok(Box::new(Members::open(file)?))),
];

/// Extensions that say how a file is compressed and nothing about its format.
pub const EXTENSIONS: &[&str] = &["gz", "bz2", "xz", "lz4", "zst", "sz", "zip"];

/// A trace file being read; errors name the file.
pub struct Input {
    reader: Box<dyn Read + Send>,
    path: PathBuf,
    codec: Option<&'static str>,
}

impl Input {
    /// Opens `path`.
    ///
    /// # Errors
    /// When the file cannot be read or its compressed form is damaged at the very beginning.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let fail = |e: io::Error| io_error(path, &e);
        let mut file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            return Err(SourceError(format!(
                "{}: a directory; only drmemtrace traces are directories (--format drmemtrace)",
                path.display()
            )));
        }
        let mut first = Vec::new();
        (&mut file).take(16).read_to_end(&mut first).map_err(fail)?;
        let codec = CODECS.iter().find(|(magic, ..)| first.starts_with(magic));
        let path = path.to_owned();
        let rewound = file.seek(SeekFrom::Start(0));
        let Some((_, name, open)) = codec else {
            // What comes through a pipe cannot be looked at again.
            let reader: Box<dyn Read + Send> = match rewound {
                Ok(_) => Box::new(file),
                Err(_) => Box::new(io::Cursor::new(first).chain(file)),
            };
            return Ok(Self { reader, path, codec: None });
        };
        rewound.map_err(|_| {
            SourceError(format!("{}: {name} data through a pipe; decompress it before", path.display()))
        })?;
        let reader = open(file).map_err(|e| damaged(&path, name, &e))?;
        Ok(Self { reader, path, codec: Some(name) })
    }

    /// Bytes that are already here, under the name of a file.
    pub fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        Self { reader: Box::new(io::Cursor::new(bytes.to_vec())), path: name.into(), codec: None }
    }

    /// The file's name, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Fills as much of `buffer` as the file still has; fewer bytes than asked mean its end.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.filled(buffer).map_err(|error| match self.codec {
            Some(codec) => damaged(&self.path, codec, &error),
            None => io_error(&self.path, &error),
        })
    }

    fn filled(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

/// As much as the file still has, so that who looks at the beginning sees all of it; the reader names the file.
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.filled(buffer).map_err(|error| match self.codec {
            Some(codec) => io::Error::new(error.kind(), in_codec(codec, &error)),
            None => error,
        })
    }
}

fn damaged(path: &Path, codec: &str, error: &io::Error) -> SourceError {
    SourceError(format!("{}: {}", path.display(), in_codec(codec, error)))
}

fn in_codec(codec: &str, error: &io::Error) -> String {
    format!("the {codec} data is damaged or cut short ({error}); fetch or make the file again")
}

/// LZ4 frames one after another; the decoder itself stops after the first.
struct Frames<R: Read> {
    frame: Option<lz4_flex::frame::FrameDecoder<BufReader<R>>>,
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let n = frame.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            let mut rest = self.frame.take().expect("just there").into_inner();
            if !io::BufRead::fill_buf(&mut rest)?.is_empty() {
                self.frame = Some(lz4_flex::frame::FrameDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// The members of a zip archive, one after another, each checked against its checksum.
struct Members {
    file: File,
    /// Where the data of each member still to be read begins, last first.
    waiting: Vec<Member>,
    open: Option<(Box<dyn Read + Send>, flate2::Crc, u32)>,
}

/// One member of a zip archive.
struct Member {
    start: u64,
    compressed: u64,
    deflated: bool,
    crc: u32,
}

impl Members {
    fn open(file: File) -> io::Result<Self> {
        let mut archive = zip::ZipArchive::new(BufReader::new(file.try_clone()?))?;
        let mut waiting = Vec::new();
        for index in 0..archive.len() {
            let member = archive.by_index_raw(index)?;
            let deflated = match member.compression() {
                zip::CompressionMethod::Stored => false,
                zip::CompressionMethod::Deflated => true,
                other => {
                    let text = format!("member {} is compressed with {other}", member.name());
                    return Err(io::Error::new(io::ErrorKind::Unsupported, text));
                }
            };
            let (start, compressed) = (member.data_start(), member.compressed_size());
            waiting.push(Member { start, compressed, deflated, crc: member.crc32() });
        }
        waiting.reverse();
        Ok(Self { file, waiting, open: None })
    }
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((reader, crc, expected)) = &mut self.open {
                let n = reader.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    crc.update(&buffer[..n]);
                    return Ok(n);
                }
                if crc.sum() != *expected {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "wrong checksum"));
                }
            }
            let Some(next) = self.waiting.pop() else { return Ok(0) };
            // The previous member's reader is gone by then, so sharing the position is safe.
            self.open = None;
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(next.start))?;
            let data = BufReader::new(file.take(next.compressed));
            let reader: Box<dyn Read + Send> =
                if next.deflated { Box::new(DeflateDecoder::new(data)) } else { Box::new(data) };
            self.open = Some((reader, flate2::Crc::new(), next.crc));
        }
    }
}

/// Fixed-size records of `N` bytes, in order.
pub struct Records<const N: usize> {
    input: Input,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    /// Records read so far.
    pub number: u64,
}

impl<const N: usize> Records<N> {
    /// Records held at a time.
    const HELD: usize = 4096;

    /// The records of `input`.
    pub fn new(input: Input) -> Self {
        Self { input, buffer: vec![0; N * Self::HELD], position: 0, filled: 0, number: 0 }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or ends within a record.
    ///
    /// # Panics
    /// Never: a refill leaves whole records.
    #[inline]
    pub fn record(&mut self) -> Result<Option<&[u8; N]>, SourceError> {
        if self.position == self.filled && !self.refill()? {
            return Ok(None);
        }
        let bytes = &self.buffer[self.position..self.position + N];
        self.position += N;
        self.number += 1;
        Ok(Some(bytes.try_into().expect("N bytes")))
    }

    fn refill(&mut self) -> Result<bool, SourceError> {
        self.filled = self.input.fill(&mut self.buffer)?;
        self.position = 0;
        let rest = self.filled % N;
        if rest != 0 {
            let whole = self.number + (self.filled / N) as u64;
            return Err(SourceError(format!(
                "{}: truncated: {rest} bytes follow record {whole}, fewer than the {N} of a record; \
                 fetch or make the file again, or cut it to {} bytes (uncompressed)",
                self.input.name(),
                whole * N as u64
            )));
        }
        Ok(self.filled > 0)
    }

    /// A fault in the record just read.
    pub fn fault(&self, what: &str) -> SourceError {
        let index = self.number.saturating_sub(1);
        SourceError(format!("{}: record {index} (byte {}): {what}", self.input.name(), index * N as u64))
    }
}

/// Longest accepted line; a hostile file cannot make the reader buffer more.
const MAX_LINE: usize = 4096;

/// Lines of text, in order.
pub struct Lines {
    input: Input,
    buffer: Vec<u8>,
    position: usize,
    filled: usize,
    ended: bool,
    /// Number of the line just read, from 1.
    pub number: u64,
}

impl Lines {
    /// The lines of `input`.
    pub fn new(input: Input) -> Self {
        Self { input, buffer: vec![0; 64 * MAX_LINE], position: 0, filled: 0, ended: false, number: 0 }
    }

    /// The next line, without its end; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or a line is too long to be one.
    #[inline]
    pub fn line(&mut self) -> Result<Option<&[u8]>, SourceError> {
        loop {
            let rest = &self.buffer[self.position..self.filled];
            let length = match memchr::memchr(b'\n', rest) {
                Some(length) => length,
                None if !self.ended => {
                    self.refill()?;
                    continue;
                }
                None if rest.is_empty() => return Ok(None),
                None => rest.len(),
            };
            let start = self.position;
            self.position = (start + length + 1).min(self.filled);
            self.number += 1;
            if length > MAX_LINE {
                return Err(self.fault(&format!("longer than {MAX_LINE} bytes; is this a text trace?")));
            }
            let line = &self.buffer[start..start + length];
            return Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)));
        }
    }

    fn refill(&mut self) -> Result<(), SourceError> {
        self.buffer.copy_within(self.position..self.filled, 0);
        self.filled -= self.position;
        self.position = 0;
        if self.filled == self.buffer.len() {
            self.number += 1;
            return Err(self.fault(&format!("longer than {MAX_LINE} bytes; is this a text trace?")));
        }
        let room = self.buffer.len() - self.filled;
        let added = self.input.fill(&mut self.buffer[self.filled..])?;
        self.filled += added;
        self.ended = added < room;
        Ok(())
    }

    /// A fault in the line just read.
    pub fn fault(&self, what: &str) -> SourceError {
        SourceError(format!("{}, line {}: {what}", self.input.name(), self.number))
    }
}

/// A hexadecimal number of at most 64 bits.
#[inline]
pub fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_u64;
    for &digit in digits {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(nibble);
    }
    Some(value)
}

/// A decimal number of at most 64 bits.
#[inline]
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// The line, or its beginning, for a message.
pub fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned()
}
