//! Slow, obvious models written independently of the fast ones, for tests only.

pub mod drive;
