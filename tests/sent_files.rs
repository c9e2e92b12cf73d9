//! Files that the engine reads itself: what `outboard serve` and an unmodified program send by sendfile arrives
//! as it is, and does not pass through them.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World, skip_without, skip_without_root};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 80;
const LEN: usize = 3_000_001;

fn contents() -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + at / 4096) as u8).collect()
}

/// A directory on a disk, if there is one that the engine sends from; the world's may be in memory.
fn disk(name: &str) -> PathBuf {
    let path = Path::new("/var/tmp").join(format!("outboard-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a directory");
    path
}

fn connected(world: &World) -> TcpStream {
    let to = SocketAddr::from((Side::Server.ipv4(), PORT));
    let connect = || TcpStream::connect_timeout(&to, PATIENCE);
    let stream = world.on(Side::Client, || Ok(connect()?)).expect("a server");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

fn until_taken(outboard: &Outboard) {
    let start = Instant::now();
    while !outboard.takes(PORT) {
        assert!(start.elapsed() < PATIENCE, "nothing listens on the engine");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn file_sends(outboard: &Outboard) -> u64 {
    let stats = outboard.stats().expect("an engine that answers");
    total(&stats, "file_sends") as u64
}

/// Whether a directory is on a disk that the engine sends from; where it is not, that is said.
fn on_disk(path: &Path, test: &str) -> bool {
    let mut stat = std::process::Command::new("stat");
    let out = stat.args(["-f", "-c", "%T"]).arg(path).output();
    let kind = String::from_utf8(out.expect("stat").stdout).expect("words");
    let is_disk = ["ext2/ext3", "xfs", "f2fs", "btrfs"].contains(&kind.trim());
    if !is_disk {
        let said = format!("SKIPPED (needs a disk below /var/tmp): {test}\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    is_disk
}

fn server(world: &World, outboard: &Outboard, site: &Path) -> Process {
    outboard
        .command(world, "serve")
        .arg(site)
        .args(["-L", &format!("0.0.0.0:{PORT}")])
        .log(world.scratch().join("serve.log"))
        .start()
        .expect("a server")
}

#[test]
fn what_serve_sends_does_not_pass_through_it() {
    let test = "what_serve_sends_does_not_pass_through_it";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let site = disk("site");
    std::fs::write(site.join("large"), contents()).expect("written");
    let server = server(&world, &outboard, &site);
    until_taken(&outboard);
    let mut stream = connected(&world);
    for _ in 0..2 {
        write!(stream, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n").expect("asked");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a response");
            head.push(byte[0]);
        }
        let mut body = vec![0; LEN];
        stream.read_exact(&mut body).expect("a body");
        assert!(body == contents(), "the body is the file");
    }
    if on_disk(&site, test) {
        assert!(file_sends(&outboard) > 0, "the engine reads it");
    }
    drop(stream);
    server.stop(PATIENCE).expect("an end");
    engine.stop(PATIENCE).expect("an end");
    std::fs::remove_dir_all(site).expect("there");
}

/// Sends the file that it is named by sendfile, over and over, then other bytes.
const PROGRAM: &str = "
import os, socket, sys
listener = socket.create_server(('0.0.0.0', int(sys.argv[1])))
connection, _ = listener.accept()
for _ in range(3):
    file = os.open(sys.argv[2], os.O_RDONLY)
    at, size = 0, os.fstat(file).st_size
    while at < size:
        at += os.sendfile(connection.fileno(), file, at, size)
    assert os.sendfile(connection.fileno(), file, size, 10) == 0
    os.close(file)
# What is filled again at once is read at once.
again = os.open(sys.argv[2] + '.again', os.O_RDWR | os.O_CREAT)
for byte in b'ab':
    os.pwrite(again, bytes([byte]) * 700000, 0)
    at = 0
    while at < 700000:
        at += os.sendfile(connection.fileno(), again, at, 700000 - at)
os.ftruncate(again, 0)
connection.sendall(b'the end')
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
";

#[test]
fn what_a_program_sends_by_sendfile_the_engine_reads() {
    let test = "what_a_program_sends_by_sendfile_the_engine_reads";
    if skip_without(test, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let site = disk("sendfile");
    let file = site.join("large");
    std::fs::write(&file, contents()).expect("written");
    let mut program = outboard
        .on_engine(&world, "python3")
        .args(["-c", PROGRAM, &PORT.to_string()])
        .arg(&file)
        .log(world.scratch().join("python.log"))
        .start()
        .expect("a program");
    until_taken(&outboard);
    let mut stream = connected(&world);
    let mut got = Vec::new();
    stream.read_to_end(&mut got).expect("all of it");
    drop(stream);
    let status = program.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{}", program.printed());
    let again = [vec![b'a'; 700_000], vec![b'b'; 700_000]].concat();
    let whole = [contents().repeat(3), again, b"the end".to_vec()].concat();
    assert_eq!(got.len(), whole.len());
    assert!(got == whole, "every byte at its place");
    if on_disk(&site, test) {
        assert!(file_sends(&outboard) >= 3, "the engine reads it");
    }
    engine.stop(PATIENCE).expect("an end");
    std::fs::remove_dir_all(site).expect("there");
}

/// Fills its connection, then has a file sent that is not in memory; says whether it is afterwards.
const REFUSED: &str = "
import ctypes, os, socket, sys
listener = socket.create_server(('0.0.0.0', int(sys.argv[1])))
connection, _ = listener.accept()
connection.setblocking(False)
file = os.open(sys.argv[2], os.O_RDONLY)
os.fsync(file)
# The peer's memory fills, too, and so there is room again and again for a while.
for _ in range(10000):
    try:
        while True:
            connection.send(bytes(100000))
    except BlockingIOError:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        os.sendfile(connection.fileno(), file, 1 << 20, 4096)
    except BlockingIOError:
        print('refused')
        break
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
size = os.fstat(file).st_size
at = libc.mmap(None, size, 1, 1, file, 0)
pages = (ctypes.c_ubyte * ((size + 4095) // 4096))()
assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), pages) == 0
print('in memory', sum(page & 1 for page in pages))
connection.close()
";

/// The program would wait for the disk otherwise, and its worker with it.
#[test]
fn a_sendfile_that_finds_no_room_does_not_read_the_file() {
    let test = "a_sendfile_that_finds_no_room_does_not_read_the_file";
    if skip_without(test, &["python3"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let engine = outboard.start_engine(&world, None).expect("an engine");
    let site = disk("refused");
    if on_disk(&site, test) {
        let file = site.join("large");
        std::fs::write(&file, contents()).expect("written");
        let mut program = outboard
            .on_engine(&world, "python3")
            .args(["-uc", REFUSED, &PORT.to_string()])
            .arg(&file)
            .log(world.scratch().join("python.log"))
            .start()
            .expect("a program");
        until_taken(&outboard);
        let stream = connected(&world);
        let status = program.wait(PATIENCE).expect("it ends");
        let printed = program.printed();
        assert!(status.success(), "{printed}");
        assert!(printed.contains("refused\nin memory 0\n"), "{printed}");
        drop(stream);
    }
    engine.stop(PATIENCE).expect("an end");
    std::fs::remove_dir_all(site).expect("there");
}
