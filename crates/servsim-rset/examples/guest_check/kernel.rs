//! What the first process needs of the kernel: file systems, switches, plain policies without the library.

use std::ffi::CString;
use std::fs;

/// Mounts what is read here.
pub fn mount_all() {
    for (kind, place) in [
        ("devtmpfs", "/dev"),
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("cgroup2", "/sys/fs/cgroup"),
        ("debugfs", "/sys/kernel/debug"),
    ] {
        let _ = fs::create_dir_all(place);
        let (kind, place) = (CString::new(kind).expect("no zero"), CString::new(place).expect("no zero"));
        // SAFETY: all strings end with zero.
        unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    }
}

/// Ends the guest.
pub fn switch_off() -> ! {
    // SAFETY: nothing is to be kept.
    unsafe { libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF) };
    unreachable!("the machine is off")
}

/// Writes a switch of the kernel.
pub fn set(path: &str, value: &str) {
    fs::write(path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Mappings of this process.
pub fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").expect("proc is mounted").lines().count()
}

/// Pages of a process in each node, as the kernel counts them.
pub fn pages_per_node(process: u32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/numa_maps")).expect("the process is there");
    let mut pages = vec![0; 4];
    for field in text.split_ascii_whitespace() {
        if let Some((node, count)) = field.strip_prefix('N').and_then(|field| field.split_once('=')) {
            if let (Ok(node), Ok(count)) = (node.parse::<usize>(), count.parse::<u64>()) {
                pages[node] += count;
            }
        }
    }
    pages
}

/// Memory straight from the kernel.
pub struct Plain {
    /// Its first address.
    pub start: usize,
    bytes: usize,
}

impl Plain {
    /// Maps `bytes`, beginning at a multiple of `align` (a power of two) and `offset` bytes.
    pub fn map(bytes: usize, align: usize, offset: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping; what lies around the part that is used stays mapped and untouched.
        let found =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes + align + offset, protection, flags, -1, 0) };
        assert_ne!(found, libc::MAP_FAILED);
        Self { start: (found as usize).next_multiple_of(align) + offset, bytes }
    }

    /// The kernel's interleaving over four nodes.
    pub fn interleave(&self) {
        let mask: libc::c_ulong = 0b1111;
        // SAFETY: the range is mapped, the mask has the bits told of.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start,
                self.bytes,
                libc::MPOL_INTERLEAVE,
                &raw const mask,
                65usize,
                0usize,
            )
        };
        assert_eq!(outcome, 0);
    }

    /// Writes every page.
    pub fn touch(&self) {
        for page in (self.start..self.start + self.bytes).step_by(4096) {
            // SAFETY: it is mapped and this program's own.
            unsafe { (page as *mut u8).write_volatile(1) };
        }
    }

    /// The node of each page.
    pub fn nodes(&self) -> Vec<i32> {
        nodes_of(self.start, self.bytes / 4096)
    }
}

/// The node of each of `pages` pages from `start`.
pub fn nodes_of(start: usize, pages: usize) -> Vec<i32> {
    let addresses: Vec<usize> = (0..pages).map(|page| start + page * 4096).collect();
    let mut status = vec![-1; pages];
    // SAFETY: both lists have as many entries as are told of.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages,
            addresses.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    assert_eq!(outcome, 0);
    status
}

/// Binds what this thread takes from now on to one node; `None` undoes it.
pub fn thread_policy(node: Option<u32>) {
    let mask: libc::c_ulong = node.map_or(0, |node| 1 << node);
    // SAFETY: the mask has the bits told of; the default has none.
    let outcome = unsafe {
        match node {
            Some(_) => libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, &raw const mask, 65usize),
            None => libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, 0usize, 0usize),
        }
    };
    assert_eq!(outcome, 0);
}
