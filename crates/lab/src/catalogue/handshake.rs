//! How long it takes to set a connection up while a server has much to do.

use super::bed::Bed;
use crate::nginx::Nginx;
use anyhow::{Context, Result, bail};
use netdev::syscalls::socket_option_bytes;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two connections: they are to be few beside those of the load.
const PAUSE: Duration = Duration::from_millis(5);
/// No connection takes longer.
const LIMIT: Duration = Duration::from_secs(5);

/// What `work` returned, and the median of the time in which connections to the server were set up meanwhile, by
/// a thread beside the client; none, if none was.
pub fn beside<T>(bed: &Bed, work: impl FnOnce() -> Result<T>) -> Result<(T, Option<Duration>)> {
    let over = AtomicBool::new(false);
    let ask = || {
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            // One that is not set up in time is none, as for the client itself.
            times.extend(once(Nginx::address()).ok());
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    };
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| bed.on_client(ask));
        let did = work();
        over.store(true, Ordering::Relaxed);
        let times = match asking.join() {
            Ok(times) => times?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((did?, median(times)))
    })
}

/// From the SYN to its answer. The client's kernel measures that (`tcpi_rtt`) where it receives, so it does not
/// matter when a client whose core is busy comes to know of it.
fn once(server: SocketAddr) -> Result<Duration> {
    const IPPROTO_TCP: i32 = 6;
    const TCP_INFO: i32 = 11;
    /// Where `tcpi_rtt` is in `struct tcp_info`, in microseconds.
    const RTT: usize = 68;
    let stream = TcpStream::connect_timeout(&server, LIMIT)?;
    let mut facts = [0; RTT + 4];
    let read = socket_option_bytes(&stream, IPPROTO_TCP, TCP_INFO, &mut facts)?;
    if read < facts.len() {
        bail!("the kernel does not tell of round trips");
    }
    let field = facts[RTT..].first_chunk().context("no round trip")?;
    Ok(Duration::from_micros(u32::from_ne_bytes(*field).into()))
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::{median, once};
    use std::net::TcpListener;
    use std::time::Duration;

    /// The kernel sets connections up, though nobody accepts them.
    #[test]
    fn a_handshake_is_timed_by_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let times: Vec<Duration> = (0..5).map(|_| once(address).unwrap()).collect();
        let all = Duration::ZERO..Duration::from_millis(500);
        assert!(times.iter().all(|time| all.contains(time)), "{times:?}");
        assert!(times.iter().any(|time| !time.is_zero()), "{times:?}");
        drop(listener);
        assert!(once(address).is_err());
    }

    #[test]
    fn the_median_is_one_in_the_middle() {
        let times = [5, 1, 9].map(Duration::from_micros).to_vec();
        assert_eq!(median(times), Some(Duration::from_micros(5)));
        assert_eq!(median(Vec::new()), None);
    }
}
