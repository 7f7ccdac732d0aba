//! A file set on disk: the files that a server serves, the catalogue, and the requests.
//!
//! `htdocs/NN/NNNNN.html` are the files, `catalogue.csv` says of each its bytes, checksum and how often it
//! is asked for, `requests.txt` has a page in each line. All of it is made under another name beside its
//! own and renamed when it is whole.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::content::{checksum, content};
use super::popularity::{matched, requests_by_rank};
use super::sequence::{sequence, Sequence};
use super::sizes::{sizes, SetSpec};
use super::Model;
use crate::{Error, Result};

/// Files in each folder of the served tree.
const IN_A_FOLDER: u32 = 1000;
const HEADING: &str = "file,bytes,crc32c,requests";

/// What the catalogue says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its length.
    pub bytes: u64,
    /// Its checksum.
    pub checksum: u32,
    /// How often it is asked for in a round.
    pub requests: u32,
}

/// A file set: what was wanted, its files by number, and the requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// What the set was asked to be.
    pub wanted: SetSpec,
    /// The files.
    pub files: Vec<Entry>,
    /// The requests of a round.
    pub sequence: Sequence,
}

/// The path of a file in a request and below `htdocs`.
pub fn write_path(path: &mut impl std::fmt::Write, file: u32) {
    write!(path, "/{:02}/{file:05}.html", file / IN_A_FOLDER).expect("a text or a buffer takes any path");
}

fn path_of(file: u32) -> String {
    let mut path = String::new();
    write_path(&mut path, file);
    path
}

impl Set {
    /// Makes a set, replacing any at `root`. `say` takes a line now and then.
    ///
    /// # Errors
    /// [`Error::Usage`] for a set that cannot be, [`Error::Environment`] when the disk does not take it.
    pub fn make(root: &Path, wanted: SetSpec, say: fn(&str)) -> Result<Set> {
        let model = Model::published();
        let sizes = sizes(model.file_size, wanted)?;
        let by_rank = requests_by_rank(sizes.len(), model.popularity.exponent);
        let requests = matched(&sizes, &by_rank, model.request_size.law());
        let sequence = sequence(&model, &requests, wanted.seed);
        let scratch = loading_folder(root)?;
        remove(&scratch)?;
        let htdocs = scratch.join("htdocs");
        let mut files = Vec::with_capacity(sizes.len());
        for ((file, bytes), requests) in (0..).zip(sizes).zip(requests) {
            if file % IN_A_FOLDER == 0 {
                let folder = htdocs.join(format!("{:02}", file / IN_A_FOLDER));
                fs::create_dir_all(&folder).map_err(|error| problem("cannot be made", &folder, &error))?;
                say(&format!("file {file} of {}", wanted.files));
            }
            let content = content(wanted.seed, file, bytes);
            let path = htdocs.join(&path_of(file)[1..]);
            fs::write(&path, &content).map_err(|error| problem("cannot be written", &path, &error))?;
            files.push(Entry { bytes, checksum: checksum(&content), requests });
        }
        let set = Set { wanted, files, sequence };
        set.write(&scratch)?;
        remove(root)?;
        fs::rename(&scratch, root).map_err(|error| problem("cannot get its name", root, &error))?;
        Ok(set)
    }

    /// Writes catalogue and requests into a folder.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk does not take them.
    pub fn write(&self, root: &Path) -> Result<()> {
        let mut catalogue = format!("# {}\n{HEADING}\n", serde_json::json!(self.wanted));
        for (file, entry) in self.files.iter().enumerate() {
            let Entry { bytes, checksum, requests } = entry;
            writeln!(catalogue, "{file},{bytes},{checksum:08x},{requests}").expect("a text takes any line");
        }
        let path = root.join("catalogue.csv");
        fs::write(&path, catalogue).map_err(|error| problem("cannot be written", &path, &error))?;
        let path = root.join("requests.txt");
        let lines = || -> std::io::Result<()> {
            let mut out = BufWriter::new(fs::File::create(&path)?);
            for page in 0..self.sequence.page_count() {
                for (place, file) in self.sequence.page(page).iter().enumerate() {
                    write!(out, "{}{file}", if place > 0 { " " } else { "" })?;
                }
                writeln!(out)?;
            }
            out.flush()
        };
        lines().map_err(|error| problem("cannot be written", &path, &error))
    }

