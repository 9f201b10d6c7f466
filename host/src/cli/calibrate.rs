//! `sluicegate calibrate`

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::output::{bad, good};
use crate::calibrate::{Calibration, calibrate};
use crate::types::Url;

/// What is measured.
#[derive(Debug, Args)]
pub(super) struct Calibrate {
    /// The endpoint; it should have nothing else to do.
    #[arg(value_name = "URL")]
    url: String,
    /// The model; the first of its `/v1/models` when not given.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Give up an answer after so many seconds.
    #[arg(long, value_name = "S", default_value_t = 120)]
    timeout_s: u64,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Measures an endpoint and prints what the configuration may say of it.
pub(super) fn run(args: &Calibrate) -> ExitCode {
    let url = match Url::parse(&args.url) {
        Ok(url) if !url.https => url,
        Ok(_) => return bad(&format!("{}: https endpoints cannot be measured", args.url)),
        Err(problem) => return bad(&format!("{}: {problem}", args.url)),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return bad(&format!("cannot start: {error}")),
    };
    let measured = runtime.block_on(calibrate(&url, args.model.clone(), Duration::from_secs(args.timeout_s)));
    match measured {
        Ok(measured) if args.json => good(&format!("{}\n", serde_json::json!(measured))),
        Ok(measured) => good(&shown(&args.url, &measured)),
        Err(error) => bad(&format!("{}: {error}", args.url)),
    }
}

/// For people, and as a part of a configuration file that reads back.
fn shown(url: &str, measured: &Calibration) -> String {
    let Calibration { model, prefill_tokens_per_s, fixed_ms, tpot_ms, tpot_together_ms, prompts } = measured;
    format!(
        "# {url}, model {model}\n\
         # prefill: {prefill_tokens_per_s:.0} tokens/s, and {fixed_ms:.1} ms a request (from {} prompts)\n\
         # decode: {tpot_ms:.2} ms a token alone, {tpot_together_ms:.2} ms with eight at once\n\
         [[plugin]]\n\
         name = \"prefix-affinity\"\n\
         config = {{ prefill_tokens_per_s = {prefill_tokens_per_s:.0} }}\n",
        prompts.len()
    )
}
