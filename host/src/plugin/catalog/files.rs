//! Which files of the watched directory stand for which plugin.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::directory::{Files, Stamp};

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// `NAME.wasm`: what shall be in force.
    Main,
    /// `NAME.next.wasm`: a candidate.
    Next,
}

impl Place {
    pub(super) const ALL: [Self; 2] = [Self::Main, Self::Next];

    /// The file's stem, for the plugin of this name.
    pub(super) fn stem(self, name: &str) -> String {
        match self {
            Self::Main => name.into(),
            Self::Next => format!("{name}.next"),
        }
    }

    /// The plugin's file, its settings and its signature.
    pub(super) fn paths(self, directory: &Path, name: &str) -> [PathBuf; 3] {
        let stem = self.stem(name);
        ["wasm", "toml", "wasm.sig"].map(|ending| directory.join(format!("{stem}.{ending}")))
    }

    /// Plugin and place of a file's stem.
    fn of(stem: &str) -> (&str, Self) {
        stem.strip_suffix(".next").map_or((stem, Self::Main), |name| (name, Self::Next))
    }
}

/// A plugin's file with what belongs to it, as it was when the directory was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) wasm: PathBuf,
    pub(super) settings: PathBuf,
    pub(super) signature: PathBuf,
    stamps: (Stamp, Option<Stamp>, Option<Stamp>),
}

impl File {
    /// A plugin's file with what lies beside it, when there is one.
    pub(super) fn find(listing: &Files, [wasm, settings, signature]: [PathBuf; 3]) -> Option<Self> {
        let stamp = |path: &PathBuf| listing.get(path).cloned();
        let stamps = (stamp(&wasm)?, stamp(&settings), stamp(&signature));
        Some(Self { wasm, settings, signature, stamps })
    }
}

/// The plugins that a listing holds files of.
pub(super) fn names(listing: &Files) -> BTreeSet<Box<str>> {
    let files = listing.keys().filter(|path| path.extension().is_some_and(|kind| kind == "wasm"));
    files.filter_map(|path| Some(Place::of(path.file_stem()?.to_str()?).0.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_belongs_to_its_plugin() {
        assert_eq!(Place::of("a"), ("a", Place::Main));
        assert_eq!(Place::of("a.next"), ("a", Place::Next));
        for place in Place::ALL {
            assert_eq!(Place::of(&place.stem("a")), ("a", place));
        }
    }
}
