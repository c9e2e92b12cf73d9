//! Users share the engine's table of connections: who fills it leaves new ones to the kernel, and root and
//! others find room.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::outboard::{Outboard, total};
use lab::{Program, Side, World};

const LIMIT: Duration = Duration::from_secs(60);
const NOBODY: &str = "65534";
/// Places for connections, of which 64 are root's.
const PLACES: usize = 512;
/// More than one user may have, by some that the kernel serves.
const CLIENTS: usize = 480;

/// Programs that everybody may run, and that are gone in the end.
struct Copied(PathBuf);

impl Copied {
    fn of(built: &Path) -> Self {
        let name = format!("outboard-of-users-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a directory");
        let copied = Self(directory);
        for name in ["outboard", "liboutboard_preload.so"] {
            lab::tool::copy_program(&built.join(name), &copied.0.join(name)).expect("a copy");
        }
        copied
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Bench {
    world: World,
    outboard: Outboard,
    programs: Copied,
}

impl Bench {
    /// A command of nobody's, on the server's side.
    fn of_nobody(&self, words: &[&str]) -> Program {
        let program = self.world.program(Side::Server, "setpriv").args([
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
        ]);
        program
            .arg(self.programs.0.join("outboard"))
            .args(words)
            .env("OUTBOARD_SOCKET", self.outboard.socket())
    }

    fn explained(&self, pid: u32) -> String {
        let explain = self.outboard.command(&self.world, "explain");
        explain.arg(pid.to_string()).output().expect("explained")
    }

    /// Open connections that the engine has.
    fn ours(&self) -> usize {
        let rows = self.outboard.sockets().expect("sockets");
        let open = |row: &&serde_json::Value| row["state"] == "ESTABLISHED";
        rows.iter().filter(open).count()
    }

    fn stat(&self, label: &str) -> f64 {
        let stats = self.outboard.stats().unwrap_or_default();
        let of = |c: &&lab::outboard::Counter| c.name == "dropped" && c.labels == [label];
        stats.iter().find(of).map_or(0.0, |c| c.value)
    }
}

/// Asks for a page and hears the beginning of the answer.
fn ask(client: &mut TcpStream) {
    client.set_read_timeout(Some(LIMIT)).expect("a socket");
    let request = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n";
    client.write_all(request).expect("sent");
    let mut begin = [0; 12];
    client.read_exact(&mut begin).expect("answered");
    assert_eq!(&begin, b"HTTP/1.1 200");
}

#[test]
fn who_fills_the_table_leaves_new_connections_to_the_kernel() {
    let test = "who_fills_the_table_leaves_new_connections_to_the_kernel";
    if lab::skip_without(test, &["setpriv", "python3"]) {
        return;
    }
    let Some(built) = lab::built_beside(test, env!("CARGO_BIN_EXE_outboard")) else {
        return;
    };
    let programs = Copied::of(built);
    let world = World::new().expect("a private network");
    let outboard = Outboard::new(Path::new(env!("CARGO_BIN_EXE_outboard")), &world);
    let bench = Bench {
        world,
        outboard,
        programs,
    };
    let limits = format!("[limits]\nconnections = {PLACES}\n");
    let engine = bench.outboard.start_engine_with(&bench.world, &limits);
    let mut engine = engine.expect("an engine");
    let site = bench.world.scratch().join("site");
    std::fs::create_dir(&site).expect("a directory");
    std::fs::write(site.join("page"), "here").expect("a page");
    let at = |port: u16| SocketAddr::from((Side::Server.ipv4(), port));
    let (site_name, address) = (site.display().to_string(), at(8080).to_string());
    let serve = bench.of_nobody(&["serve", &site_name, "-L", &address]);
    let log = bench.world.scratch().join("serve.log");
    let mut server = serve.log(log).start().expect("started");
    let taken = server.wait_until(LIMIT, || bench.outboard.takes(8080));
    taken.unwrap_or_else(|error| panic!("{error:#}\n{}", server.printed()));
    let enough = "its user has as many";

    // Everybody is served, and root's part is left.
    let connect = |port: u16| {
        let connected = || Ok(TcpStream::connect_timeout(&at(port), LIMIT)?);
        let mut client = bench.world.on(Side::Client, connected).expect("served");
        ask(&mut client);
        client
    };
    let clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(8080)).collect();
    let ours = bench.ours();
    assert!((400..CLIENTS).contains(&ours), "{ours}");
    assert_eq!(bench.stat("connections_of_user"), 1.0);
    assert_eq!(total(&bench.outboard.stats().unwrap(), "tcp_failures"), 0.0);
    let explained = bench.explained(server.id());
    assert!(explained.contains(enough), "{explained}");

    // What its user opens is the kernel's, too.
    let bound = || Ok(TcpListener::bind((Side::Client.ipv4(), 0))?);
    let listener = bench.world.on(Side::Client, bound).expect("a port");
    let script = format!(
        "import socket, time\ns = socket.create_connection(('{}', {}))\ntime.sleep(1000)",
        Side::Client.ipv4(),
        listener.local_addr().expect("bound").port()
    );
    let opens = bench.of_nobody(&["run", "--", "python3", "-c", &script]);
    let log = bench.world.scratch().join("opens.log");
    let mut opens = opens.log(log).start().expect("started");
    listener.set_nonblocking(true).expect("a socket");
    let connected = opens.wait_until(LIMIT, || listener.accept().is_ok());
    connected.unwrap_or_else(|error| panic!("{error:#}\n{}", opens.printed()));
    let explained = bench.explained(opens.id());
    assert!(explained.contains(enough), "{explained}");
    assert_eq!(bench.ours(), ours);

    // Root's is the engine's.
    let of_root = bench.outboard.start_serve(&bench.world, &site, at(8081));
    let of_root = of_root.expect("a server");
    let _client = connect(8081);
    assert_eq!(bench.ours(), ours + 1);
    drop(of_root);

    // When the others end, new ones are the engine's again.
    drop(clients);
    let again = engine.wait_until(LIMIT, || !bench.explained(server.id()).contains(enough));
    again.unwrap_or_else(|error| panic!("{error:#}\n{}", bench.explained(server.id())));
    let before = total(&bench.outboard.stats().unwrap(), "tcp_passive_opens");
    let _client = connect(8080);
    let after = total(&bench.outboard.stats().unwrap(), "tcp_passive_opens");
    assert_eq!(after, before + 1.0);
    assert!(engine.printed().contains("raise limits.connections"));
}
