//! Programs of the machine that chores need: found, or installed where the machine lets us.

use std::process::Command;

use crate::error::Error;
use crate::run::{run, say, works};

/// A program and the Debian packages that bring it. With an empty probe it is there when it is on the path: some
/// programs have no call that succeeds.
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

/// How clang compiles for WebAssembly with Debian's C library.
pub(crate) const WASM_FLAGS: [&str; 3] = ["--target=wasm32-wasi", "--sysroot=/usr", "-mexec-model=reactor"];
/// A C compiler for WebAssembly with its linker and library: it is there if it links nothing to something.
pub(crate) const CLANG_WASM: Program = Program {
    name: "clang",
    probe: &[WASM_FLAGS[0], WASM_FLAGS[1], WASM_FLAGS[2], "-x", "c", "/dev/null", "-o", "/dev/null"],
    packages: "clang lld wasi-libc libclang-rt-dev-wasm32",
};

/// The baseline of the proxy's benchmark, and its engines.
pub(crate) const NGINX: Program = Program { name: "nginx", probe: &["-v"], packages: "nginx-light" };
/// A proxy that it is measured beside.
pub(crate) const HAPROXY: Program = Program { name: "haproxy", probe: &["-v"], packages: "haproxy" };
/// The load of the proxy's benchmark.
pub(crate) const WRK: Program = Program { name: "wrk", probe: &[], packages: "wrk" };

impl Program {
    /// Its name, once it is there.
    ///
    /// # Errors
    /// When it is missing and cannot be installed from here.
    pub(crate) fn ensure(self) -> Result<&'static str, Error> {
        if self.is_there() {
            return Ok(self.name);
        }
        say(format!("{} is missing, installing {} with apt-get", self.name, self.packages));
        // Without apt-get, or without the right to use it, the last line says what is missing.
        let _ = run(Command::new("apt-get").args(["-qq", "update"]));
        let _ = run(Command::new("apt-get").args(["-qq", "-y", "install"]).args(self.packages.split(' ')));
        if self.is_there() {
            Ok(self.name)
        } else {
            Err(Error::Missing { program: self.name, package: self.packages })
        }
    }

    fn is_there(self) -> bool {
        if !self.probe.is_empty() {
            return works(self.name, self.probe);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(self.name).is_file())
    }
}
