//! A DNS server that knows SRV records alone.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;

/// Length of a message's head.
const HEAD: usize = 12;
/// What a name is answered with that has no records: it does not exist.
const NXDOMAIN: u8 = 3;

/// One record: priority, weight, port, target.
pub type Srv = (u16, u16, u16, &'static str);

/// A running server; every name has the same records.
#[derive(Debug)]
pub struct Dns {
    address: SocketAddr,
    records: Arc<Mutex<Vec<Srv>>>,
}

impl Dns {
    /// Starts one on a free port. Ends with the test.
    pub async fn start(records: &[Srv]) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("an address");
        let records = Arc::new(Mutex::new(records.to_vec()));
        let known = Arc::clone(&records);
        tokio::spawn(async move {
            let mut buffer = [0; 1_232];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
                let answer = answer(&buffer[..length], &known.lock().expect("nobody panicked"));
                let _ = socket.send_to(&answer, peer).await;
            }
        });
        Self { address, records }
    }

    /// Where it is asked.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with these records from now on.
    pub fn set(&self, records: &[Srv]) {
        *self.records.lock().expect("nobody panicked") = records.to_vec();
    }
}

/// The question with its head turned into an answer's, and the records behind it (RFC 1035, section 4; RFC 2782).
fn answer(asked: &[u8], records: &[Srv]) -> Vec<u8> {
    let name = asked[HEAD..].iter().position(|byte| *byte == 0).expect("the root ends a name") + 1;
    let question = &asked[HEAD..HEAD + name + 4];
    let code = if records.is_empty() { NXDOMAIN } else { 0 };
    let count = u16::try_from(records.len()).expect("a few records").to_be_bytes();
    let mut answer = vec![asked[0], asked[1], 0x81, 0x80 | code, 0, 1, count[0], count[1], 0, 0, 0, 0];
    answer.extend(question);
    for (priority, weight, port, target) in records {
        let mut data: Vec<u8> =
            [priority, weight, port].iter().flat_map(|number| number.to_be_bytes()).collect();
        for label in target.split('.').filter(|label| !label.is_empty()) {
            data.push(u8::try_from(label.len()).expect("a short label"));
            data.extend(label.as_bytes());
        }
        data.push(0);
        // The name of the question, SRV, Internet, no time to live.
        answer.extend([0xc0, 12, 0, 33, 0, 1, 0, 0, 0, 0]);
        answer.extend(u16::try_from(data.len()).expect("short data").to_be_bytes());
        answer.extend(data);
    }
    answer
}
