//! Over sockets: one connection after another, as they are measured.

use super::Args;
use anyhow::Result;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

pub fn run(args: &Args) -> Result<()> {
    let listener = TcpListener::bind(args.at)?;
    let mut bytes = vec![0; args.size as usize];
    loop {
        let (stream, _) = listener.accept()?;
        // What becomes of one connection is its client's.
        let _ = serve(stream, &mut bytes, args.poll);
    }
}

fn serve(mut stream: TcpStream, bytes: &mut [u8], poll: bool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(poll)?;
    loop {
        let mut have = 0;
        while have < bytes.len() {
            match stream.read(&mut bytes[have..]) {
                Ok(0) => return Ok(()),
                Ok(read) => have += read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        stream.write_all(bytes)?;
    }
}

#[cfg(test)]
mod tests {
    use super::serve;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn messages_are_answered_whole_waiting_and_polling() {
        for poll in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let served = std::thread::spawn(move || serve(stream, &mut [0; 6], poll));
            for message in [b"abcdef", b"ghijkl"] {
                client.write_all(&message[..2]).unwrap();
                client.write_all(&message[2..]).unwrap();
                let mut answer = [0; 6];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, message);
            }
            drop(client);
            served.join().unwrap().unwrap();
        }
    }
}
