//! Resource Sets for programs in C: `include/servsim_rset.h` says what each function does.
//!
//! What fails leaves a sentence for the calling thread ([`failure`]) and returns null or -1. A panic ends the program:
//! it cannot pass through C.

// The functions are documented where their users read, in the header, and so are the promises of their callers.
#![allow(missing_docs, clippy::missing_safety_doc)]

mod failure;
mod memory;
mod sets;
mod team;
mod threads;

use servsim_rset::RsetError;
use std::ffi::{c_char, CStr};
use std::str::FromStr;

/// A text of the caller's as what it stands for.
///
/// # Safety
/// `text` is null or ends with zero.
unsafe fn parsed<T: FromStr<Err = RsetError>>(text: *const c_char, what: &str) -> Result<T, RsetError> {
    let unreadable = |text: String| RsetError::Unreadable { what: what.to_owned(), text };
    if text.is_null() {
        return Err(unreadable("NULL".into()));
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| unreadable(text.to_string_lossy().into_owned()))?.parse()
}
