//! Bindings of the contract, as `wit-bindgen LANGUAGE WIT --world scorer` writes them.

use std::fs;

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};

use super::Places;
use crate::error::Error;

/// Writes them into the working folder.
///
/// # Errors
/// When the contract cannot be read or a file not be written.
pub(super) fn generate(places: &Places, mut generator: Box<dyn WorldGenerator>) -> Result<(), Error> {
    let mut files = Files::default();
    let mut resolve = Resolve::default();
    resolve
        .push_path(&places.wit)
        .and_then(|(package, _)| resolve.select_world(&[package], Some(super::WORLD)))
        .and_then(|world| generator.generate(&mut resolve, world, &mut files))
        .map_err(|problem| Error::Bindings(format!("{problem:#}")))?;
    for (name, bytes) in files.iter() {
        let to = places.work.join(name);
        fs::create_dir_all(to.parent().unwrap_or(&places.work))
            .and_then(|()| fs::write(&to, bytes))
            .map_err(Error::io(format!("cannot write {}", to.display())))?;
    }
    Ok(())
}
