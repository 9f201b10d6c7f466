//! From a core module to a component.

use std::fs;
use std::path::Path;

use wit_component::ComponentEncoder;

use super::Error;

/// Wraps a module and writes the component if it differs from what is there; says whether it did.
///
/// # Errors
/// When the module cannot be read or wrapped, or the component not written.
pub(crate) fn pack(module: &Path, file: &Path) -> Result<bool, Error> {
    let bytes = fs::read(module).map_err(Error::io(format!("cannot read {}", module.display())))?;
    let component = encode(&bytes).map_err(|problem| Error::Component { file: module.into(), problem })?;
    if fs::read(file).is_ok_and(|old| old == component) {
        return Ok(false);
    }
    let directory = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(Error::io(format!("cannot create {}", directory.display())))?;
    // Renamed into place: somebody may be reading the old one, or watching the directory.
    let fresh = file.with_extension("wasm.new");
    fs::write(&fresh, component).map_err(Error::io(format!("cannot write {}", fresh.display())))?;
    fs::rename(&fresh, file).map_err(Error::io(format!("cannot write {}", file.display())))?;
    Ok(true)
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = ComponentEncoder::default();
    encoder
        .validate(true)
        .module(module)
        .and_then(|encoder| encoder.encode())
        .map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_module_is_refused() {
        assert!(encode(b"no module").is_err());
    }
}
