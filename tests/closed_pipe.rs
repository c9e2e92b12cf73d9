//! What commands do when nobody reads what they say, as behind `| head -1`: none panics.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OUTBOARD: &str = env!("CARGO_BIN_EXE_outboard");
const SIGPIPE: i32 = 13;
const LIMIT: Duration = Duration::from_secs(60);

/// An end of a pipe for a command to write to, whose other end is closed.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn outboard(arguments: &[&str]) -> Command {
    let mut command = Command::new(OUTBOARD);
    command
        .args(arguments)
        .env("OUTBOARD_SOCKET", "/nonexistent/engine.sock");
    command
}

#[test]
fn a_command_whose_work_is_its_output_ends_by_sigpipe_without_a_word() {
    let times = ["-a", "50us", "-p", "80us", "-o", "10us", "-e", "60us"];
    for more in [&[][..], &["--csv"], &["--json"]] {
        let mut command = outboard(&[&["plan"], &times[..], more].concat());
        let output = command.stdout(unread()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGPIPE), "{more:?}: {said}");
        assert_eq!(said, "");
    }
    let status = outboard(&["plan", "--source-003"])
        .stdout(unread())
        .status();
    assert_eq!(status.expect("it runs").signal(), Some(SIGPIPE));
}

#[test]
fn a_complaint_that_nobody_hears_is_still_a_failure() {
    for arguments in [
        &["plan", "--from", "/nonexistent"][..],
        &["ss"],
        &["engine", "-i", "no-such-iface"],
        &["run", "--", "/nonexistent"],
    ] {
        let status = outboard(arguments).stderr(unread()).status().expect("runs");
        // A panic would be 101.
        let quiet = status.code() == Some(1) || status.signal() == Some(SIGPIPE);
        assert!(quiet, "{arguments:?}: {status}");
    }
}

#[test]
fn a_server_serves_on_when_nobody_reads_its_log() {
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let site = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut server = outboard(&["serve", "--log", "-L", &format!("127.0.0.1:{port}")])
        .arg(site)
        .stdout(unread())
        .stderr(unread())
        .spawn()
        .expect("it starts");
    let fetch = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"GET /plan.md HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let until = Instant::now() + LIMIT;
    // The second is served by who logged the first.
    for _ in 0..2 {
        let answer = loop {
            match fetch() {
                Ok(answer) => break answer,
                Err(error) if Instant::now() > until => panic!("{error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer:.80}");
    }
    assert_eq!(server.try_wait().expect("it runs"), None);
    server.kill().expect("it runs");
    server.wait().expect("it ends");
}
