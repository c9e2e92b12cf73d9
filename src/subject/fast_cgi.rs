//! A FastCGI responder that computes what it answers, behind the web server of `outboard lab run dynamic`: bytes
//! of a random number each, whatever is asked for.

use super::random::{BEGINNING, random};
use anyhow::Result;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// Answer a web server by FastCGI
#[derive(clap::Args)]
pub struct Args {
    /// The local socket to listen at
    #[arg(long, value_name = "FILE")]
    at: PathBuf,
    /// Bytes of an answer
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    size: u32,
}

/// Kinds of records (FastCGI 1.0, section 8).
const BEGIN: u8 = 1;
const END: u8 = 3;
const INPUT: u8 = 5;
const OUTPUT: u8 = 6;

/// Answers, until it is ended.
pub fn run(args: &Args) -> Result<()> {
    let listener = UnixListener::bind(&args.at)?;
    // Web servers have users of their own.
    std::fs::set_permissions(&args.at, std::fs::Permissions::from_mode(0o777))?;
    let size = args.size as usize;
    for stream in listener.incoming() {
        let stream = stream?;
        // A web server that goes away is none of its business.
        std::thread::spawn(move || drop(serve(&stream, size)));
    }
    Ok(())
}

/// Answers what comes on a connection, one after another.
fn serve(stream: &UnixStream, size: usize) -> std::io::Result<()> {
    let (mut from, mut to) = (BufReader::new(stream), stream);
    let mut state = BEGINNING;
    while let Some((id, stays)) = request(&mut from)? {
        let head = format!("Content-Type: text/plain\r\nContent-Length: {size}\r\n\r\n");
        let mut body = head.into_bytes();
        body.extend((0..size).map(|_| random(&mut state)));
        let mut answer = record(OUTPUT, id, body.len());
        answer.extend(body);
        answer.extend(record(OUTPUT, id, 0));
        answer.extend(record(END, id, 8));
        answer.extend([0; 8]);
        to.write_all(&answer)?;
        if !stays {
            break;
        }
    }
    Ok(())
}

/// A request, to its end: its number, and whether the connection stays. Nothing, if no more comes.
fn request(from: &mut impl Read) -> std::io::Result<Option<(u16, bool)>> {
    let mut stays = false;
    loop {
        let mut head = [0; 8];
        match from.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let [_, kind, id @ .., high, low, padding, _] = head;
        let length = u16::from_be_bytes([high, low]);
        let mut content = vec![0; usize::from(length) + usize::from(padding)];
        from.read_exact(&mut content)?;
        match kind {
            BEGIN => stays = content.get(2).is_some_and(|flags| flags & 1 != 0),
            INPUT if length == 0 => return Ok(Some((u16::from_be_bytes(id), stays))),
            _ => {}
        }
    }
}

fn record(kind: u8, id: u16, length: usize) -> Vec<u8> {
    let (id, length) = (id.to_be_bytes(), (length as u16).to_be_bytes());
    vec![1, kind, id[0], id[1], length[0], length[1], 0, 0]
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, INPUT, OUTPUT, record, serve};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn requests_are_answered_one_after_another_as_long_as_the_connection_stays() {
        const PARAMETERS: u8 = 4;
        let (mut server, other) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || serve(&other, 500));
        for (id, stays) in [(1_u16, 1_u8), (258, 0)] {
            let mut asked = record(BEGIN, id, 8);
            asked.extend([0, 1, stays, 0, 0, 0, 0, 0]);
            // With padding, in two pieces.
            asked.extend([1, PARAMETERS, 0, id as u8, 0, 3, 5, 0]);
            asked.extend([7; 8]);
            asked.extend(record(PARAMETERS, id, 0));
            asked.extend(record(INPUT, id, 0));
            let (one, two) = asked.split_at(21);
            server.write_all(one).unwrap();
            server.write_all(two).unwrap();
            let mut head = [0; 8];
            server.read_exact(&mut head).unwrap();
            assert_eq!((head[1], [head[2], head[3]]), (OUTPUT, id.to_be_bytes()));
            let mut body = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
            server.read_exact(&mut body).unwrap();
            let blank = body
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .unwrap();
            assert_eq!(body.len() - blank - 4, 500);
            assert!(body.starts_with(b"Content-Type: "));
            let mut end = [0; 24];
            server.read_exact(&mut end).unwrap();
            assert_eq!((end[1], end[9], end[13]), (OUTPUT, END, 8));
        }
        // The second was the last.
        serving.join().unwrap().unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
    }
}
