//! `sluicegate plugin run`

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::output::{bad, good, read, read_plugin, tell};
use crate::plugin::case::{Case, Compared, Outcome, Ran, run as make};

/// Makes the call of a case again.
pub(super) fn run(file: &Path, case: &Path) -> ExitCode {
    let bytes = match read_plugin(file) {
        Ok(bytes) => bytes,
        Err(problem) => return bad(&problem),
    };
    let recorded: Case = match read(case).and_then(|text| {
        serde_json::from_slice(&text).map_err(|error| format!("{}: is no case: {error}", case.display()))
    }) {
        Ok(case) => case,
        Err(problem) => return bad(&problem),
    };
    let ran = match make(&bytes, &recorded) {
        Ok(ran) => ran,
        Err(error) => return bad(&format!("{}: {error}", file.display())),
    };
    let text = shown(&recorded, &ran);
    match (&ran.outcome, ran.compared) {
        (Err(_), _) | (Ok(_), Compared::Differs) => tell(&text, ExitCode::FAILURE),
        (Ok(_), Compared::Same | Compared::Mended | Compared::Unknown) => good(&text),
    }
}

fn shown(case: &Case, ran: &Ran) -> String {
    let mut text = format!("plugin    {}\ncall      {}\n", case.plugin, case.call.as_str());
    if ran.digest != case.digest {
        let _ = writeln!(text, "version   {:.12}; the case is of {:.12}", ran.digest, case.digest);
    }
    if let Some(endpoints) = &case.endpoints {
        let _ = writeln!(text, "given     {} candidates", endpoints.len());
    }
    if let Some(cut) = &case.cut {
        let _ = writeln!(text, "cut       {cut}: the answer is not that of the whole");
    }
    let read = if ran.read.is_empty() { "none".into() } else { ran.read.join(", ") };
    let _ = writeln!(text, "columns   {read}");
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    let micros = ran.used as f64 / 1_000.0;
    let _ = writeln!(text, "CPU time  {micros:.1} \u{b5}s, the first call of a fresh instance");
    match &ran.outcome {
        Ok(said) => {
            let _ = writeln!(text, "answer    {}", json(said));
        }
        Err(failure) => {
            let _ = writeln!(text, "failed    {}", failure.error);
            for frame in &failure.backtrace {
                let _ = writeln!(text, "          at {frame}");
            }
        }
    }
    let _ = writeln!(text, "recorded  {}", compared(case, ran.compared));
    text
}

fn compared(case: &Case, compared: Compared) -> String {
    let then = match &case.outcome {
        None => "nothing".to_owned(),
        Some(Outcome::Answer(said)) => json(said),
        Some(Outcome::Error { reason, message, .. }) => format!("{}: {message}", reason.as_str()),
    };
    match compared {
        Compared::Same => "the same".into(),
        Compared::Mended => format!("it failed then: {then}"),
        Compared::Differs => format!("differs; then it was {then}"),
        Compared::Unknown => format!("{then}; not compared"),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
