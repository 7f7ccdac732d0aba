//! How a failure is told: a value that C tests for, and a sentence kept for the thread.

use servsim_rset::RsetError;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_long, CString};
use std::ptr::null_mut;

thread_local! {
    static REASON: RefCell<CString> = RefCell::default();
}

#[no_mangle]
pub extern "C" fn servsim_rset_error() -> *const c_char {
    REASON.with_borrow(|reason| reason.as_ptr())
}

/// Keeps why a call failed.
fn keep(error: &RsetError) {
    let sentence = CString::new(error.to_string().replace('\0', " ")).expect("zeros are replaced");
    REASON.set(sentence);
}

/// An object given to the caller, or null.
pub fn object<T>(outcome: Result<T, RsetError>) -> *mut T {
    match outcome {
        Ok(made) => Box::into_raw(Box::new(made)),
        Err(error) => {
            keep(&error);
            null_mut()
        }
    }
}

/// A number given to the caller, or -1.
pub fn number<N: TryInto<c_long>>(outcome: Result<N, RsetError>) -> c_long {
    match outcome {
        Ok(number) => number.try_into().unwrap_or(c_long::MAX),
        Err(error) => {
            keep(&error);
            -1
        }
    }
}

/// 0, or -1.
pub fn status(outcome: Result<(), RsetError>) -> c_int {
    number(outcome.map(|()| 0)) as c_int
}

/// Takes back what [`object`] gave.
///
/// # Safety
/// `object` is null or was given by [`object`] and is used by nobody any more.
pub unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: promised by the caller.
        drop(unsafe { Box::from_raw(object) });
    }
}
