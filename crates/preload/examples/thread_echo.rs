//! An echo server with a thread for each connection, byte by byte, by two ways of waiting:
//! `thread_echo ADDRESS:PORT`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).expect("thread_echo ADDRESS:PORT");
    let listener = TcpListener::bind(address)?;
    for (number, stream) in listener.incoming().enumerate() {
        let stream = stream?;
        std::thread::Builder::new()
            .stack_size(64 << 10)
            .spawn(move || serve(stream, number.is_multiple_of(2)))?;
    }
    Ok(())
}

fn serve(mut stream: TcpStream, polls: bool) {
    let mut byte = [0];
    loop {
        if polls {
            // As database servers and Java wait for the next request.
            let mut entry = libc::pollfd {
                fd: stream.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one entry.
            unsafe { libc::poll(&raw mut entry, 1, -1) };
        }
        if !matches!(stream.read(&mut byte), Ok(1)) || stream.write_all(&byte).is_err() {
            return;
        }
    }
}
