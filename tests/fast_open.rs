//! TCP Fast Open: an unmodified nginx that asks for it, and a client of the kernel's that sends its request
//! with the SYN; and programs that connect, on the engine and on the kernel.
#![forbid(unsafe_code)]

use lab::outboard::{Counter, Outboard, total};
use lab::{Process, Side, World};
use std::path::Path;
use std::time::Duration;

const STARTING: Duration = Duration::from_secs(30);

fn nginx(world: &World, outboard: &Outboard, fast_open: &str) -> Process {
    let here = world.scratch().join("nginx");
    std::fs::create_dir_all(&here).expect("a directory");
    let file = here.join("nginx.conf");
    let configuration = format!(
        "user root; daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log info;\n\
         events {{ worker_connections 64; }}\n\
         http {{ access_log off; server {{ listen {1}:80 {fast_open}; return 200 \"served\"; }} }}\n",
        here.display(),
        Side::Server.ipv4(),
    );
    std::fs::write(&file, configuration).expect("a configuration");
    let mut nginx = outboard
        .on_engine(world, "nginx")
        .arg("-c")
        .arg(&file)
        .log(here.join("output.log"))
        .start()
        .expect("nginx starts");
    let up = || world.is_reached((Side::Server.ipv4(), 80).into());
    outboard
        .wait_until_taken(&mut nginx, STARTING, 80, up)
        .expect("nginx serves");
    nginx
}

/// What the kernel's client gets that sends its request with the SYN if it can.
fn fetch(world: &World) -> String {
    let url = format!("http://{}/", Side::Server.ipv4());
    world
        .program(Side::Client, "curl")
        .args(["--silent", "--show-error", "--max-time", "30"])
        .args(["--tcp-fastopen", &url])
        .output()
        .expect("curl")
}

#[test]
fn a_request_comes_with_the_syn_where_engine_and_program_want_it() {
    let test = "a_request_comes_with_the_syn_where_engine_and_program_want_it";
    if lab::skip_without(test, &["nginx", "curl"]) {
        return;
    }
    for (setting, listen, expected) in [
        ("accept", "fastopen=16", 2.0),
        // Either of them alone is not enough.
        ("off", "fastopen=16", 0.0),
        ("accept", "", 0.0),
    ] {
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        let settings = format!("[tcp]\nfast_open = \"{setting}\"\n");
        let _engine = outboard
            .start_engine_with(&world, &settings)
            .expect("the engine starts");
        // nginx sets the option when it listens already.
        let _nginx = nginx(&world, &outboard, listen);
        for _ in 0..3 {
            assert_eq!(fetch(&world), "served", "{setting} {listen}");
        }
        let counters = outboard.stats().expect("counters");
        // The first asks for a cookie.
        let opened = total(&counters, "tcp_fast_opens");
        assert_eq!(opened, expected, "{setting} {listen}");
        let cookies = total(&counters, "tcp_fast_open_cookies");
        assert_eq!(cookies, f64::from(expected > 0.0), "{setting} {listen}");
        let refused = total(&counters, "tcp_fast_opens_refused");
        assert_eq!(refused, 0.0, "{setting} {listen}");
    }
}

/// Answers each line with its length at port 7000, and speaks first at port 7002.
const SERVER: &str = r#"
import socket, sys, threading

def listen(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_TCP, 23, 16)
    listener.bind((sys.argv[1], port))
    listener.listen(8)
    return listener

def greet(listener):
    while True:
        peer, _ = listener.accept()
        try:
            peer.sendall(b"welcome")
            peer.settimeout(60)
            while peer.recv(100):
                pass
        except OSError:
            pass
        peer.close()

threading.Thread(target=greet, args=[listen(7002)]).start()
listener = listen(7000)
while True:
    peer, _ = listener.accept()
    peer.settimeout(60)
    try:
        data = b""
        while not data.endswith(b"\n"):
            more = peer.recv(100000)
            if not more:
                break
            data += more
        peer.sendall(b"%d" % len(data))
    except OSError:
        pass
    peer.close()
