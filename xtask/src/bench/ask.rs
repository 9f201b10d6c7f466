//! Questions to a server that is measured, and the numbers of its answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::error::Error;

/// How long a server may take to get ready.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// What it answers to `GET path`, head included.
pub(super) fn get(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits until it answers with 200.
pub(super) fn until_it_says_yes(port: u16, path: &str) -> Result<(), Error> {
    let begin = Instant::now();
    loop {
        let answer = get(port, path).unwrap_or_default();
        if answer.starts_with("HTTP/1.1 200") {
            return Ok(());
        }
        if begin.elapsed() > PATIENCE {
            let status = answer.lines().next().unwrap_or("no answer").to_owned();
            return Err(Error::Failed { program: format!("GET 127.0.0.1:{port}{path}"), status });
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// The first number of this name in a text of JSON.
pub(super) fn number(json: &str, name: &str) -> Option<f64> {
    let rest = json.split_once(&format!("\"{name}\":"))?.1.trim_start();
    rest.split([',', '}', '\n']).next()?.trim().parse().ok()
}
