//! JavaScript by componentize-js: SpiderMonkey with the program inside.

use std::process::Command;

use super::{Language, copy};
use crate::machine;
use crate::run::run;
use crate::test_env::node_packages;

const PROGRAM: &[&str] = &["least-requests.js", "build.mjs"];

pub(super) const JAVASCRIPT: Language = Language {
    name: "javascript",
    folder: "javascript",
    sources: &["least-requests.js", "build.mjs", "package.json", "package-lock.json"],
    // The second is imported by the first, which does not say so.
    install: "npm install @bytecodealliance/componentize-js@0.23.0 @bytecodealliance/preview2-shim@0.25.0",
    prepare: |_, places| node_packages(&places.work, &places.source).map(drop),
    build: |_, places| {
        // A module finds its packages beside itself.
        copy(places, PROGRAM)?;
        let node = machine::NODE.ensure()?;
        run(Command::new(node)
            .current_dir(&places.work)
            .arg("build.mjs")
            .arg(&places.wit)
            .arg(&places.component))
    },
};
