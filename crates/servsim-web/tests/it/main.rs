//! Integration tests of the web clients, one program.

mod conditions;
mod site;
