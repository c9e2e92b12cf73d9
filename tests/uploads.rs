//! `outboard serve --uploads`: what clients store, over the engine and over the kernel.
#![forbid(unsafe_code)]

use lab::outboard::Outboard;
use lab::{Process, Side, World, skip_without_root};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
const LARGE: usize = 5_000_000;
/// Where the server listens, at every address: a client of the same side is the kernel's.
const PORT: u16 = 80;

struct Stage {
    _server: Process,
    _engine: Process,
    uploads: PathBuf,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Stage {
    fn new() -> Self {
        let world = World::new().unwrap();
        let site = world.site(&[("small", b"hello")]).unwrap();
        let uploads = world.scratch().join("uploads");
        std::fs::create_dir_all(uploads.join("sub")).unwrap();
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = outboard.start_engine(&world, None).unwrap();
        let server = outboard
            .command(&world, "serve")
            .arg(site)
            .args(["-L", &format!("0.0.0.0:{PORT}"), "--upload-limit", "6"])
            .args(["--idle-timeout", "3600", "--uploads"])
            .arg(&uploads)
            .log(world.scratch().join("serve.log"))
            .start()
            .unwrap();
        let start = Instant::now();
        while !outboard.takes(PORT) {
            assert!(start.elapsed() < PATIENCE, "nothing listens on the engine");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self {
            _server: server,
            _engine: engine,
            uploads,
            world,
        }
    }

    /// A client on this side: the server's own is the kernel's, the other the engine's.
    fn client(&self, side: Side) -> TcpStream {
        let to: Ipv4Addr = match side {
            Side::Server => Ipv4Addr::LOCALHOST,
            Side::Client => Side::Server.ipv4(),
        };
        let connect = || TcpStream::connect_timeout(&SocketAddr::from((to, PORT)), PATIENCE);
        let stream = self.world.on(side, || Ok(connect()?)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Names in the directory, hidden ones among them.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.uploads).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn begin(stream: &mut TcpStream, line: &str, length: usize, more: &str) {
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n{more}\r\n"
    )
    .unwrap();
}

/// The head of the next response, without its body.
fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut one = [0];
        stream.read_exact(&mut one).unwrap();
        bytes.push(one[0]);
    }
    String::from_utf8(bytes).unwrap()
}

fn content(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|at| ((at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect()
}

#[test]
fn uploads_arrive_in_whole_or_not_at_all() {
    if skip_without_root("uploads_arrive_in_whole_or_not_at_all") {
        return;
    }
    let stage = Stage::new();
    for (seed, side) in [(1, Side::Client), (2, Side::Server)] {
        let name = format!("large-{seed}");
        let path = stage.uploads.join(&name);
        let (first, second) = (content(LARGE, seed), content(LARGE - 1, seed + 10));

        // A client that asks before it sends, and goes on with a request behind the body.
        let mut stream = stage.client(side);
        begin(
            &mut stream,
            &format!("PUT /{name}"),
            LARGE,
            "Expect: 100-continue\r\n",
        );
        assert!(head(&mut stream).starts_with("HTTP/1.1 100 "));
        stream.write_all(&first).unwrap();
        begin(&mut stream, "HEAD /small", 0, "");
        let said = head(&mut stream);
        assert!(said.starts_with("HTTP/1.1 201 "), "{said}");
        assert!(said.contains(&format!("Location: /{name}\r\n")), "{said}");
        let length = said.split("Content-Length: ").nth(1).unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        stream.read_exact(&mut vec![0; length]).unwrap();
        assert!(head(&mut stream).starts_with("HTTP/1.1 200 "));
        assert!(
            std::fs::read(&path).unwrap() == first,
            "{name} is not what was sent"
        );

        // One that goes away in the middle changes nothing.
        let names = stage.names();
        let mut gone = stage.client(side);
        begin(&mut gone, &format!("PUT /{name}"), LARGE, "");
        gone.write_all(&second[..LARGE / 2]).unwrap();
        drop(gone);

        // Another in its place, in one write with its head.
        begin(&mut stream, &format!("PUT /{name}"), second.len(), "");
        stream.write_all(&second).unwrap();
        assert!(head(&mut stream).starts_with("HTTP/1.1 204 "));
        assert!(
            std::fs::read(&path).unwrap() == second,
            "{name} is not what was sent"
        );
        assert_eq!(stage.names(), names);

        begin(&mut stream, "POST /sub/", 3, "");
        stream.write_all(b"abc").unwrap();
        assert!(head(&mut stream).contains("Location: /sub/upload-"));
    }

    // What is not stored is said before the body is sent, and the connection ends.
    for (line, length, status) in [
        ("PUT /huge", 6_000_001, "413"),
        ("PUT /../x", 3, "400"),
        ("PUT /.hidden", 3, "403"),
        ("PUT /none/x", 3, "409"),
        ("DELETE /large-1", 0, "405"),
    ] {
        let names = stage.names();
        let mut stream = stage.client(Side::Client);
        begin(&mut stream, line, length, "Expect: 100-continue\r\n");
        let said = head(&mut stream);
        assert!(
            said.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line}: {said}"
        );
        assert!(said.contains("Connection: close"), "{said}");
        assert_eq!(stage.names(), names);
    }
}
