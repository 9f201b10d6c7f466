//! Which files of the watched directory stand for which plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::directory::Stamp;

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
    /// The file of a plugin, when there is one.
    pub(super) fn find(
        directory: &Path,
        listing: &BTreeMap<PathBuf, Stamp>,
        name: &str,
        place: Place,
    ) -> Option<Self> {
        let stem = place.stem(name);
        let path = |ending: &str| directory.join(format!("{stem}.{ending}"));
        let (wasm, settings, signature) = (path("wasm"), path("toml"), path("wasm.sig"));
        let stamp = |path: &Path| listing.get(path).cloned();
        let stamps = (stamp(&wasm)?, stamp(&settings), stamp(&signature));
        Some(Self { wasm, settings, signature, stamps })
    }

    /// Whether one of its parts has not come to rest.
    pub(super) fn is_changing(&self, changing: impl Fn(&Path) -> bool) -> bool {
        [&self.wasm, &self.settings, &self.signature].into_iter().any(|path| changing(path))
    }
}

/// The plugins that a listing holds files of.
pub(super) fn names(listing: &BTreeMap<PathBuf, Stamp>) -> BTreeSet<Box<str>> {
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