"#;

/// Connects in every way that has to do with Fast Open, and says what became of each call.
const CLIENT: &str = r#"
import errno, os, select, socket, sys
FASTOPEN, CONNECT = 0x20000000, 30
server, closed = (sys.argv[1], 7000), (sys.argv[1], 7001)

def say(what, call):
    try:
        result = call()
    except BlockingIOError as error:
        result = errno.errorcode[error.errno]
    except OSError as error:
        result = errno.errorcode[error.errno]
    print(what, result, flush=True)
    return result

def new(blocking=True, deferred=False):
    it = socket.socket()
    it.settimeout(None)
    it.setblocking(blocking)
    if deferred:
        say("set", lambda: it.setsockopt(socket.IPPROTO_TCP, CONNECT, 1))
    return it

def ready(it, timeout=20000):
    poll = select.poll()
    poll.register(it, select.POLLOUT)
    return [events for _, events in poll.poll(timeout)]

def end(it, rest=b""):
    it.setblocking(True)
    it.settimeout(60)
    if rest:
        say("rest", lambda: it.sendall(rest))
    say("answer", lambda: it.recv(100))
    it.close()

big = b"x" * 99999 + b"\n"
for round in ["first", "second"]:
    print("-", round)
    it = new(blocking=False)
    # With a cookie so many bytes as there is room for, without one none.
    sent = say("send at once", lambda: it.sendto(big, FASTOPEN, server))
    print("writable", ready(it))
    end(it, big[sent:] if isinstance(sent, int) else big)

it = new()
say("send", lambda: it.sendto(b"hello\n", FASTOPEN, server))
say("again", lambda: it.sendto(b"hello\n", FASTOPEN, server))
say("option", lambda: it.setsockopt(socket.IPPROTO_TCP, CONNECT, 1))
end(it)

it = new()
say("sendmsg", lambda: it.sendmsg([b"hel", b"lo\n"], [], FASTOPEN, server))
end(it)

it = new()
say("nothing", lambda: it.sendto(b"", FASTOPEN, server))
end(it, b"a line\n")

it = new()
say("refused", lambda: it.sendto(b"hello\n", FASTOPEN, closed))
it.close()

it = new()
say("nobody", lambda: it.send(b"hello\n", FASTOPEN))
it.close()

it = new(deferred=True)
say("connect", lambda: it.connect(server))
say("write", lambda: it.send(b"y" * 4999 + b"\n"))
end(it)

it = new(blocking=False, deferred=True)
code = say("connect at once", lambda: it.connect_ex(server))
if code == 0:
    print("writable before", ready(it, 0))
    say("connect again", lambda: errno.errorcode[it.connect_ex(server)])
    say("peer", it.getpeername)
    say("read", lambda: it.recv(10))
else:
    ready(it)
sent = say("write at once", lambda: it.send(b"z" * 9 + b"\n"))
print("writable", ready(it))
say("peer", lambda: it.getpeername() == server)
end(it)

it = new(deferred=True)
code = say("connect to nobody", lambda: it.connect(closed))
if code is None:
    say("write to nobody", lambda: it.send(b"hello\n"))
it.close()

it = new(deferred=True)
say("connect and fork", lambda: it.connect(server))
child = os.fork()
if child == 0:
    it.send(b"of the child\n")
    os._exit(0)
say("child", lambda: os.waitpid(child, 0)[1])
end(it)

it = new(deferred=True)
say("connect in vain", lambda: it.connect(server))
it.close()
"#;

/// Sends nothing, first without a cookie and then with one.
const OF_NOTHING: &str = r#"
import errno, select, signal, socket, sys
FASTOPEN, server = 0x20000000, (sys.argv[1], 7000)
signal.alarm(60)

def end(it):
    it.sendall(b"a line\n")
    print(it.recv(100), flush=True)
    it.close()

for round in range(2):
    it = socket.socket()
    print(it.sendto(b"", FASTOPEN, server), flush=True)
    end(it)

