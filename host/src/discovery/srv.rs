//! The targets of SRV records (RFC 2782).
//!
//! Of the records only those of the best priority count: the others stand by for a service whose clients cannot tell
//! who is well, and this one can. The weights are kept. A server is asked by UDP, and by TCP when its answer does not
//! fit (RFC 1035, section 4.2); where there are several the next one is asked when one gives no answer in time.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, SimpleDnsError, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

/// Time in which a server must answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an answer by UDP at most: nobody is told that more would be taken.
const DATAGRAM: usize = 512;
/// Where the system says which servers it asks.
const SYSTEM: &str = "/etc/resolv.conf";
/// The port of DNS servers.
const PORT: u16 = 53;

/// One target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) host: Box<str>,
    pub(super) port: u16,
    pub(super) weight: u16,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum SrvError {
    /// What is asked for is no name of the DNS.
    #[error("it is no name: {0}")]
    Name(SimpleDnsError),
    /// The system names no server.
    #[error("no DNS server: {SYSTEM}: {0}")]
    NoServer(io::Error),
    /// A server cannot be reached.
    #[error("DNS server {0}: {1}")]
    Server(SocketAddr, io::Error),
    /// The server says no.
    #[error("the DNS server answers {0:?}")]
    Refused(RCODE),
    /// What it answers makes no sense.
    #[error("the DNS server's answer cannot be read: {0}")]
    Answer(SimpleDnsError),
    /// The name has no such records.
    #[error("there are no SRV records")]
    Nothing,
}

/// The targets of a name, in order, by this server or those of the system. None at all: the name says that its service
/// is not there.
pub(super) async fn targets(name: &str, server: Option<SocketAddr>) -> Result<Vec<Target>, SrvError> {
    let asked = question(name).map_err(SrvError::Name)?;
    let servers = server.map_or_else(of_system, |server| Ok(vec![server])).map_err(SrvError::NoServer)?;
    let mut last = SrvError::NoServer(io::ErrorKind::NotFound.into());
    for server in servers {
        let answer = tokio::time::timeout(PATIENCE, ask(server, &asked)).await;
        match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(answer) => return read(&answer),
            Err(error) => last = SrvError::Server(server, error),
        }
    }
    Err(last)
}

fn question(name: &str) -> Result<Vec<u8>, SimpleDnsError> {
    let id = RandomState::new().hash_one(name).to_be_bytes();
    let mut packet = Packet::new_query(u16::from_be_bytes([id[0], id[1]]));
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name.strip_suffix('.').unwrap_or(name))?;
    packet.questions.push(Question::new(name, TYPE::SRV.into(), CLASS::IN.into(), false));
    packet.build_bytes_vec()
}

/// The servers that the system asks, or its own machine where it names none (resolv.conf(5)).
fn of_system() -> io::Result<Vec<SocketAddr>> {
    let text = std::fs::read_to_string(SYSTEM)?;
    let address = |line: &str| line.strip_prefix("nameserver")?.trim().parse::<IpAddr>().ok();
    let mut servers: Vec<_> =
        text.lines().filter_map(address).map(|address| SocketAddr::new(address, PORT)).collect();
    if servers.is_empty() {
        servers.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT));
    }
    Ok(servers)
}

async fn ask(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Nobody else's datagrams are taken from then on.
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut answer = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut answer).await?;
        let answer = answer.get(..length).unwrap_or_default();
        // An answer to somebody's older question is passed over.
        if answer.get(..2) != question.get(..2) {
            continue;
        }
        return match simple_dns::header_buffer::has_flags(answer, PacketFlag::TRUNCATION) {
            Ok(true) => ask_by_tcp(server, question).await,
            _ => Ok(answer.to_vec()),
        };
    }
}

async fn ask_by_tcp(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

fn read(answer: &[u8]) -> Result<Vec<Target>, SrvError> {
    let answer = Packet::parse(answer).map_err(SrvError::Answer)?;
    if answer.rcode() != RCODE::NoError {
        return Err(SrvError::Refused(answer.rcode()));
    }
    let records = || {
        answer.answers.iter().filter_map(|record| match &record.rdata {
            RData::SRV(srv) => Some(srv),
            _ => None,
        })
    };
    let best = records().map(|srv| srv.priority).min().ok_or(SrvError::Nothing)?;
    let target = |srv: &simple_dns::rdata::SRV<'_>| Target {
        host: srv.target.to_string().to_ascii_lowercase().into(),
        port: srv.port,
        weight: srv.weight,
    };
    let best = records().filter(|srv| srv.priority == best).map(target);
    let mut targets: Vec<_> = best.filter(|target| !target.host.is_empty()).collect();
    targets.sort();
    targets.dedup_by(|one, other| (&one.host, one.port) == (&other.host, other.port));
    Ok(targets)
}
