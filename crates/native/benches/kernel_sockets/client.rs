//! Whoever asks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Sends so many messages on each of some connections: one on each, and then takes the answers.
pub fn run(server: SocketAddr, connections: usize, size: usize, messages: u64) {
    let connect = |_| {
        let stream = TcpStream::connect(server).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..connections).map(connect).collect();
    let (message, mut answer) = (vec![7; size], vec![0; size]);
    for _ in 0..messages {
        for stream in &mut streams {
            stream.write_all(&message).expect("a message");
        }
        for stream in &mut streams {
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!((answer[0], answer[size - 1]), (7, 7));
        }
    }
}
