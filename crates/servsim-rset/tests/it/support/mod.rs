//! Machines as folders: what `/sys` and `/proc` of a real one would say.

use servsim_rset::Topology;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A node as the kernel describes it: its processors, MiB of its memory.
pub type Described = (&'static str, u64);

/// A folder that says what a machine of these nodes would; distances are 10 within and 20 between nodes.
pub fn folder(online: &str, nodes: &[Described]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/devices/system/cpu/online", online);
    write("sys/devices/system/node/online", &format!("0-{}\n", nodes.len() - 1));
    for (id, (processors, mebibytes)) in nodes.iter().enumerate() {
        let at = format!("sys/devices/system/node/node{id}");
        write(&format!("{at}/cpulist"), &format!("{processors}\n"));
        let mut distances = String::new();
        (0..nodes.len()).for_each(|to| write!(distances, "{} ", if to == id { 10 } else { 20 }).unwrap());
        write(&format!("{at}/distance"), &distances);
        let kibibytes = mebibytes * 1024;
        write(
            &format!("{at}/meminfo"),
            &format!("\nNode {id} MemTotal:       {kibibytes} kB\nNode {id} MemFree: 1 kB\n"),
        );
    }
    folder
}

/// That machine.
pub fn machine(online: &str, nodes: &[Described]) -> Topology {
    Topology::read(folder(online, nodes).path()).unwrap()
}

/// Writes a file below a machine's folder.
pub fn put(root: &Path, path: &str, text: &str) {
    fs::write(root.join(path), text).unwrap();
}