    /// Reads the catalogue and the requests of a set.
    ///
    /// # Errors
    /// [`Error::Usage`] when there is no set, or it is not one of this program's.
    pub fn read(root: &Path) -> Result<Set> {
        let catalogue = text(&root.join("catalogue.csv"))?;
        let (wanted, files) = entries(&catalogue)
            .map_err(|what| Error::Usage(format!("{}: {what}", root.join("catalogue.csv").display())))?;
        let requests = text(&root.join("requests.txt"))?;
        let sequence = pages(&requests, files.len())
            .map_err(|what| Error::Usage(format!("{}: {what}", root.join("requests.txt").display())))?;
        Ok(Set { wanted, files, sequence })
    }

    /// Number of files of the tail.
    pub fn tail_files(&self) -> usize {
        let from = Model::published().file_size.tail_from;
        self.files.iter().filter(|file| file.bytes as f64 > from).count()
    }

    /// The files on disk that are not as the catalogue says, as sentences.
    pub fn spoilt(&self, root: &Path) -> Vec<String> {
        let wrong = |(file, entry): (u32, &Entry)| {
            let path = root.join("htdocs").join(&path_of(file)[1..]);
            match fs::read(&path) {
                Err(error) => Some(format!("{} cannot be read: {error}", path.display())),
                Ok(found) if found.len() as u64 != entry.bytes => {
                    Some(format!("{} has {} bytes instead of {}", path.display(), found.len(), entry.bytes))
                }
                Ok(found) if checksum(&found) != entry.checksum => {
                    Some(format!("{} is not what was written: its checksum differs", path.display()))
                }
                Ok(_) => None,
            }
        };
        (0..).zip(&self.files).filter_map(wrong).collect()
    }
}

fn entries(catalogue: &str) -> std::result::Result<(SetSpec, Vec<Entry>), String> {
    let mut lines = catalogue.lines();
    let first = lines.next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    let wanted: SetSpec =
        serde_json::from_str(first).map_err(|_| "this is no catalogue of a file set".to_owned())?;
    if lines.next() != Some(HEADING) {
        return Err(format!("line 2 is not \"{HEADING}\""));
    }
    let entry = |(index, line): (usize, &str)| {
        let mut words = line.split(',');
        let mut number = |radix| u64::from_str_radix(words.next()?, radix).ok();
        (|| {
            let (file, bytes, checksum, requests) = (number(10)?, number(10)?, number(16)?, number(10)?);
            (file == index as u64).then_some(())?;
            Some(Entry {
                bytes,
                checksum: u32::try_from(checksum).ok()?,
                requests: u32::try_from(requests).ok()?,
            })
        })()
        .ok_or_else(|| format!("line {} is not of the form \"{HEADING}\"", index + 3))
    };
    let files: Vec<Entry> = lines.enumerate().map(entry).collect::<std::result::Result<_, _>>()?;
    if files.len() != wanted.files as usize {
        return Err(format!(
            "there are {} files instead of {}: the end is missing",
            files.len(),
            wanted.files
        ));
    }
    Ok((wanted, files))
}

fn pages(text: &str, files: usize) -> std::result::Result<Sequence, String> {
    let mut sequence = Sequence { requests: Vec::new(), pages: vec![0] };
    for (index, line) in text.lines().enumerate() {
        for word in line.split(' ') {
            let file = word.parse().ok().filter(|&file: &u32| (file as usize) < files);
            let file = file.ok_or_else(|| format!("line {}: {word:?} is no file of the set", index + 1))?;
            sequence.requests.push(file);
        }
        sequence.pages.push(sequence.requests.len() as u32);
    }
    if sequence.requests.is_empty() {
        return Err("there are no requests".to_owned());
    }
    Ok(sequence)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| {
        Error::Usage(format!(
            "{} cannot be read ({error}): make a file set with `load` first",
            path.display()
        ))
    })
}

fn loading_folder(root: &Path) -> Result<PathBuf> {
    let name =
        root.file_name().ok_or_else(|| Error::Usage(format!("{} is no name of a folder", root.display())))?;
    Ok(root.with_file_name(format!(".{}.loading", name.to_string_lossy())))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(problem("cannot be replaced", folder, &error))
        }
        _ => Ok(()),
    }
}

fn problem(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Environment(format!("{} {what}: {error}", path.display()))
}