it = socket.socket()
it.setblocking(False)
try:
    print(it.sendto(b"", FASTOPEN, server))
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
poll = select.poll()
poll.register(it, select.POLLOUT)
print(poll.poll(20000) == [(it.fileno(), select.POLLOUT)], flush=True)
it.setblocking(True)
end(it)
"#;

/// Waits for a server that speaks first, having written nothing on connections that wait for a write.
const WAITS_FOR_GREETING: &str = r#"
import errno, os, select, signal, socket, sys, tempfile
FASTOPEN, CONNECT = 0x20000000, 30
server, greeter = (sys.argv[1], 7000), (sys.argv[1], 7002)
signal.alarm(60)

def deferred(blocking=True):
    it = socket.socket()
    it.setsockopt(socket.IPPROTO_TCP, CONNECT, 1)
    it.setblocking(blocking)
    it.connect(greeter)
    return it

def end(it):
    print(it.recv(100), flush=True)
    it.close()

# The cookie.
it = socket.socket()
it.sendto(b"a line\n", FASTOPEN, server)
end(it)

for write in [
    lambda it: it.send(b""),
    lambda it: it.sendto(b"", FASTOPEN, greeter),
    lambda it: it.sendmsg([b"", b""]),
    lambda it: os.write(it.fileno(), b""),
]:
    it = deferred()
    print(write(it), flush=True)
    print(it.send(b""), flush=True)
    end(it)

it = deferred(blocking=False)
try:
    print(it.send(b""))
except OSError as error:
    print(errno.errorcode[error.errno], flush=True)
poll = select.poll()
poll.register(it, select.POLLIN)
print(poll.poll(20000) == [(it.fileno(), select.POLLIN)], flush=True)
end(it)

# These do not come to the socket, and do not wait for a handshake.
it = deferred()
print(os.writev(it.fileno(), [b"", b""]), flush=True)
with tempfile.TemporaryFile() as empty:
    print(os.sendfile(it.fileno(), empty.fileno(), 0, 10), flush=True)
print(it.send(b"with the SYN"), flush=True)
end(it)
"#;

/// What a client says, on the engine or on the kernel, and what the server has counted meanwhile.
fn client(world: &World, outboard: Option<&Outboard>, script: &str) -> (String, Counts) {
    let program = match outboard {
        Some(outboard) => outboard.on_engine(world, "python3"),
        None => world.program(Side::Server, "python3"),
    };
    let before = counts(world);
    let address = Side::Client.ipv4().to_string();
    let said = program
        .args(["-c", script, &address])
        .output()
        .expect("a client");
    let after = counts(world);
    let counts = Counts {
        asked: after.asked - before.asked,
        opened: after.opened - before.opened,
    };
    (said, counts)
}

/// What the kernel on the other side has counted of SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// They asked for a cookie.
    asked: u64,
    /// They have opened a connection by their cookie.
    opened: u64,
}

fn counts(world: &World) -> Counts {
    let netstat = world
        .program(Side::Client, "cat")
        .arg("/proc/net/netstat")
        .output()
        .expect("netstat");
    let mut rows = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let names = rows.next().expect("names").split_whitespace();
    let values = rows.next().expect("values").split_whitespace();
    let both: Vec<_> = names.zip(values).collect();
    let count = |name| {
        let found = both.iter().find(|(known, _)| *known == name);
        found.expect("a counter").1.parse().expect("a number")
    };
    Counts {
        asked: count("TCPFastOpenCookieReqd"),
        opened: count("TCPFastOpenPassive"),
    }
}

/// Sets Fast Open of the kernel on a side.
fn set_kernel(world: &World, side: Side, value: &str) {
    let set = world.sysctl(side, "net.ipv4.tcp_fastopen", value);
    set.expect("a sysctl");
}

