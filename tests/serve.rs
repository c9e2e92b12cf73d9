//! What `outboard serve` promises, over the engine and, where there is none, over the kernel: the same
//! program, and nothing that a client sees is other than there.
#![forbid(unsafe_code)]

use lab::outboard::{Outboard, total};
use lab::sampler::run_time;
use lab::{Process, Side, World, skip_without_root};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nothing may hang.
const PATIENCE: Duration = Duration::from_secs(60);
const PORT: u16 = 80;
const SMALL: usize = 3000;
const MIDDLE: usize = 20_000;
const LARGE: usize = 9_000_001;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 4096) as u8).collect()
}

/// A server of a site that lies on a disk, since the engine sends from no other files.
struct Stage {
    server: Process,
    engine: Option<Process>,
    outboard: Outboard,
    site: PathBuf,
    // Last: it must outlive what runs in it.
    world: World,
}

impl Stage {
    fn new(name: &str, has_engine: bool, options: &[&str]) -> Self {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let engine = has_engine.then(|| outboard.start_engine(&world, None).expect("an engine"));
        let own = format!("outboard-{name}-{has_engine}-{}", std::process::id());
        let site = Path::new("/var/tmp").join(own);
        std::fs::create_dir_all(&site).expect("a directory");
        for (name, len) in [("small", SMALL), ("middle", MIDDLE), ("large", LARGE)] {
            std::fs::write(site.join(name), content(len)).expect("written");
        }
        std::fs::write(site.join("empty"), []).expect("written");
        let mut server = outboard
            .command(&world, "serve")
            .arg(&site)
            .args(["-L", &format!("0.0.0.0:{PORT}"), "--log"])
            .args(options)
            .log(world.scratch().join("serve.log"))
            .start()
            .expect("a server");
        outboard
            .wait_until_taken(&mut server, PATIENCE, PORT, || world.is_reached(address()))
            .expect("it serves");
        Self {
            server,
            engine,
            outboard,
            site,
            world,
        }
    }

    fn client(&self) -> Client {
        let connect = || TcpStream::connect_timeout(&address(), PATIENCE);
        let stream = self.world.on(Side::Client, || Ok(connect()?));
        let stream = stream.expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_write_timeout(Some(PATIENCE)).expect("set");
        Client(stream)
    }

    /// Who has what comes over the wire, as the log calls it.
    fn by(&self) -> &'static str {
        match self.engine {
            Some(_) => "  engine  ",
            None => "  kernel  ",
        }
    }

    /// Bytes that the server's process has read from files and sockets of the kernel's (proc(5)).
    fn read_by_server(&self) -> u64 {
        let path = format!("/proc/{}/io", self.server.id());
        let facts = std::fs::read_to_string(path).expect("its account");
        let line = facts.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.and_then(|count| count.parse().ok()).expect("a number")
    }

    fn end(mut self) {
        if self.server.ended().expect("its state").is_none() {
            self.server.signal(Signal::KILL).expect("sent");
            self.server.wait(PATIENCE).expect("an end");
        }
        if let Some(engine) = self.engine.take() {
            engine.stop(PATIENCE).expect("an end");
        }
        std::fs::remove_dir_all(&self.site).expect("there");
    }
}

fn address() -> SocketAddr {
    (Side::Server.ipv4(), PORT).into()
}

struct Client(TcpStream);

impl Client {
    fn ask(&mut self, line: &str, fields: &str) {
        write!(self.0, "{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").expect("asked");
    }

    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).expect("a head");
            head.push(byte[0]);
        }
        String::from_utf8(head).expect("words")
    }

    fn body(&mut self, head: &str) -> Vec<u8> {
        let mut body = vec![0; length(head)];
        self.0.read_exact(&mut body).expect("a body");
        body
    }

    /// Asks, and takes the answer.
    fn fetch(&mut self, line: &str, fields: &str) -> (String, Vec<u8>) {
        self.ask(line, fields);
        let head = self.head();
        let body = self.body(&head);
        (head, body)
    }

    /// What comes until the server ends its side.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("an end");
        rest
    }
}

