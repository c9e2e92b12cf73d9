//! The course of single sends: when each was called, when it was submitted and when the call returned, and when the
//! program knew that its peer has it; by the clock that the engine's traces and the peer go by, too.

use super::sender::{Sender, Way};
use ::lab::clock;
use anyhow::Result;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;

/// Send now and then, and tell the moments
#[derive(clap::Args)]
pub struct Args {
    /// Whom to send to; it answers each send with a byte
    #[arg(long, value_name = "ADDR:PORT")]
    to: SocketAddr,
    /// How
    #[arg(long)]
    way: Way,
    /// Bytes of a send
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    /// Sends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    sends: u32,
}

/// Before each send, so that nothing else is under way, and nobody asleep or awake because of the last.
const PAUSE: Duration = Duration::from_millis(2);

/// Sends, and says when what happened, in nanoseconds.
pub fn run(args: &Args) -> Result<Value> {
    let mut sender = Sender::connect(args.to, args.way, args.size as usize, true)?;
    let (mut called, mut submitted) = (Vec::new(), Vec::new());
    let (mut returned, mut known) = (Vec::new(), Vec::new());
    for _ in 0..args.sends {
        std::thread::sleep(PAUSE);
        called.push(clock::now());
        sender.send()?;
        submitted.push(clock::now());
        if sender.is_synchronous() {
            sender.settle()?;
        }
        returned.push(clock::now());
        sender.settle()?;
        known.push(clock::now());
        sender.answer()?;
    }
    let (submitted, known) = match args.way {
        // What is in a call is not seen from here, and only its peer tells a program what became of it.
        Way::Sockets => (None, None),
        _ => (Some(submitted), Some(known)),
    };
    Ok(json!({ "called": called, "submitted": submitted, "returned": returned, "known": known }))
}

#[cfg(test)]
mod tests {
    use super::{Args, run};
    use crate::subject::sender::Way;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn every_send_has_its_moments_in_their_order() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut message = [0; 64];
            while stream.read_exact(&mut message).is_ok() {
                stream.write_all(&[1]).unwrap();
            }
        });
        let (way, size, sends) = (Way::Sockets, 64, 5);
        let found = run(&Args {
            to,
            way,
            size,
            sends,
        })
        .unwrap();
        peer.join().unwrap();
        let moments = |name: &str| -> Vec<u64> {
            let all = found[name].as_array().unwrap().iter();
            all.map(|at| at.as_u64().unwrap()).collect()
        };
        let (called, returned) = (moments("called"), moments("returned"));
        assert_eq!((called.len(), returned.len()), (5, 5));
        assert!(
            called
                .iter()
                .zip(&returned)
                .all(|(call, back)| call <= back)
        );
        assert!(
            returned
                .iter()
                .zip(&called[1..])
                .all(|(back, next)| back + 2_000_000 <= *next)
        );
        assert!(found["known"].is_null() && found["submitted"].is_null());
    }
}
