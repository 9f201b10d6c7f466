//! The project's own chores: `cargo xtask COMMAND`.

mod bench;
mod command;
mod demo;
mod dist;
mod engines;
mod error;
mod fuzz;
mod languages;
mod layers;
mod machine;
mod plugins;
mod run;
mod soak;
mod stamp;
mod test;
mod test_env;
mod workspace;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command::parse(&arguments).and_then(command::Command::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