/// Says at its end that all is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find_map(|(found, value)| (found == name).then_some(value))
}

fn length(head: &str) -> usize {
    field(head, "Content-Length")
        .and_then(|it| it.parse().ok())
        .unwrap_or_else(|| panic!("no length: {head}"))
}

fn on_both(name: &str, options: &[&str], check: impl Fn(&mut Stage)) {
    if skip_without_root(name) {
        return;
    }
    for has_engine in [true, false] {
        let mut stage = Stage::new(name, has_engine, options);
        check(&mut stage);
        stage.end();
    }
}

#[test]
fn one_connection_is_answered_time_after_time() {
    on_both("one_connection_is_answered_time_after_time", &[], |stage| {
        let mut client = stage.client();
        for (name, len) in [("small", SMALL), ("large", LARGE), ("middle", MIDDLE)].repeat(2) {
            let (head, body) = client.fetch(&format!("GET /{name}"), "");
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(body == content(len), "{name} is not what it is");
        }
        assert!(client.fetch("GET /empty", "").1.is_empty());
        client.ask("HEAD /large", "");
        assert_eq!(length(&client.head()), LARGE);
        let (head, _) = client.fetch("GET /nothing", "");
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");

        // A part, parts, and what the client has already.
        let (head, body) = client.fetch("GET /large", "Range: bytes=1000000-1999999\r\n");
        assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
        assert!(body == content(LARGE)[1_000_000..2_000_000]);
        let (head, body) = client.fetch("GET /middle", "Range: bytes=0-9,-10\r\n");
        assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
        let whole = content(MIDDLE);
        for part in [&whole[..10], &whole[MIDDLE - 10..]] {
            assert!(body.windows(10).any(|window| window == part));
        }
        client.ask("HEAD /small", "");
        let head = client.head();
        let tag = field(&head, "ETag").expect("a tag");
        client.ask("GET /small", &format!("If-None-Match: {tag}\r\n"));
        assert!(client.head().starts_with("HTTP/1.1 304 "));

        // Many at once, and the last of them ends it.
        for _ in 0..200 {
            client.ask("GET /small", "");
        }
        client.ask("GET /middle", "Connection: close\r\n");
        for _ in 0..200 {
            let head = client.head();
            assert!(client.body(&head) == content(SMALL));
        }
        let head = client.head();
        assert_eq!(field(&head, "Connection"), Some("close"));
        assert!(client.body(&head) == whole);
        assert!(client.rest().is_empty());
        let said = stage.server.printed();
        let of_them = said.lines().filter(|line| line.contains(stage.by()));
        assert_eq!(of_them.count(), 214, "{said}");
    });
}

/// However often a file was asked for before.
#[test]
fn whoever_asks_after_a_change_gets_what_is_there_then() {
    let test = "whoever_asks_after_a_change_gets_what_is_there_then";
    on_both(test, &[], |stage| {
        let (small, new) = (stage.site.join("small"), stage.site.join("new"));
        let mut client = stage.client();
        let mut often = |is_now: &[u8]| {
            for round in 0..100 {
                let (_, body) = client.fetch("GET /small", "");
                assert!(body == is_now, "round {round}");
            }
            // For so long nothing is watched that has just been changed.
            std::thread::sleep(Duration::from_millis(1200));
            for _ in 0..100 {
                client.fetch("GET /small", "");
            }
        };
        often(&content(SMALL));
        std::fs::write(&new, content(SMALL + 1)).expect("written");
        std::fs::rename(&new, &small).expect("replaced");
        often(&content(SMALL + 1));
        // It must not be shorter: what is not acknowledged may have to be read again.
        let mut file = std::fs::File::options().write(true).open(&small);
        let file = file.as_mut().expect("opened");
        file.write_all(&content(SMALL + 2)).expect("written");
        often(&content(SMALL + 2));
        std::fs::remove_file(&small).expect("removed");
        let (head, _) = client.fetch("GET /small", "");
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    });
}

