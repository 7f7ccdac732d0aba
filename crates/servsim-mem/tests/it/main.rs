//! The integration tests of this crate, in one program: linked once, helpers compiled once.

mod agreement;
mod groups;
mod hits;
mod last_level;
mod message_machine;
mod messages;
mod migration;
mod nodes;
mod observer;
mod ordered;
mod protocols;
mod shadow;
mod snapshot;
mod support;
mod switches;
