//! Python by componentize-py: CPython with the program inside.

use std::process::Command;

use super::Language;
use crate::run::run;
use crate::test_env::python_packages;

pub(super) const PYTHON: Language = Language {
    name: "python",
    folder: "python",
    sources: &["least_requests.py", "requirements.txt"],
    install: "pip install componentize-py==0.25.1",
    prepare: |_, places| {
        python_packages(&places.work.join("venv"), &places.source.join("requirements.txt"), &[]).map(drop)
    },
    build: |_, places| {
        run(Command::new(places.work.join("venv/bin/componentize-py"))
            .arg("-d")
            .arg(&places.wit)
            .args(["-w", super::WORLD, "componentize", "--stub-wasi", "--python-path"])
            .arg(&places.source)
            .args(["least_requests", "--output"])
            .arg(&places.component))
    },
};