/// However long the server has been at it with others: who asks them together for many files keeps it for a while, and
/// who connects meanwhile is served in the same turn.
#[test]
fn whoever_connects_after_a_change_gets_what_is_there_then() {
    const AT_ONCE: usize = 64;
    const ROUNDS: usize = 100;
    let test = "whoever_connects_after_a_change_gets_what_is_there_then";
    on_both(test, &[], |stage| {
        let (small, new) = (stage.site.join("small"), stage.site.join("new"));
        let mut busy = stage.client();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (head, body) = busy.fetch("GET /large", "Range: bytes=0-0\r\n");
                let mut answers = vec![0; AT_ONCE * (head.len() + body.len())];
                while !over.load(Ordering::Relaxed) {
                    let one = "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\n\r\n";
                    let asked = busy.0.write_all(one.repeat(AT_ONCE).as_bytes());
                    asked.expect("asked");
                    busy.0.read_exact(&mut answers).expect("answered");
                }
            });
            // Also where something fails.
            let _ends = Ends(&over);
            let found: Vec<usize> = (1..=ROUNDS)
                .map(|round| {
                    std::fs::write(&new, content(SMALL + round)).expect("written");
                    std::fs::rename(&new, &small).expect("replaced");
                    let (_, body) = stage.client().fetch("GET /small", "");
                    body.len() - SMALL
                })
                .collect();
            assert_eq!(found, (1..=ROUNDS).collect::<Vec<_>>());
        });
    });
}

