//! Real programs on the engine, unmodified, with real programs on the kernel's TCP at the other end.

mod example;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::outboard::{Outboard, total};
use lab::{Process, Side, World};
use rustix::process::{Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(60);
const BINARY: &str = env!("CARGO_BIN_EXE_outboard");

/// A site with a file of `megabytes` that looks like nothing.
fn site(world: &World, megabytes: usize) -> PathBuf {
    let site = world.scratch().join("site");
    std::fs::create_dir_all(&site).expect("a directory");
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let bytes: Vec<u8> = (0..megabytes << 17)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()
        })
        .collect();
    std::fs::write(site.join("large"), bytes).expect("a file");
    std::fs::write(site.join("index.html"), "small").expect("a file");
    site
}

/// nginx's configuration: one worker and a master, everything in `directory`.
fn configure(world: &World, side: Side, site: &Path, daemon: &str, sendfile: &str) -> PathBuf {
    let directory = world.scratch().join(format!("nginx.{}", side.interface()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let here = directory.display();
    let configuration = format!(
        "user root; worker_processes 1; master_process on; pid {here}/pid; error_log {here}/error.log info;\n\
         daemon {daemon};\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;\n\
         fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;\n\
         sendfile {sendfile};\n\
         server {{ listen {}:80; root {}; }} }}\n",
        side.ipv4(),
        site.display(),
    );
    let file = directory.join("nginx.conf");
    std::fs::write(&file, configuration).expect("a configuration");
    file
}

/// What a client on `side` gets from the kernel's TCP for `url`; the large file is compared.
fn fetch(world: &World, side: Side, url: &str, flags: &[&str]) -> Vec<u8> {
    let out = world
        .scratch()
        .join(format!("fetched.{}", side.interface()));
    world
        .program(side, "curl")
        .args([
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "300",
            "--output",
        ])
        .arg(&out)
        .args(flags)
        .arg(url)
        .output()
        .unwrap_or_else(|error| panic!("{url}: {error:#}"));
    std::fs::read(&out).expect("what was fetched")
}

/// Waits until nginx answers a client of the other side.
fn await_nginx(nginx: &mut Process, world: &World) {
    let address = (Side::Server.ipv4(), 80).into();
    nginx
        .wait_until(LIMIT, || world.is_reached(address))
        .expect("nginx answers");
}

#[test]
fn nginx_serves_and_reloads() {
    if lab::skip_without("nginx_serves_and_reloads", &["nginx", "curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world, 100);
    let large = std::fs::read(site.join("large")).expect("the file");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let configuration = configure(&world, Side::Server, &site, "off", "on");
    let mut nginx = outboard
        .on_engine(&world, "nginx")
        .arg("-c")
        .arg(&configuration)
        .log(world.scratch().join("nginx.log"))
        .start()
        .expect("nginx starts");
    await_nginx(&mut nginx, &world);
    let base = format!("http://{}/", Side::Server.ipv4());

    // Two requests on one connection, and one that closes.
    let twice = fetch(&world, Side::Client, &base, &["--next", "--silent", &base]);
    assert!(twice.starts_with(b"small"));
    assert_eq!(
        fetch(
            &world,
            Side::Client,
            &base,
            &["--header", "Connection: close"]
        ),
        b"small"
    );
    let fetched = fetch(&world, Side::Client, &format!("{base}large"), &[]);
    assert!(
        fetched == large,
        "{} bytes of {}",
        fetched.len(),
        large.len()
    );
    // A client on the same machine is the kernel's.
    let before = total(&outboard.stats().expect("counters"), "handed_over");
    assert!(before >= 3.0, "the engine served: {before}");
    assert_eq!(fetch(&world, Side::Server, &base, &[]), b"small");
    let after = total(&outboard.stats().expect("counters"), "handed_over");
    assert_eq!(before, after, "the local client went through the engine");

    // A new worker, with the old one's connections ended in order.
    nginx.signal(Signal::HUP).expect("reload");
    for _ in 0..20 {
        assert_eq!(fetch(&world, Side::Client, &base, &[]), b"small");
    }
    nginx.signal(Signal::QUIT).expect("quit");
    assert!(nginx.wait(LIMIT).expect("nginx ends").success());
}

#[test]
fn nginx_as_a_daemon_changes_its_binary() {
    if lab::skip_without("nginx_as_a_daemon_changes_its_binary", &["nginx", "curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world, 20);
    let large = std::fs::read(site.join("large")).expect("the file");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    // Without sendfile.
    let configuration = configure(&world, Side::Server, &site, "on", "off");
    let pid_file = configuration.with_file_name("pid");
    let pid = || {
        let pid = std::fs::read_to_string(&pid_file).ok()?;
        rustix::process::Pid::from_raw(pid.trim().parse().ok()?)
    };
    // The process that is started ends, and leaves the daemon behind. It executes itself again by
    // the path that it was started with.
    let nginx = lab::tool::find("nginx").expect("it is installed");
    let start = outboard.on_engine(&world, &nginx);
    let started = start.arg("-c").arg(&configuration).output();
    started.expect("nginx starts");
    let base = format!("http://{}/", Side::Server.ipv4());
    let flags = ["--retry", "20", "--retry-all-errors", "--retry-delay", "1"];
    let serves = || {
        let small = fetch(&world, Side::Client, &base, &flags) == b"small";
        small && fetch(&world, Side::Client, &format!("{base}large"), &[]) == large
    };
    let handed_over = || total(&outboard.stats().expect("counters"), "handed_over");

    let first = serves();
    let by_first = handed_over();
    let old = pid().expect("the daemon's process");
    kill_process(old, Signal::USR2).expect("a new binary is asked for");
    let limit = Instant::now() + LIMIT;
    let new = loop {
        match pid() {
            Some(new) if new != old => break Some(new),
            _ if Instant::now() > limit => break None,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    kill_process(old, Signal::QUIT).expect("the old one is to end");
    let second = new.is_some() && serves();
    let by_second = handed_over() - by_first;
    if let Some(new) = new {
        kill_process(new, Signal::QUIT).expect("the new one is to end");
    }
    assert!(first, "the first served");
    assert!(by_first >= 2.0, "on the engine");
    assert!(second, "the successor served");
    assert!(by_second >= 2.0, "on the engine");
}

#[test]
fn curl_is_a_client() {
    if lab::skip_without("curl_is_a_client", &["nginx", "curl"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let site = site(&world, 20);
    let large = std::fs::read(site.join("large")).expect("the file");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    // The server is on the other side, on the kernel's TCP.
    let configuration = configure(&world, Side::Client, &site, "off", "on");
    let _nginx = world
        .program(Side::Client, "nginx")
        .arg("-c")
        .arg(&configuration)
        .log(world.scratch().join("nginx.log"))
        .start()
        .expect("nginx starts");
    let base = format!("http://{}/", Side::Client.ipv4());
    let out = world.scratch().join("fetched");
    let curl = |url: &str| {
        outboard
            .on_engine(&world, "curl")
            .args(["--silent", "--show-error", "--fail", "--max-time", "300"])
            .args([
                "--retry",
                "20",
                "--retry-connrefused",
                "--retry-delay",
                "1",
                "--output",
            ])
            .arg(&out)
            .arg(url)
            .output()
            .unwrap_or_else(|error| panic!("{url}: {error:#}"));
        std::fs::read(&out).expect("what was fetched")
    };
    assert_eq!(curl(&base), b"small");
    assert!(curl(&format!("{base}large")) == large);
    let counters = outboard.stats().expect("counters");
    assert!(
        total(&counters, "tcp_active_opens") >= 2.0,
        "the engine opened"
    );
}

/// What comes back for `sent` on one connection of the kernel's TCP, from the other side.
fn echoed(world: &World, to: SocketAddr, sent: &[u8]) -> Vec<u8> {
    let connected = world.on(Side::Client, || Ok(TcpStream::connect(to)?));
    let mut stream = connected.expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut reads = stream.try_clone().expect("a second handle");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            stream.write_all(sent).expect("it takes all");
            stream
                .shutdown(std::net::Shutdown::Write)
                .expect("the end of what is sent");
        });
        let mut back = Vec::new();
        reads.read_to_end(&mut back).expect("all comes back");
        back
    })
}

#[test]
fn a_tokio_server_echoes() {
    if lab::skip_without_root("a_tokio_server_echoes") {
        return;
    }
    let example = example::build("tokio_echo");
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let address = SocketAddr::new(Side::Server.ipv4().into(), 7);
    let mut server = outboard
        .on_engine(&world, &example)
        .args([&address.to_string(), "3"])
        .log(world.scratch().join("tokio.log"))
        .start()
        .expect("the server starts");
    server
        .wait_until(LIMIT, || world.is_reached(address) && outboard.takes(7))
        .expect("the server answers");
    let sent: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(echoed(&world, address, &sent) == sent));
        }
    });
    let served = total(&outboard.stats().expect("counters"), "handed_over");
    assert!(served >= 20.0, "on the engine: {served}");
}

#[test]
fn bash_talks_through_its_redirections() {
    if lab::skip_without("bash_talks_through_its_redirections", &["bash"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let address = SocketAddr::new(Side::Client.ipv4().into(), 7);
    let listener = world
        .on(Side::Client, || Ok(TcpListener::bind(address)?))
        .expect("a listener");
    let peer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("bash comes");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        let mut asked = [0; 10];
        stream.read_exact(&mut asked).expect("two lines");
        stream.write_all(b"an answer\n").expect("an answer");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("the end");
        (asked, rest)
    });
    // Printed by stdio within bash, whose standard output is the connection meanwhile.
    let script = format!(
        "exec 3<>/dev/tcp/{}/{}; echo here; echo line >&3; printf '%s\\n' more >&3; \
         read -r said <&3; echo \"$said\"; exec 3>&-; echo over",
        address.ip(),
        address.port()
    );
    let printed = outboard
        .on_engine(&world, "bash")
        .args(["-c", &script])
        .output()
        .expect("bash ends");
    assert_eq!(printed, "here\nan answer\nover\n");
    let (asked, rest) = peer.join().expect("the peer ends");
    assert_eq!(&asked, b"line\nmore\n");
    assert!(rest.is_empty());
    let opened = total(&outboard.stats().expect("counters"), "tcp_active_opens");
    assert!(opened >= 1.0, "on the engine: {opened}");
}

#[test]
fn what_leaves_by_another_interface_is_the_kernels() {
    let name = "what_leaves_by_another_interface_is_the_kernels";
    if lab::skip_without(name, &["curl", "ip"]) {
        return;
    }
    let world = World::new().expect("a private network");
    let ip = |side: Side, words: &str| {
        let command = world.program(side, "ip").args(words.split_whitespace());
        command.output().expect("ip");
    };
    let there = world.name(Side::Client);
    ip(
        Side::Server,
        &format!("link add other type veth peer name other netns {there}"),
    );
    for (side, address) in [
        (Side::Server, "10.99.0.1/24"),
        (Side::Client, "10.99.0.2/24"),
    ] {
        ip(side, &format!("address add {address} dev other"));
        ip(side, "link set other up");
    }
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let address = SocketAddr::from(([10, 99, 0, 2], 8000));
    let listener = world
        .on(Side::Client, || Ok(TcpListener::bind(address)?))
        .expect("a listener");
    let peer = std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().expect("curl comes");
            let mut asked = [0; 4];
            stream.read_exact(&mut asked).expect("a request");
            let answer = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi";
            stream.write_all(answer).expect("an answer");
        }
    });
    let flags = ["--silent", "--show-error", "--max-time", "60"];
    // Bound before, too: to the address of that interface, or to a port.
    for bound in [
        &[][..],
        &["--interface", "10.99.0.1", "--local-port", "5000"],
        &["--interface", "other"],
    ] {
        let curl = outboard.on_engine(&world, "curl").args(flags).args(bound);
        let got = curl.arg(format!("http://{address}/")).output();
        assert_eq!(got.expect("curl ends in order"), "hi");
    }
    peer.join().expect("the peer ends");
    let opened = total(&outboard.stats().expect("counters"), "tcp_active_opens");
    assert_eq!(opened, 0.0, "the engine has opened something");
}

