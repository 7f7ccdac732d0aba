//! What only a machine of several nodes can show, as the first process of a guest that has four of them.
//!
//! `tests/python/test_rset_guest.py` boots it and reads what it says: a line `servsim-guest: NAME ok FACTS` or
//! `servsim-guest: NAME failed: REASON` for each check of [`checks::ALL`], or for those that its words name (with `-` for
//! spaces; [`checks::BY_NAME`] run only so), then `servsim-guest: done`, and the machine is switched off. Each check that a
//! trap is avoided also shows that the trap is there.

mod checks;
mod kernel;
mod lacking;
mod leaving;
mod parting;
mod ruled;
mod staying;
mod traps;

use std::io::{Read, Write};
use std::panic::{catch_unwind, set_hook};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("hold") => hold(),
        Some("load") => parting::load(),
        _ if std::process::id() != 1 => {
            eprintln!("this is the first process of a guest: tests/python/test_rset_guest.py boots it");
            std::process::exit(2);
        }
        None => run(&checks::ALL),
        Some(_) => {
            let all = checks::ALL.into_iter().chain(checks::BY_NAME);
            run(&all.filter(|(name, _)| words.contains(&name.replace(' ', "-"))).collect::<Vec<_>>());
        }
    }
}

fn run(list: &[checks::Check]) -> ! {
    set_hook(Box::new(|panic| println!("{panic}")));
    kernel::mount_all();
    for (name, check) in list {
        match catch_unwind(check) {
            Ok(facts) => println!("servsim-guest: {name} ok {facts}"),
            Err(reason) => {
                let text = reason.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| reason.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
                println!("servsim-guest: {name} failed: {}", text.replace('\n', " "));
            }
        }
    }
    println!("servsim-guest: done");
    kernel::switch_off();
}

/// A program with memory of its own, until its input is closed.
fn hold() {
    let held = vec![1u8; 4 << 20];
    println!("ready");
    std::io::stdout().flush().expect("its reader is there");
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    assert!(held.iter().all(|&byte| byte == 1), "moved memory keeps its contents");
}
