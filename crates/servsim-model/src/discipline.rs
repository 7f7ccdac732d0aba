//! The orders in which stations serve.

/// Order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Processor sharing: product form with any demands (BCMP type 2).
    Ps,
    /// First come, first served: product form when all classes need the same time per visit.
    Fcfs,
    /// Preemptive-resume priority between classes, first come, first served within one.
    Priority,
    /// The same, but nobody's service is interrupted.
    NonPreemptive,
    /// Shared in proportion to the weights of those present (discriminatory processor sharing).
    Weighted,
}

impl Discipline {
    /// True where all who are present are served at once.
    pub fn is_sharing(self) -> bool {
        matches!(self, Self::Ps | Self::Weighted)
    }

    /// True where classes of higher priority are served first.
    pub fn is_ranked(self) -> bool {
        matches!(self, Self::Priority | Self::NonPreemptive)
    }
}