/// Waits until redis has all its listeners.
fn await_redis(redis: &mut Process) {
    let begin = Instant::now();
    while !redis.printed().contains("Ready to accept connections") {
        assert!(redis.ended().expect("a state").is_none() && begin.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn redis_serves_and_is_asked() {
    if lab::skip_without(
        "redis_serves_and_is_asked",
        &["redis-server", "redis-cli", "redis-benchmark"],
    ) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let serve = |program: lab::Program, side: Side| {
        program
            .args(["--bind", &side.ipv4().to_string(), "--protected-mode", "no"])
            .args(["--save", "", "--port", "6379", "--dir"])
            .arg(world.scratch())
            .log(world.scratch().join(format!("redis.{}", side.interface())))
            .start()
            .expect("redis starts")
    };
    let mut here = serve(outboard.on_engine(&world, "redis-server"), Side::Server);
    let mut there = serve(world.program(Side::Client, "redis-server"), Side::Client);
    for redis in [&mut here, &mut there] {
        await_redis(redis);
    }
    let to_here = Side::Server.ipv4().to_string();
    let to_there = Side::Client.ipv4().to_string();

    // A client on the kernel, a server on the engine.
    let ask = |words: &[&str]| {
        let cli = world
            .program(Side::Client, "redis-cli")
            .args(["-h", &to_here])
            .args(words);
        cli.output().expect("redis-cli").trim().to_owned()
    };
    assert_eq!(ask(&["set", "key", "value"]), "OK");
    assert_eq!(ask(&["get", "key"]), "value");
    let many = world
        .program(Side::Client, "redis-benchmark")
        .args([
            "-h",
            &to_here,
            "-q",
            "-n",
            "5000",
            "-c",
            "20",
            "-P",
            "4",
            "-t",
            "set,get,lpush,lrange_100",
        ])
        .output()
        .expect("redis-benchmark");
    assert!(many.contains("requests per second"), "{many}");
    // A save forks while clients are connected.
    assert_eq!(ask(&["bgsave"]), "Background saving started");
    assert_eq!(ask(&["get", "key"]), "value");

    // Clients on the engine, a server on the kernel.
    let ask = |words: &[&str]| {
        let cli = outboard
            .on_engine(&world, "redis-cli")
            .args(["-h", &to_there])
            .args(words);
        cli.output().expect("redis-cli").trim().to_owned()
    };
    assert_eq!(ask(&["set", "key", "other"]), "OK");
    assert_eq!(ask(&["get", "key"]), "other");
    let many = outboard
        .on_engine(&world, "redis-benchmark")
        .args([
            "-h", &to_there, "-q", "-n", "5000", "-c", "20", "-t", "set,get",
        ])
        .output()
        .expect("redis-benchmark");
    assert!(many.contains("requests per second"), "{many}");

    let counters = outboard.stats().expect("counters");
    assert!(total(&counters, "handed_over") >= 20.0, "the engine served");
    assert!(
        total(&counters, "tcp_active_opens") >= 20.0,
        "the engine opened"
    );
}

#[test]
fn what_stays_with_the_kernel_is_said_or_refused() {
    if lab::skip_without(
        "what_stays_with_the_kernel_is_said_or_refused",
        &["redis-server"],
    ) {
        return;
    }
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(BINARY), &world);
    let _engine = outboard
        .start_engine(&world, None)
        .expect("the engine starts");
    let here = Side::Server.ipv4().to_string();
    let redis = ["--protected-mode", "no", "--save", "", "--dir"];

    // One address of the engine's interface, one of this machine alone.
    let mut both = outboard
        .on_engine(&world, "redis-server")
        .args(redis)
        .arg(world.scratch())
        .args(["--port", "6379", "--bind", &here, "127.0.0.1"])
        .log(world.scratch().join("both.log"))
        .start()
        .expect("redis starts");
    await_redis(&mut both);
    let explained = outboard
        .command(&world, "explain")
        .arg(both.id().to_string())
        .output()
        .expect("explained");
    let says = |handler: &str, because: &str| {
        explained.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.nth(1) == Some("listener") && line.contains(handler) && line.ends_with(because)
        })
    };
    assert!(says(" engine ", "credit for 32"), "{explained}");
    let listeners = explained.lines().filter(|line| line.contains("listener"));
    assert_eq!(listeners.count(), 2, "each once: {explained}");
    let because = "its address is not one of the engine's interface";
    assert!(says("kernel", because), "{explained}");

    let strict = outboard
        .command(&world, "run")
        .args(["--strict", "--", "redis-server"])
        .args(redis)
        .arg(world.scratch())
        .args(["--port", "6380", "--bind", "127.0.0.1"])
        .log(world.scratch().join("strict.log"))
        .start();
    let ended = strict.expect("redis starts").wait(LIMIT);
    assert!(!ended.expect("and ends").success(), "it should have failed");
}
