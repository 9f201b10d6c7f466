//! Debian's compiler with the WebAssembly backend, and the standard library's source beside it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{output, path_with};

const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// Debian's compiler.
pub(in crate::plugins) struct Debian {
    rustc: PathBuf,
    linker_directory: Option<PathBuf>,
}

impl Debian {
    /// The installed packages, or else those that root can install.
    pub(super) fn find_or_install() -> Result<Self, String> {
        if let Some(debian) = Self::find() {
            return Ok(debian);
        }
        if !Path::new("/etc/debian_version").is_file() {
            return Err("this is no Debian".into());
        }
        if output(Command::new("id").arg("-u")).is_none_or(|id| id.trim() != "0") {
            return Err("not root, so the packages were not installed".into());
        }
        eprintln!("xtask: installing {}", PACKAGES.join(" and "));
        let mut install = Command::new("apt-get");
        install.args(["install", "--yes", "--no-install-recommends"]).args(PACKAGES);
        install.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        match install.stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => {
                Self::find().ok_or_else(|| "installed, but the packages hold no rustc".into())
            }
            Ok(_) => Err("apt-get could not install them".into()),
            Err(error) => Err(format!("cannot run apt-get: {error}")),
        }
    }

    fn find() -> Option<Self> {
        let [compiler, source] = PACKAGES.map(|package| output(Command::new("dpkg").args(["-L", package])));
        source?;
        let rustc = compiler?.lines().map(PathBuf::from).find(|file| file.ends_with("bin/rustc"))?;
        rustc.is_file().then(|| Self { rustc, linker_directory: linker_directory() })
    }

    /// Makes a call of cargo use it.
    pub(super) fn apply(&self, cargo: &mut Command) {
        // The packages have the library as source only, and only a compiler of the nightly kind builds that.
        cargo.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_abort");
        if let Some(directory) = &self.linker_directory {
            cargo.env("PATH", path_with(directory));
        }
    }
}

/// Where rustup's `rust-lld` is, in whichever of its toolchains: Debian's compiler does not bring it.
fn linker_directory() -> Option<PathBuf> {
    let home = env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".rustup")))?;
    let toolchains = fs::read_dir(home.join("toolchains")).ok()?.flatten();
    let hosts = toolchains.filter_map(|toolchain| fs::read_dir(toolchain.path().join("lib/rustlib")).ok());
    hosts.flatten().flatten().map(|host| host.path().join("bin")).find(|bin| bin.join("rust-lld").is_file())
}