/// Who deletes a file wants its place on the disk back, whether or not others are served meanwhile.
#[test]
fn files_that_nobody_asks_for_are_closed() {
    on_both("files_that_nobody_asks_for_are_closed", &[], |stage| {
        let descriptors = format!("/proc/{}/fd", stage.server.id());
        let is_open = || {
            let all = std::fs::read_dir(&descriptors).expect("its descriptors");
            let mut links = all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
            links.any(|link| link == stage.site.join("middle"))
        };
        let mut client = stage.client();
        while !is_open() {
            client.fetch("GET /middle", "");
        }
        drop(client);
        let begin = Instant::now();
        while is_open() {
            assert!(begin.elapsed() < PATIENCE, "it is still open");
            std::thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn a_slow_reader_gets_all_while_others_are_served() {
    let test = "a_slow_reader_gets_all_while_others_are_served";
    on_both(test, &[], |stage| {
        let mut slow = stage.client();
        slow.ask("GET /large", "");
        let mut also = stage.client();
        also.ask("GET /large", "Range: bytes=5-\r\n");
        std::thread::sleep(Duration::from_millis(300));
        assert!(stage.client().fetch("GET /small", "").1 == content(SMALL));
        let head = slow.head();
        assert!(slow.body(&head) == content(LARGE));
        let head = also.head();
        assert!(also.body(&head) == content(LARGE)[5..]);
    });
}

#[test]
fn whoever_has_asked_is_answered_when_it_stops() {
    let test = "whoever_has_asked_is_answered_when_it_stops";
    on_both(test, &["--drain", "60"], |stage| {
        // First of all: the server's side of it is complete when others have been answered. The
        // end of a handshake that comes after the listener has closed is reset, as by Linux.
        let mut fresh = stage.client();
        let mut between = stage.client();
        between.fetch("GET /small", "");
        let mut amid = stage.client();
        amid.ask("GET /large", "");
        let head = amid.head();
        stage.server.signal(Signal::TERM).expect("sent");
        assert!(between.rest().is_empty(), "it is ended without a word");
        assert!(amid.body(&head) == content(LARGE), "it gets all");
        assert!(amid.rest().is_empty());
        let (head, body) = fresh.fetch("GET /small", "");
        assert_eq!(field(&head, "Connection"), Some("close"));
        assert!(body == content(SMALL));
        drop((between, amid, fresh));
        let status = stage.server.wait(PATIENCE).expect("it ends by itself");
        assert!(status.success(), "{}", stage.server.printed());
        let refused = || TcpStream::connect_timeout(&address(), PATIENCE);
        let again = stage.world.on(Side::Client, || Ok(refused()?));
        assert!(again.is_err(), "nobody listens any more");
    });
}

#[test]
fn who_is_too_much_is_told_so_and_who_is_silent_is_left() {
    let test = "who_is_too_much_is_told_so_and_who_is_silent_is_left";
    let options = ["--max-connections", "2", "--idle-timeout", "2"];
    on_both(test, &options, |stage| {
        let start = Instant::now();
        let (mut first, mut second) = (stage.client(), stage.client());
        first.fetch("GET /small", "");
        second.fetch("GET /small", "");
        let mut third = stage.client();
        let head = third.head();
        assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
        drop(third);
        assert!(first.rest().is_empty());
        assert!(second.rest().is_empty());
        assert!(start.elapsed() > Duration::from_secs(2), "not before");
        drop((first, second));
        // There is room again.
        let start = Instant::now();
        loop {
            let mut client = stage.client();
            client.ask("GET /small", "");
            if client.head().starts_with("HTTP/1.1 200 ") {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "nobody is served any more");
        }
    });
}

#[test]
fn without_descriptors_it_rests_until_there_are_some() {
    let test = "without_descriptors_it_rests_until_there_are_some";
    if skip_without_root(test) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = world.site(&[("small", b"hello")]).expect("a site");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let serve = format!(
        "ulimit -n 24; exec {} serve {} -L 0.0.0.0:{PORT}",
        env!("CARGO_BIN_EXE_outboard"),
        site.display()
    );
    let mut server = world
        .program(Side::Server, "sh")
        .args(["-c", &serve])
        .env("OUTBOARD_SOCKET", outboard.socket())
        .log(world.scratch().join("serve.log"))
        .start()
        .expect("a server");
    let is_reached = || world.is_reached(address());
    server.wait_until(PATIENCE, is_reached).expect("it serves");
    let connect = || TcpStream::connect_timeout(&address(), PATIENCE);
    let connect = || world.on(Side::Client, || Ok(connect()?));
    let taken: Vec<_> = (0..40)
        .map(|_| connect().expect("the kernel's queue"))
        .collect();
    // Those that it has not accepted are no work meanwhile.
    let used = || run_time(server.id()).expect("its account");
    let before = used();
    std::thread::sleep(Duration::from_millis(2500));
    let used = used() - before;
    assert!(used < Duration::from_millis(500), "{used:?} of 2.5 s");
    drop(taken);
    let stream = connect().expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let (head, body) = Client(stream).fetch("GET /small", "");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, b"hello");
    server.stop(PATIENCE).expect("an end");
}

#[test]
fn the_bytes_of_files_do_not_pass_through_it() {
    let test = "the_bytes_of_files_do_not_pass_through_it";
    if skip_without_root(test) {
        return;
    }
    let stage = Stage::new(test, true, &[]);
    let file_sends = || total(&stage.outboard.stats().expect("stats"), "file_sends") as u64;
    let mut client = stage.client();
    let (read, sends) = (stage.read_by_server(), file_sends());
    // The first time, too, and however short it is.
    for (name, len) in [("middle", MIDDLE), ("small", SMALL), ("large", LARGE)] {
        assert!(client.fetch(&format!("GET /{name}"), "").1 == content(len));
    }
    let kind = std::process::Command::new("stat")
        .args(["-f", "-c", "%T"])
        .arg(&stage.site)
        .output()
        .expect("stat");
    let kind = String::from_utf8(kind.stdout).expect("words");
    if ["ext2/ext3", "xfs", "f2fs", "btrfs"].contains(&kind.trim()) {
        assert!(file_sends() >= sends + 3, "the engine reads them");
        let read = stage.read_by_server() - read;
        assert!(read < SMALL as u64, "{read} bytes went through the process");
    } else {
        let said = format!("SKIPPED (needs a disk below /var/tmp): {test}\n");
        let _ = std::io::stderr().write_all(said.as_bytes());
    }
    drop(client);
    stage.end();
}
