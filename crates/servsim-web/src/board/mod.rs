//! A message board: stories, threads of comments, members who read, post and moderate.
//!
//! `mix.toml` and `mix` are the requests and their shares, `size` and `population` what the board begins with, `texts` what is
//! written on it, `wishes` what a member asks for next, `page` whether what it gets is right, `member` a member, `run` a
//! run, and `options` those of programs. The board itself is Perl, in the workload's folder.

pub mod member;
pub mod mix;
pub mod options;
pub mod page;
pub mod population;
pub mod run;
pub mod size;
pub mod texts;
pub mod wishes;

/// What reports say of the workload.
pub const NOTICE: &str =
    "board: a message board with a mix of its own; after Slashcode in Alameldeen et al. 2003, not Slashcode";
