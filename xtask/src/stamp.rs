//! What was made from what, so that a warm run makes nothing twice.
//!
//! A stamp holds the whole text of what the result was made from. It is written last, so a run that was
//! broken off starts over.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Something that is made once from its inputs.
#[derive(Debug)]
pub(crate) struct Stamp {
    file: PathBuf,
    inputs: String,
}

impl Stamp {
    /// For `made`, a file or folder, out of the contents of `sources` and the words of `settings`.
    ///
    /// # Errors
    /// When a source cannot be read.
    pub(crate) fn new(made: &Path, sources: &[PathBuf], settings: &str) -> Result<Self, Error> {
        let mut inputs = settings.to_owned();
        for source in sources {
            inputs += &fs::read_to_string(source)
                .map_err(Error::io(format!("cannot read {}", source.display())))?;
        }
        let mut name = made.file_name().unwrap_or_default().to_owned();
        name.push(".made-from");
        Ok(Self { file: made.with_file_name(name), inputs })
    }

    /// Whether it was made out of just that.
    pub(crate) fn fresh(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|inputs| inputs == self.inputs)
    }

    /// It is being made anew.
    ///
    /// # Errors
    /// When the old stamp cannot be removed.
    pub(crate) fn begin(&self) -> Result<(), Error> {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::Io { what: format!("cannot remove {}", self.file.display()), error })
            }
            _ => Ok(()),
        }
    }

    /// It has been made.
    ///
    /// # Errors
    /// When the stamp cannot be written.
    pub(crate) fn done(&self) -> Result<(), Error> {
        fs::write(&self.file, &self.inputs)
            .map_err(Error::io(format!("cannot write {}", self.file.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_input_or_a_broken_off_run_makes_it_stale() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("source");
        fs::write(&source, "one").unwrap();
        let stamp =
            |settings| Stamp::new(&folder.join("made"), std::slice::from_ref(&source), settings).unwrap();

        assert!(!stamp("a").fresh());
        stamp("a").done().unwrap();
        assert!(stamp("a").fresh());
        assert!(!stamp("b").fresh());
        fs::write(&source, "two").unwrap();
        assert!(!stamp("a").fresh());
        stamp("a").done().unwrap();
        stamp("a").begin().unwrap();
        assert!(!stamp("a").fresh());
        fs::remove_dir_all(&folder).unwrap();
    }
}
