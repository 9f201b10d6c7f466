//! The socket in `state_dir` by which `sluicegate upgrade` reaches the process that serves.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::Ask;

/// Its name.
const FILE: &str = "control.sock";
/// Bytes of what is asked at most.
const MAX_LINE: u64 = 16 * 1024;
/// How long somebody may take to ask.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the listening when dropped.
#[derive(Debug)]
pub(in crate::app) struct Control(AbortHandle);

impl Drop for Control {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens in `state_dir`. A socket of a process that is gone, or that this one takes over from, is replaced.
pub(in crate::app) async fn listen(state_dir: &Path, asks: mpsc::Sender<Ask>) -> io::Result<Control> {
    let path = state_dir.join(FILE);
    std::fs::create_dir_all(state_dir)?;
    let own = state_dir.join(format!(".{FILE}.{}", std::process::id()));
    let _ = std::fs::remove_file(&own);
    let listener = UnixListener::bind(&own)?;
    let placed = std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&own, &path));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&own);
        return Err(error);
    }
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let asks = asks.clone();
            tokio::spawn(async move {
                if let Err(error) = answer(stream, &asks).await {
                    tracing::debug!(%error, "somebody asked nothing by the control socket");
                }
            });
        }
    });
    Ok(Control(task.abort_handle()))
}

async fn answer(mut stream: UnixStream, asks: &mpsc::Sender<Ask>) -> io::Result<()> {
    let asker = stream.peer_cred()?.uid();
    if asker != 0 && asker != rustix::process::geteuid().as_raw() {
        return stream.write_all(b"failed: only the user that it runs as may ask it\n").await;
    }
    let mut line = String::new();
    let (from, mut to) = stream.split();
    let mut from = BufReader::new(from.take(MAX_LINE));
    tokio::time::timeout(PATIENCE, from.read_line(&mut line)).await??;
    let Some(program) = line.trim_end_matches('\n').strip_prefix("upgrade ") else {
        return to.write_all(b"failed: it can be asked to `upgrade PROGRAM`\n").await;
    };
    let (sender, receiver) = oneshot::channel();
    let program = Some(PathBuf::from(program));
    let answer = match asks.send(Ask { program, answer: sender }).await {
        Ok(()) => receiver.await.unwrap_or_else(|_| Err("it is ending".into())),
        Err(_) => Err("it is ending".into()),
    };
    let line = match answer {
        Ok(pid) => format!("serving {pid}\n"),
        Err(why) => format!("failed: {}\n", why.replace('\n', "; ")),
    };
    to.write_all(line.as_bytes()).await
}

/// Asks the process that serves with this `state_dir` to hand over to `program`; the process id of what serves then.
///
/// # Errors
/// Why it did not, in words.
pub fn ask(state_dir: &Path, program: &Path) -> Result<u32, String> {
    let path = state_dir.join(FILE);
    let lost =
        |error: io::Error| format!("{}: no process that serves is reached by it: {error}", path.display());
    let mut stream = std::os::unix::net::UnixStream::connect(&path).map_err(lost)?;
    writeln!(stream, "upgrade {}", program.display()).map_err(lost)?;
    let mut line = String::new();
    stream.read_to_string(&mut line).map_err(lost)?;
    let line = line.trim_end();
    match (line.strip_prefix("serving ").map(str::parse), line.strip_prefix("failed: ")) {
        (Some(Ok(pid)), _) => Ok(pid),
        (_, Some(why)) => Err(why.into()),
        _ => Err(lost(io::Error::other("it gave no answer"))),
    }
}
