//! Files that are whole or not there: the one way in which anything is written.
//!
//! A file is written under a fresh name in the folder of its target (`.NAME.XXXXXX.part`, created
//! exclusively, so that no link is followed and no two writers share it), flushed to the disk, and
//! renamed. Whoever opens the target finds the old bytes or all of the new ones, whatever ends the
//! writer and whenever. A writer that fails removes its file; that of a killed one is removed by the
//! next writer of the same target, who finds it unlocked.

mod error;

pub use error::{Blame, WriteError};

use rustix::fs::{flock, FlockOperation};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tempfile::TempPath;

/// Bytes of the target's name within the temporary one; the longest name that file systems take is 255.
const NAME_BYTES: usize = 200;
/// How temporary names end.
const SUFFIX: &str = ".part";
/// Characters that make a temporary name unique.
const RANDOM: usize = 6;

/// Temporary files of this process, for [`discard_unfinished`].
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// What becomes of a target that is no regular file: a pipe, a device, or a name that stands for an
/// open file, such as `/dev/stdout`. None of them is ever replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It is refused.
    Refuse,
    /// It is written to.
    WriteTo,
}

/// A file on its way to `path`. Dropped without [`AtomicFile::commit`], it leaves nothing.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    /// `None` when the target itself is written to.
    temporary: Option<TempPath>,
    path: PathBuf,
}

impl AtomicFile {
    /// Begins the file that will be `path`.
    ///
    /// A file that is replaced leaves its permissions to the new one. Of a link, the link is replaced.
    ///
    /// # Errors
    /// When nothing can be created there, or something other than a file has that name.
    pub fn create(path: &Path, special: Special) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::from(ErrorKind::IsADirectory))?;
        let present = std::fs::metadata(path).ok();
        if present.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            return Err(ErrorKind::IsADirectory.into());
        }
        if present.is_some_and(|found| !found.is_file()) || stands_for_open_file(path) {
            if special == Special::Refuse {
                return Err(Error::new(ErrorKind::InvalidInput, "something other than a file has that name"));
            }
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(AtomicFile { file, temporary: None, path: path.to_owned() });
        }
        let folder = folder_of(path);
        let prefix = prefix(name);
        remove_abandoned(folder, &prefix);
        let (file, temporary) = fresh(folder, &prefix)?;
        // A link's own permissions say nothing.
        if let Some(old) = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file) {
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        list().push(temporary.to_path_buf());
        Ok(AtomicFile { file, temporary: Some(temporary), path: path.to_owned() })
    }

    /// The target.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing is there unless it is committed; the target itself is written to where it is no regular file.
    pub fn can_be_undone(&self) -> bool {
        self.temporary.is_some()
    }

    /// The file to write to; copies of it share its position.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes what was written durable, gives it its name, and returns its length in bytes.
    ///
    /// # Errors
    /// When the disk refuses; the target is then as it was.
    pub fn commit(mut self) -> Result<u64> {
        let length = self.file.metadata()?.len();
        let Some(temporary) = self.temporary.take() else { return Ok(length) };
        forget(&temporary);
        self.file.sync_all()?;
        std::fs::rename(&temporary, &self.path)?;
        temporary.keep()?;
        sync_folder(folder_of(&self.path))?;
        Ok(length)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            forget(temporary);
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// When it cannot be written; the target is then as it was.
pub fn write(path: &Path, bytes: &[u8], special: Special) -> std::result::Result<(), WriteError> {
    let written = AtomicFile::create(path, special).and_then(|mut file| {
        file.write_all(bytes)?;
        file.commit()
    });
    written.map(drop).map_err(|source| WriteError::new(path, source))
}

/// Brings the names in a folder to the disk.
///
/// # Errors
/// When the disk refuses. A file system that cannot do this for folders is not an error.
pub fn sync_folder(folder: &Path) -> Result<()> {
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done,
    }
}

/// Removes the unfinished files of this process, whose writers can then no longer commit them. For a
/// process that is about to end without waiting for its threads.
pub fn discard_unfinished() {
    for path in list().drain(..) {
        // One that cannot be removed is removed by the next writer of its target.
        let _ = std::fs::remove_file(path);
    }
}

fn list() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn forget(temporary: &Path) {
    list().retain(|path| path != temporary);
}

/// Whether the name is one of an open file, such as `/dev/stdout` or `/proc/self/fd/1`: even where a
/// regular file is open there, the name must not be taken from it.
fn stands_for_open_file(path: &Path) -> bool {
    let folder = folder_of(path).canonicalize();
    folder.is_ok_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn prefix(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(&bytes[..bytes.len().min(NAME_BYTES)]));
    prefix.push(".");
    prefix
}

/// A new file that this process holds locked.
fn fresh(folder: &Path, prefix: &OsStr) -> Result<(File, TempPath)> {
    loop {
        // As any program creates files: the umask decides who may read them. Opened here, because the library's own
        // errors name the unfinished file, which the user never gave.
        let open = |path: &Path| OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let made = tempfile::Builder::new()
            .prefix(prefix)
            .suffix(SUFFIX)
            .rand_bytes(RANDOM)
            .make_in(folder, open)?;
        // Without locks nobody takes this file for abandoned, so that a failure does no harm.
        let _ = flock(made.as_file(), FlockOperation::NonBlockingLockExclusive);
        // Before it was locked another writer of the target may have removed it.
        if made.as_file().metadata()?.nlink() > 0 {
            return Ok(made.into_parts());
        }
    }
}

/// Removes what killed writers of the same target have left: nobody holds a lock on it.
fn remove_abandoned(folder: &Path, prefix: &OsStr) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if !is_temporary(entry.file_name().as_bytes(), prefix.as_bytes()) {
            continue;
        }
        let flags = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let Ok(file) = OpenOptions::new().write(true).custom_flags(flags).open(entry.path()) else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Another writer may be just as quick.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_temporary(name: &[u8], prefix: &[u8]) -> bool {
    let random = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    random.is_some_and(|random| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric))
}

#[cfg(test)]
mod tests;
