//! The functions of WASI 0.2 that are answered, and their answers.

use wasmtime::component::{ComponentType, LinkerInstance, Lower, Resource, Val};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::plugin::bindings::sluicegate::policy::random::Host as _;
use crate::plugin::host::{Guest, Stream};

/// Stands for any resource of WASI. What it represents matters for the outputs alone.
pub(super) struct Handle;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;
/// Stands for everything else.
const NOTHING: u32 = 0;

/// Bytes that an output takes at once. The contract of streams lets a guest write no more than it was told.
const WRITABLE: u64 = 64 * 1024;
/// Random bytes of one call.
const MAX_RANDOM: u64 = 64 * 1024;

#[derive(ComponentType, Lower)]
#[component(variant)]
enum StreamError {
    #[component(name = "last-operation-failed")]
    #[expect(dead_code, reason = "part of the type; nothing here fails")]
    LastOperationFailed(Resource<Handle>),
    #[component(name = "closed")]
    Closed,
}

#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

type Written = (Result<(), StreamError>,);
type Read = (Result<Vec<u8>, StreamError>,);
type Stdio = Resource<Handle>;

/// Defines one function, if it is one that is answered; says whether it did.
///
/// # Errors
/// When the linker has it already.
pub(super) fn define(
    offered: &mut LinkerInstance<'_, Guest>,
    interface: &str,
    item: &str,
) -> wasmtime::Result<bool> {
    match interface.strip_prefix("wasi:").unwrap_or_default() {
        "cli/environment" | "cli/exit" | "cli/stdin" | "cli/stdout" | "cli/stderr" => cli(offered, item),
        "cli/terminal-stdin" | "cli/terminal-stdout" | "cli/terminal-stderr" => none(offered, item),
        "filesystem/preopens" if item == "get-directories" => {
            offered.func_wrap(item, |_, ()| Ok((Vec::<(Resource<Handle>, String)>::new(),)))?;
            Ok(true)
        }
        "filesystem/types" if item == "filesystem-error-code" => none(offered, item),
        "clocks/wall-clock" => wall_clock(offered, item),
        "clocks/monotonic-clock" => monotonic_clock(offered, item),
        "random/random" | "random/insecure" | "random/insecure-seed" => random(offered, item),
        "io/streams" => streams(offered, item),
        "io/poll" => poll(offered, item),
        "io/error" if item == "[method]error.to-debug-string" => {
            offered.func_wrap(item, |_, (_,): (Resource<Handle>,)| Ok((String::new(),)))?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// A function whose answer is an option: there is none.
fn none(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    offered.func_new(item, |_, _, _, results| {
        results.fill(Val::Option(None));
        Ok(())
    })?;
    Ok(true)
}

fn cli(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "get-environment" => offered.func_wrap(item, |_, ()| Ok((Vec::<(String, String)>::new(),)))?,
        "get-arguments" => offered.func_wrap(item, |_, ()| Ok((Vec::<String>::new(),)))?,
        "initial-cwd" => offered.func_wrap(item, |_, ()| Ok((None::<String>,)))?,
        "exit" => offered.func_wrap(item, |_, (_,): (Result<(), ()>,)| exited())?,
        "exit-with-code" => offered.func_wrap(item, |_, (_,): (u8,)| exited())?,
        "get-stdin" => offered.func_wrap(item, |_, ()| Ok((Resource::<Handle>::new_own(NOTHING),)))?,
        "get-stdout" => offered.func_wrap(item, |_, ()| Ok((Resource::<Handle>::new_own(STDOUT),)))?,
        "get-stderr" => offered.func_wrap(item, |_, ()| Ok((Resource::<Handle>::new_own(STDERR),)))?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn exited() -> wasmtime::Result<()> {
    Err(wasmtime::Error::msg("it ended itself (`wasi:cli/exit`); what it wrote before is in the log"))
}

/// Time as the contract's `clock` has it; as a date it begins in 1970.
fn wall_clock(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "now" => offered.func_wrap(item, |store, ()| Ok((datetime(store.data().now()),)))?,
        "resolution" => offered.func_wrap(item, |_, ()| Ok((datetime(MILLI),)))?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn datetime(time: Nanos) -> Datetime {
    Datetime { seconds: time / SECOND, nanoseconds: u32::try_from(time % SECOND).unwrap_or_default() }
}

fn monotonic_clock(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "now" => offered.func_wrap(item, |store, ()| Ok((store.data().now(),)))?,
        "resolution" => offered.func_wrap(item, |_, ()| Ok((MILLI,)))?,
        "subscribe-instant" | "subscribe-duration" => {
            offered.func_wrap(item, |_, (_,): (u64,)| Ok((Resource::<Handle>::new_own(NOTHING),)))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn random(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "get-random-bytes" | "get-insecure-random-bytes" => {
            offered.func_wrap(item, |mut store, (wanted,): (u64,)| {
                if wanted > MAX_RANDOM {
                    return Err(wasmtime::Error::msg(format!("{wanted} random bytes; {MAX_RANDOM} at once")));
                }
                let guest: &mut Guest = store.data_mut();
                let mut bytes = Vec::new();
                while (bytes.len() as u64) < wanted {
                    bytes.extend(guest.next().to_le_bytes());
                }
                bytes.truncate(usize::try_from(wanted).unwrap_or_default());
                Ok((bytes,))
            })?;
        }
        "get-random-u64" | "get-insecure-random-u64" => {
            offered.func_wrap(item, |mut store, ()| Ok((store.data_mut().next(),)))?;
        }
        "insecure-seed" | "get-insecure-seed" => {
            offered.func_wrap(item, |mut store, ()| {
                let guest: &mut Guest = store.data_mut();
                Ok(((guest.next(), guest.next()),))
            })?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn streams(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "[method]input-stream.read" | "[method]input-stream.blocking-read" => {
            offered.func_wrap(item, |_, _: (Stdio, u64)| Ok::<Read, _>((Err(StreamError::Closed),)))?;
        }
        "[method]output-stream.check-write" => {
            offered.func_wrap(item, |_, (_,): (Stdio,)| Ok((Ok::<u64, StreamError>(WRITABLE),)))?;
        }
        "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush" => {
            offered.func_wrap(item, |mut store, (stream, bytes): (Stdio, Vec<u8>)| {
                let to = if stream.rep() == STDERR { Stream::Err } else { Stream::Out };
                store.data_mut().wrote(to, &bytes);
                Ok::<Written, _>((Ok(()),))
            })?;
        }
        "[method]output-stream.flush" | "[method]output-stream.blocking-flush" => {
            offered.func_wrap(item, |_, (_,): (Stdio,)| Ok::<Written, _>((Ok(()),)))?;
        }
        "[method]input-stream.subscribe" | "[method]output-stream.subscribe" => {
            offered.func_wrap(item, |_, (_,): (Stdio,)| Ok((Resource::<Handle>::new_own(NOTHING),)))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Everything is ready at once: there is nothing to wait for.
fn poll(offered: &mut LinkerInstance<'_, Guest>, item: &str) -> wasmtime::Result<bool> {
    match item {
        "[method]pollable.ready" => offered.func_wrap(item, |_, (_,): (Resource<Handle>,)| Ok((true,)))?,
        "[method]pollable.block" => offered.func_wrap(item, |_, (_,): (Resource<Handle>,)| Ok(()))?,
        "poll" => offered.func_wrap(item, |_, (all,): (Vec<Resource<Handle>>,)| {
            Ok(((0..).take(all.len()).collect::<Vec<u32>>(),))
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}
