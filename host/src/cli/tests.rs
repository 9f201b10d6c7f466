//! The command line is read as documented.

use clap::CommandFactory;

use super::*;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn flags_reach_the_configuration() {
    let Ok(Command::Serve(set)) = parse(
        "sluicegate serve --backend a:1 --backend b:2 --listen 127.0.0.1:0 --admin [::1]:0 --plugins p --observe",
    ) else {
        panic!("not understood");
    };
    let flags = Flags::from(set);
    assert_eq!(flags.backend, ["a:1", "b:2"]);
    assert_eq!((flags.listen.as_deref(), flags.admin.as_deref()), (Some("127.0.0.1:0"), Some("[::1]:0")));
    assert_eq!((flags.plugins, flags.observe), (Some("p".into()), true));
    let config = config::from_flags(Flags { backend: flags.backend, ..Flags::default() }).unwrap();
    assert_eq!(check::summary(&config), "1 pool, 2 endpoints, 0 configured plugins, 1 chain");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for line in [
        "sluicegate",
        "sluicegate serv",
        "sluicegate serve --nope",
        "sluicegate plugin inspect",
        "sluicegate plugin test x.wasm --calls many",
        "sluicegate plugin run x.wasm",
        "sluicegate config",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
    for line in ["sluicegate --help", "sluicegate --version", "sluicegate serve --help"] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 0, "{line}");
    }
}
