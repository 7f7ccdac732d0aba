//! A request that is older than any can be: the run ends with what happened to its line.

use super::ByMessages;
use servsim_core::LineAddr;

impl ByMessages {
    /// Something is stuck: ends the run with what is known of it.
    #[cold]
    pub(super) fn give_in(&self) -> ! {
        let Some(&(since, node, line)) = self.oldest.front() else {
            panic!("nothing to wait for, and no request")
        };
        let state = self.node_lines.get(&(node, line)).copied().unwrap_or_default().state.name();
        let home = self.home_lines.get(&line).copied().unwrap_or_default();
        panic!(
            "node {}'s request for line {:#x} is not complete after {} cycles: the line is in {state} there and in {} at \
             its home; what happened to it, the last at the end:\n{}",
            node.0,
            line.0,
            self.now - since,
            home.state.name(),
            self.log_of(line),
        )
    }

    /// What is known of a line, in words.
    pub(super) fn log_of(&self, line: LineAddr) -> String {
        let lines = self.log.iter().filter(|happens| happens.line == line);
        lines.map(|happens| happens.to_string() + "\n").collect()
    }
}
