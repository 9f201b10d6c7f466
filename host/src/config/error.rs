//! What is wrong with a configuration: everything at once.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// The file as it was named, or the command line's flag.
    pub source: Box<str>,
    /// The line in the file, from 1.
    pub line: Option<usize>,
    /// The key, such as `pool[0].endpoints[1].role`; empty for the whole.
    pub key: Box<str>,
    /// What is wrong.
    pub message: Box<str>,
    /// What was probably meant.
    pub nearest: Option<Box<str>>,
}

/// The source of what no flag and no file says.
pub(super) const COMMAND_LINE: &str = "command line";

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        match &self.nearest {
            Some(nearest) => write!(f, " (did you mean `{nearest}`?)"),
            None => Ok(()),
        }
    }
}

/// All that is wrong, in the order of the lines; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl ConfigErrors {
    /// Whether all that is wrong is the command line.
    #[must_use]
    pub fn are_of_the_command_line(&self) -> bool {
        self.0.iter().all(|error| &*error.source == COMMAND_LINE || error.source.starts_with("--"))
    }

    /// `value` if nothing is wrong.
    pub(super) fn unless_empty<T>(mut errors: Vec<ConfigError>, value: T) -> Result<T, Self> {
        if errors.is_empty() {
            return Ok(value);
        }
        errors.sort();
        errors.dedup();
        Err(Self(errors))
    }
}

/// The known word that is nearest to `word`, unless all are far off.
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Similarity below which a suggestion would be a guess.
    const SIMILAR: f64 = 0.78;
    known
        .map(|known| (strsim::jaro_winkler(word, known), known))
        .filter(|(similar, _)| *similar >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_a_near_one() {
        let known = ["name", "memory_mib", "deadline_ms"];
        assert_eq!(nearest("memory", known.into_iter()), Some("memory_mib"));
        assert_eq!(nearest("nmae", known.into_iter()), Some("name"));
        assert_eq!(nearest("zzz", known.into_iter()), None);
    }
}
