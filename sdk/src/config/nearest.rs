//! The key that was probably meant.

/// The known name that is nearest to this one.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|known| strsim::levenshtein(name, known))
}
