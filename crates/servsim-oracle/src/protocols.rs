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
    /// With Owned, without Exclusive.
    Mosi,
    /// Adaptive migratory detection.
    Amsd,
    /// Passive shared copy removal.
    Pscr,
}

/// The open points of the published descriptions, as chosen for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // one per open point
pub struct Variant {
    /// Any holder supplies a block (Illinois).
    pub any_copy: bool,
    /// The same for blocks fetched for private pages, if different.
    pub any_copy_private: Option<bool>,
    /// A write miss takes the migratory mark along.
    pub sticky: bool,
    /// A block fetched alone begins migratory.
    pub begins_migratory: bool,
    /// Only the second hand-over makes a block migratory.
    pub two_hand_overs: bool,
    /// A private block that moves leaves memory current.
    pub move_updates_memory: bool,
    /// A written word goes to memory.
    pub write_through: bool,
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
    /// An owner was there.
    pub dirty: bool,
    migratory: bool,
    evidence: bool,
    /// A cache supplied the block.
    pub supplied: bool,
    /// One of the asker's core group did.
    pub near: bool,
    /// The cache that was the owner.
    pub owner: Option<usize>,
}

impl Response {
    /// Adds what one more cache answers.
    pub fn join(&mut self, one: &Self) {
        self.shared |= one.shared;
        self.dirty |= one.dirty;
        self.migratory |= one.migratory;
        self.evidence |= one.evidence;
        self.supplied |= one.supplied;
        self.near |= one.near;
        self.owner = self.owner.or(one.owner);
    }

    /// Somebody else keeps a copy.
    pub fn kept_elsewhere(&mut self) {
        self.shared = true;
    }
}

impl Protocol {
    /// Every protocol with the name used in descriptions.
    pub const ALL: [(&'static str, Self); 6] = [
        ("mesi", Self::Mesi),
        ("moesi", Self::Moesi),
        ("mesif", Self::Mesif),
        ("mosi", Self::Mosi),
        ("amsd", Self::Amsd),
        ("pscr", Self::Pscr),
    ];

    /// A miss on a copy that a remote fetch removed counts as an invalidation miss.
    pub fn removal_is_invalidation(self) -> bool {
        self != Self::Pscr
    }

    /// Whether an evicted copy is written back.
    pub fn writes_back(self, state: &str) -> bool {
        ["M", "M1", "O", "MD", "EM", "SM"].contains(&state)
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
            "M1" => Action::Hit("M1"),
            "MC" | "MD" => Action::Hit("MD"),
            "EC" | "EM" => Action::Hit("EM"),
            "SC" | "SM" => Action::Announce { word: true },
            _ => Action::Announce { word: false },
        }
    }

    /// State of a block just fetched.
    pub fn filled(self, write: bool, private: bool, r: &Response, v: Variant) -> &'static str {
        match self {
            Self::Pscr if private => {
                if r.dirty && !v.move_updates_memory {
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
            Self::Amsd if write && v.sticky && r.migratory => "MD",
            _ if write => "M",
            Self::Amsd if r.migratory => "MC",
            Self::Mesif if r.shared => "F",
            _ if r.shared || self == Self::Mosi => "S",
            Self::Amsd if v.begins_migratory => "MC",
            _ => "E",
        }
    }

    /// State after telling the others.
    pub fn announced(self, r: &Response, v: Variant) -> &'static str {
        match self {
            Self::Pscr => {
                if r.shared && v.write_through {
                    "SC"
                } else if v.write_through {
                    // Memory has the word, and nobody else the block.
                    "EC"
                } else if r.shared {
                    "SM"
                } else {
                    "EM"
                }
            }
            Self::Amsd if r.migratory => "MD",
            Self::Amsd if r.evidence => "M1",
            _ => "M",
        }
    }

    /// Whether a copy in `state` answers a fetch with the block.
    fn supplies(self, state: &str, private: bool, v: Variant) -> bool {
        let any = match self {
            Self::Mesif => state == "F" || state == "E",
            Self::Pscr if private => v.any_copy_private.unwrap_or(v.any_copy),
            _ => v.any_copy,
        };
        any || self.writes_back(state)
    }

    /// Reaction to another's transaction: `R` read, `X` read-exclusive, `V` invalidate, `W` write.
    pub fn snooped(
        self,
        state: &'static str,
        what: &str,
        private: bool,
        r: &mut Response,
        v: Variant,
    ) -> &'static str {
        let dirty = self.writes_back(state);
        if what == "X" {
            r.supplied |= self.supplies(state, private, v);
            r.migratory |= state == "MD" && v.sticky;
            return "I";
        }
        if what == "V" {
            let handed_over = state == "S2";
            r.migratory |= state == "T2" || (handed_over && !v.two_hand_overs);
            r.evidence |= handed_over && v.two_hand_overs;
            return "I";
        }
        if what == "W" {
            r.shared = true;
            return "SC";
        }
        r.supplied |= self.supplies(state, private, v);
        r.dirty |= dirty;
        if self == Self::Pscr {
            if private {
                return "I";
            }
            r.shared = true;
            return if dirty && !v.write_through { "SM" } else { "SC" };
        }
        if state == "MD" {
            r.migratory = true;
            return "I";
        }
        r.shared = true;
        match (self, state) {
            (Self::Moesi | Self::Mosi, "M" | "O") => "O",
            (Self::Amsd, "M") => "S2",
            (Self::Amsd, "M1") => "T2",
            _ => "S",
        }
    }
}
