//! Integration tests of the web clients, one program.

mod allocations;
mod conditions;
mod site;
