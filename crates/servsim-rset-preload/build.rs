//! Tells the library whether this compiler has naked functions (Rust 1.88): only they can see who called them.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(naked)");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(compiler).arg("--version").output();
    let version = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let mut numbers = version.split([' ', '.']).filter_map(|word| word.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) >= (Some(1), Some(88)) {
        println!("cargo:rustc-cfg=naked");
    }
}
