//! What engines report, in the words of the index.

/// Where an engine keeps a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// GPU memory.
    Gpu,
    /// CPU memory.
    Cpu,
    /// Further away: disks, other machines.
    Disk,
}

impl Tier {
    /// Every tier, the fastest first.
    pub const ALL: [Self; 3] = [Self::Gpu, Self::Cpu, Self::Disk];

    /// The tier that an engine's word for a medium means: vLLM's, SGLang's and LMCache's. No word is GPU memory;
    /// a word that is not known is taken for the slowest.
    #[must_use]
    pub fn of_medium(word: Option<&str>) -> Self {
        let Some(word) = word else { return Self::Gpu };
        let word = word.to_ascii_lowercase();
        match &*word {
            "gpu" | "device" | "hbm" | "" => Self::Gpu,
            // SGLang's name for what lies behind the host's memory.
            "cpu_tier2" => Self::Disk,
            "host" | "dram" | "ram" => Self::Cpu,
            _ if word.contains("cpu") => Self::Cpu,
            _ => Self::Disk,
        }
    }

    /// The tier's name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::Disk => "disk",
        }
    }

    pub(super) fn place(self) -> usize {
        self as usize
    }

    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Whose weights a block was computed with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Adapter {
    /// The base model's.
    #[default]
    None,
    /// The adapter's of this name.
    Named(Box<str>),
    /// An adapter that the engine calls by a number alone. No request is known to ask for it.
    Numbered(u64),
}

/// What distinguishes a block from others of the same token ids.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Extra {
    /// Nothing.
    #[default]
    None,
    /// One text: in a first block the client's cache salt.
    Text(Box<str>),
    /// Anything else, such as images; a hash of it.
    Other(u64),
}

/// Blocks that follow each other are held from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The engine's names of the blocks, in order.
    pub blocks: Vec<u64>,
    /// The block before the first; none when that begins a prompt.
    pub parent: Option<u64>,
    /// Token ids of all blocks; empty when the blocks are known and only come to another tier.
    pub tokens: Vec<u32>,
    /// Token ids of one block.
    pub block_tokens: u32,
    /// Whose weights.
    pub adapter: Adapter,
    /// One for each block, or none at all.
    pub extra: Vec<Extra>,
    /// Where.
    pub tier: Tier,
    /// The group of layers that it is about, in models whose layers differ.
    pub group: Option<i64>,
    /// Whether that group attends to all tokens; none when it is not said.
    pub full_attention: Option<bool>,
}

/// What kind of report came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Blocks are held.
    Stored,
    /// Blocks are held no more.
    Removed,
    /// Nothing is held any more.
    Cleared,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Stored, Self::Removed, Self::Cleared];

    /// The kind's name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Removed => "removed",
            Self::Cleared => "cleared",
        }
    }
}

/// Why a report, or a whole message, changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// The message has another form.
    Message,
    /// The report has another form, or its lengths do not fit together.
    Malformed,
    /// A report of a kind that is not known.
    UnknownKind,
    /// It goes on from a block that is not known.
    UnknownParent,
    /// It is about blocks that are not known.
    UnknownBlock,
    /// It is about layers that do not attend to all tokens.
    OtherGroup,
    /// It is about another model.
    OtherTopic,
    /// The index is full.
    Full,
    /// It came before.
    Repeated,
}

impl Dropped {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Message,
        Self::Malformed,
        Self::UnknownKind,
        Self::UnknownParent,
        Self::UnknownBlock,
        Self::OtherGroup,
        Self::OtherTopic,
        Self::Full,
        Self::Repeated,
    ];

    /// The reason's name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Malformed => "malformed",
            Self::UnknownKind => "unknown_kind",
            Self::UnknownParent => "unknown_parent",
            Self::UnknownBlock => "unknown_block",
            Self::OtherGroup => "other_group",
            Self::OtherTopic => "other_topic",
            Self::Full => "full",
            Self::Repeated => "repeated",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_words_for_media_are_known() {
        for (word, tier) in [
            ("GPU", Tier::Gpu),
            ("CPU", Tier::Cpu),
            ("CPU_PINNED", Tier::Cpu),
            ("CPU_TIER1", Tier::Cpu),
            ("LocalCPUBackend", Tier::Cpu),
            ("CPU_TIER2", Tier::Disk),
            ("STORAGE", Tier::Disk),
            ("DISK", Tier::Disk),
            ("EXTERNAL", Tier::Disk),
            ("something new", Tier::Disk),
        ] {
            assert_eq!(Tier::of_medium(Some(word)), tier, "{word}");
        }
        assert_eq!(Tier::of_medium(None), Tier::Gpu);
    }
}
