//! `outboard top`: lines where nobody looks, a page that goes by keys where somebody does.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use lab::outboard::Outboard;
use lab::{Process, Side, World};

const BINARY: &str = env!("CARGO_BIN_EXE_outboard");
const LIMIT: Duration = Duration::from_secs(60);

/// An engine with a server on it, and a connection to that.
fn served(world: &World) -> (Outboard, Process, Process, TcpStream) {
    let outboard = Outboard::new(Path::new(BINARY), world);
    let engine = outboard.start_engine(world, None).expect("an engine");
    let site = world.scratch().join("site");
    std::fs::create_dir(&site).expect("a directory");
    let at = (Side::Server.ipv4(), 80).into();
    let server = outboard.start_serve(world, &site, at).expect("a server");
    let client = world
        .on(Side::Client, || {
            let mut client = TcpStream::connect(at)?;
            client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
            client.read_exact(&mut [0; 9])?;
            Ok(client)
        })
        .expect("a connection");
    (outboard, engine, server, client)
}

#[test]
fn a_line_each_time_without_a_terminal() {
    if lab::skip_without("a_line_each_time_without_a_terminal", &[]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (outboard, engine, server, client) = served(&world);
    let top = |further: &[&str]| -> String {
        let top = outboard.command(&world, "top");
        let top = top.args(["-n", "2", "--interval", "100ms"]).args(further);
        top.output().expect("lines")
    };
    let said = top(&[]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(
        lines[0].contains("accept/s") && !said.contains('\x1b'),
        "{said}"
    );
    assert!(lines[2].trim_start().starts_with("1 "), "{said}");
    assert!(lines[2].ends_with("outboard serve"), "{said}");
    assert!(top(&["--by", "listener", "--filter", ":80"]).ends_with("serve\n"));
    assert!(top(&["--filter", "nobody"]).ends_with("-\n"));
    drop(client);
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
}

/// `top` on a terminal of its own.
struct Page {
    script: Child,
    keys: ChildStdin,
    out: ChildStdout,
    said: String,
}

impl Page {
    fn open(outboard: &Outboard) -> Self {
        let socket = outboard.socket().display();
        let top = format!("OUTBOARD_SOCKET={socket} {BINARY} top --interval 50ms");
        // Whatever is not shown ends as a failure.
        let mut script = Command::new("timeout")
            .args([
                "60",
                "script",
                "-qec",
                &format!("stty rows 30 cols 120; {top}"),
                "/dev/null",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script");
        Self {
            keys: script.stdin.take().expect("a pipe"),
            out: script.stdout.take().expect("a pipe"),
            script,
            said: String::new(),
        }
    }

    /// Reads until this word is shown; what stands where it stood before is not written again.
    fn shows(&mut self, what: &str) {
        let mut some = [0; 4096];
        while !self.said.contains(what) {
            let length = self.out.read(&mut some).expect("a page");
            assert!(length > 0, "it ended before {what:?} was shown");
            self.said += &String::from_utf8_lossy(&some[..length]);
        }
        self.said.clear();
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }
}

#[test]
fn a_page_goes_by_keys_and_puts_the_terminal_back() {
    let test = "a_page_goes_by_keys_and_puts_the_terminal_back";
    if lab::skip_without(test, &["script", "stty"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let (outboard, engine, server, client) = served(&world);
    let mut page = Page::open(&outboard);
    page.shows("\x1b[?1049h");
    page.shows("10.77.0.1:80");
    page.press("h");
    page.shows("Keys");
    page.press("q/nobody");
    page.shows("(Enter");
    page.press("\r");
    // An engine that ends is waited for.
    drop(client);
    server.stop(LIMIT).expect("an end");
    engine.stop(LIMIT).expect("an end");
    page.shows("(nobody");
    let engine = outboard.start_engine(&world, None).expect("an engine");
    page.shows("reverse");
    page.press("q");
    page.shows("\x1b[?1049l");
    assert!(page.script.wait().expect("an end").success());
    engine.stop(LIMIT).expect("an end");
}
