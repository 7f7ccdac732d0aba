//! Compiles the program that `servsim disk capture` runs in the kernel, with clang and the headers of libbpf.
//!
//! Its code is the same for every kernel and processor with the byte order of the target. Where it cannot be compiled,
//! an empty file takes its place, and captures use the kernel's own trace events, which cost more.

// A build script speaks to cargo on its standard output and ends with a panic.
#![allow(clippy::print_stdout, clippy::expect_used)]

use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "bpf/block_requests.bpf.c";
/// Where a package manager puts clang; looked at again when something has been installed.
const PROGRAMS: &str = "/usr/bin";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-env-changed=CLANG");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let object = PathBuf::from(variable("OUT_DIR")).join("block_requests.bpf.o");
    if variable("CARGO_CFG_TARGET_OS") == "linux" {
        let order = if variable("CARGO_CFG_TARGET_ENDIAN") == "big" { "bpfeb" } else { "bpfel" };
        let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let done = Command::new(&clang)
            .args(["-target", order, "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-c", SOURCE, "-o"])
            .arg(&object)
            .output();
        let fault = match done {
            Ok(done) if done.status.success() => return,
            Ok(done) => String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default().to_owned(),
            Err(error) => format!("{clang}: {error}"),
        };
        println!("cargo:rerun-if-changed={PROGRAMS}");
        println!(
            "cargo:warning=`servsim disk capture` will cost more than it need, without its BPF program \
             (apt-get install clang libbpf-dev): {fault}"
        );
    }
    std::fs::write(object, []).expect("the output folder can be written");
}
