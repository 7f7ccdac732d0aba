//! The trace format of servsim.