/// The kernel's server, listening.
fn serve(world: &World) -> Process {
    let mut server = world
        .program(Side::Client, "python3")
        .args(["-c", SERVER, &Side::Client.ipv4().to_string()])
        .log(world.scratch().join("server.log"))
        .start()
        .expect("a server");
    let listens = || {
        let address = std::net::SocketAddr::new(Side::Client.ipv4().into(), 7000);
        let connected = world.on(Side::Client, || Ok(std::net::TcpStream::connect(address)?));
        connected.is_ok()
    };
    server.wait_until(STARTING, listens).expect("it listens");
    server
}

#[test]
fn a_program_that_connects_with_data_finds_what_it_finds_on_the_kernel() {
    let test = "a_program_that_connects_with_data_finds_what_it_finds_on_the_kernel";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    for (setting, of_server, of_client, asked, opened) in [
        ("both", "3", "1", [1; 2], 7),
        ("connect", "3", "1", [1; 2], 7),
        // No cookies there, or not asked for here: the ordinary handshake.
        ("connect", "1", "1", [9; 2], 0),
        ("accept", "3", "1", [0, 9], 0),
        // The program asks for nothing that the kernel would not do.
        ("connect", "3", "0", [0; 2], 0),
    ] {
        let case = format!("{setting} {of_server} {of_client}");
        let world = World::new().expect("a private network");
        let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
        set_kernel(&world, Side::Client, of_server);
        set_kernel(&world, Side::Server, of_client);
        let _server = serve(&world);
        if setting == "accept" {
            // What the kernel finds without cookies.
            set_kernel(&world, Side::Client, "1");
        }
        let (on_kernel, with_kernel) = client(&world, None, CLIENT);
        set_kernel(&world, Side::Client, of_server);
        let settings = format!("[tcp]\nfast_open = \"{setting}\"\n");
        let _engine = outboard
            .start_engine_with(&world, &settings)
            .expect("the engine starts");
        let (on_engine, with_engine) = client(&world, Some(&outboard), CLIENT);
        assert_eq!(on_engine, on_kernel, "{case}");
        let expected = asked.map(|asked| Counts { asked, opened });
        assert_eq!([with_engine, with_kernel], expected, "{case}: {on_engine}");
        let counters = outboard.stats().expect("counters");
        assert!(total(&counters, "tcp_active_opens") >= 4.0, "{case}");
    }
}

/// A program that finds on an engine what it finds on the kernel, with so many cookies and connections by one;
/// the engine's counters after it.
fn as_on_the_kernel(program: &str, expected: Counts) -> Vec<Counter> {
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    set_kernel(&world, Side::Client, "3");
    set_kernel(&world, Side::Server, "1");
    let _server = serve(&world);
    let on_kernel = client(&world, None, program);
    let _engine = outboard
        .start_engine_with(&world, "[tcp]\nfast_open = \"connect\"\n")
        .expect("the engine starts");
    let on_engine = client(&world, Some(&outboard), program);
    assert_eq!(on_engine, on_kernel);
    assert_eq!(on_engine.1, expected);
    outboard.stats().expect("counters")
}

#[test]
fn a_send_of_nothing_asks_for_a_cookie_and_brings_it() {
    let test = "a_send_of_nothing_asks_for_a_cookie_and_brings_it";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let (asked, opened) = (1, 2);
    let counters = as_on_the_kernel(OF_NOTHING, Counts { asked, opened });
    assert_eq!(total(&counters, "tcp_active_opens"), 3.0);
    assert_eq!(total(&counters, "tcp_fast_opens_sent"), 0.0, "no data");
}

#[test]
fn a_write_of_nothing_lets_a_syn_go_that_waits_for_one() {
    let test = "a_write_of_nothing_lets_a_syn_go_that_waits_for_one";
    if lab::skip_without(test, &["python3"]) {
        return;
    }
    let (asked, opened) = (1, 6);
    let counters = as_on_the_kernel(WAITS_FOR_GREETING, Counts { asked, opened });
    assert_eq!(total(&counters, "tcp_active_opens"), 7.0);
    // Those without data are none.
    assert_eq!(total(&counters, "tcp_fast_opens_sent"), 1.0);
}
