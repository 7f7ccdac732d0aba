//! The protocols once more, as plain code by state name: written from the printed tables, so that
//! a slip in the engine's tables shows as a difference in counts.

/// A protocol of the oracle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Papamarcos & Patel.
    Mesi,
    /// With Owned.
    Moesi,
    /// With Forward.
    Mesif,
    /// Adaptive migratory detection.
    Amsd,
    /// Passive shared copy removal.
    Pscr,
}

/// What the processor's access needs.
pub enum Action {
    /// Nothing but a new state.
    Hit(&'static str),
    /// The block.
    Fetch {
        /// And everybody else's copy gone.
        exclusive: bool,
        /// The write is then tried again.
        again: bool,
    },
    /// Telling the others: the word (write) or only the fact (invalidate).
    Announce {
        /// Whether the word is sent.
        word: bool,
    },
}

/// What the others answered.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // one per bus line, as in the papers
pub struct Response {
    shared: bool,
    dirty: bool,
    migratory: bool,
    /// A cache supplied the block.
    pub supplied: bool,
}

impl Protocol {
    /// Every protocol with the name used in descriptions.
    pub const ALL: [(&'static str, Self); 5] = [
        ("mesi", Self::Mesi),
        ("moesi", Self::Moesi),
        ("mesif", Self::Mesif),
        ("amsd", Self::Amsd),
        ("pscr", Self::Pscr),
    ];

    /// A miss on a copy that a remote fetch removed counts as an invalidation miss.
    pub fn removal_is_invalidation(self) -> bool {
        self != Self::Pscr
    }

    /// Whether an evicted copy is written back.
    pub fn writes_back(self, state: &str) -> bool {
        ["M", "O", "MD", "EM", "SM"].contains(&state)
    }

    /// An access of the own processor.
    pub fn processor(self, state: &'static str, write: bool) -> Action {
        if state == "I" {
            let pscr = self == Self::Pscr;
            return Action::Fetch { exclusive: write && !pscr, again: write && pscr };
        }
        if !write {
            return Action::Hit(state);
        }
        match state {
            "E" | "M" => Action::Hit("M"),
            "MC" | "MD" => Action::Hit("MD"),
            "EC" | "EM" => Action::Hit("EM"),
            "SC" | "SM" => Action::Announce { word: true },
            _ => Action::Announce { word: false },
        }
    }

    /// State of a block just fetched.
    pub fn filled(self, write: bool, private: bool, r: &Response) -> &'static str {
        match self {
            Self::Pscr if private => {
                if r.dirty {
                    "EM"
                } else {
                    "EC"
                }
            }
            Self::Pscr => {
                if r.shared {
                    "SC"
                } else {
                    "EC"
                }
            }
            _ if write => "M",
            Self::Amsd if r.migratory => "MC",
            Self::Mesif if r.shared => "F",
            _ if r.shared => "S",
            _ => "E",
        }
    }

    /// State after telling the others.
    pub fn announced(self, r: &Response) -> &'static str {
        match self {
            Self::Pscr => {
                if r.shared {
                    "SM"
                } else {
                    "EM"
                }
            }
            Self::Amsd if r.migratory => "MD",
            _ => "M",
        }
    }

    /// Reaction to another's transaction: `R` read, `X` read-exclusive, `V` invalidate, `W` write.
    pub fn snooped(self, state: &'static str, what: &str, private: bool, r: &mut Response) -> &'static str {
        let dirty = self.writes_back(state);
        if what == "X" {
            r.supplied |= dirty || (self == Self::Mesif && (state == "F" || state == "E"));
            return "I";
        }
        if what == "V" {
            r.migratory |= state == "S2";
            return "I";
        }
        if what == "W" {
            r.shared = true;
            return "SC";
        }
        r.supplied |= dirty || (self == Self::Mesif && (state == "F" || state == "E"));
        r.dirty |= dirty;
        if self == Self::Pscr {
            if private {
                return "I";
            }
            r.shared = true;
            return if dirty { "SM" } else { "SC" };
        }
        if state == "MD" {
            r.migratory = true;
            return "I";
        }
        r.shared = true;
        match (self, state) {
            (Self::Moesi, "M" | "O") => "O",
            (Self::Amsd, "M") => "S2",
            _ => "S",
        }
    }
}
