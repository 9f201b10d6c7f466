//! Programs of the machine that chores need: found, or installed where the machine lets us.

use std::process::Command;

use crate::error::Error;
use crate::run::{run, say, works};

/// A program and the Debian packages that bring it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    name: &'static str,
    probe: &'static [&'static str],
    packages: &'static str,
}

/// Python with the means to make a virtual environment.
pub(crate) const PYTHON: Program =
    Program { name: "python3", probe: &["-c", "import venv, ensurepip"], packages: "python3 python3-venv" };
/// Node.
pub(crate) const NODE: Program = Program { name: "node", probe: &["--version"], packages: "nodejs npm" };
/// Node's package manager.
pub(crate) const NPM: Program = Program { name: "npm", probe: &["--version"], packages: "npm" };
/// The plainest client.
pub(crate) const CURL: Program = Program { name: "curl", probe: &["--version"], packages: "curl" };

impl Program {
    /// Its name, once it is there.
    ///
    /// # Errors
    /// When it is missing and cannot be installed from here.
    pub(crate) fn ensure(self) -> Result<&'static str, Error> {
        if works(self.name, self.probe) {
            return Ok(self.name);
        }
        say(format!("{} is missing, installing {} with apt-get", self.name, self.packages));
        // Without apt-get, or without the right to use it, the last line says what is missing.
        let _ = run(Command::new("apt-get").args(["-qq", "update"]));
        let _ = run(Command::new("apt-get").args(["-qq", "-y", "install"]).args(self.packages.split(' ')));
        if works(self.name, self.probe) {
            Ok(self.name)
        } else {
            Err(Error::Missing { program: self.name, package: self.packages })
        }
    }
}
