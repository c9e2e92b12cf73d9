//! The programs: how each is configured, started, told to reload, and spoken to.

use super::exchange::Protocol;
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// The port at which every one of them listens.
pub const PORT: u16 = 8080;
/// The port of the server behind those that pass requests on, at the client's side.
pub const BEHIND: u16 = 8081;

/// A program in one of the ways in which people run it.
pub struct Subject {
    /// As the table calls it.
    pub name: &'static str,
    /// The Debian package that brings it.
    pub package: &'static str,
    /// Its executable, looked for in PATH and where administrators' tools are.
    pub program: &'static str,
    /// Writes its configuration, and returns its arguments.
    pub arguments: fn(&Place) -> std::io::Result<Vec<String>>,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// The signal by which it takes a new configuration while it serves.
    pub reload: Option<Signal>,
    /// Whether it passes on to [`BEHIND`].
    pub passes_on: bool,
    /// The most bytes that it takes or gives at once, if fewer than the large file has.
    pub most: Option<usize>,
}

/// Where a program finds what it needs.
pub struct Place {
    /// A directory of its own.
    pub directory: PathBuf,
    /// The files to serve.
    pub site: PathBuf,
    /// The address of the server behind.
    pub behind: String,
}

impl Place {
    fn write(&self, name: &str, text: &str) -> std::io::Result<String> {
        let path = self.directory.join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// nginx, with lines of its own for the beginning, the events, the listening and the location.
fn nginx(
    place: &Place,
    main: &str,
    events: &str,
    listen: &str,
    location: &str,
) -> std::io::Result<Vec<String>> {
    let (directory, site) = (place.directory.display(), place.site.display());
    let configuration = place.write(
        "nginx.conf",
        &format!(
            "daemon off; user root; pid {directory}/nginx.pid; {main}
error_log {directory}/error.log;
events {{ worker_connections 1000; {events} }}
http {{ access_log off; sendfile on;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{ listen {PORT} {listen}; listen [::]:{PORT} ipv6only=on {listen}; root {site};
        location / {{ {location} }} }} }}
"
        ),
    )?;
    Ok(vec![
        "-e".into(),
        place.path("error.log"),
        "-p".into(),
        place.path(""),
        "-c".into(),
        configuration,
    ])
}

fn apache(place: &Place, mpm: &str) -> std::io::Result<Vec<String>> {
    let (directory, site) = (place.directory.display(), place.site.display());
    let modules = "/usr/lib/apache2/modules";
    let configuration = place.write(
        "apache.conf",
        &format!(
            "ServerRoot {directory}
ServerName lab
PidFile {directory}/apache.pid
DefaultRuntimeDir {directory}
ErrorLog {directory}/error.log
LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
Listen {PORT}
User www-data
Group www-data
DocumentRoot {site}
<Directory {site}>
Require all granted
</Directory>
"
        ),
    )?;
    Ok(vec![
        "-D".into(),
        "FOREGROUND".into(),
        "-f".into(),
        configuration,
    ])
}

fn haproxy(place: &Place, threads: u32) -> std::io::Result<Vec<String>> {
    let configuration = place.write(
        "haproxy.cfg",
        &format!(
            "global
    nbthread {threads}
    stats socket {directory}/stats level admin expose-fd listeners
defaults
    mode http
    timeout connect 20s
    timeout client 60s
    timeout server 60s
frontend in
    bind :{PORT}
    default_backend behind
backend behind
    server one {behind}:{BEHIND}
",
            directory = place.directory.display(),
            behind = place.behind,
        ),
    )?;
    Ok(vec!["-W".into(), "-db".into(), "-f".into(), configuration])
}

fn redis(place: &Place, further: &str) -> std::io::Result<Vec<String>> {
    Ok(words(&format!(
        "--port {PORT} --bind 0.0.0.0 --protected-mode no --save 1 1 --dir {} {further}",
        place.directory.display()
    )))
}

const ASYNCIO: &str = "
import asyncio, sys
async def serve(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(serve, '0.0.0.0', int(sys.argv[1]), backlog=512)
    await server.serve_forever()
asyncio.run(main())
";

const FORKING: &str = "
import socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(65536):
            self.request.sendall(data)
class Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    request_queue_size = 512
    max_children = 400
Server(('0.0.0.0', int(sys.argv[1])), Echo).serve_forever()
";

const NODE: &str = "
const [port, site, workers] = process.argv.slice(2);
const cluster = require('cluster'), http = require('http'), fs = require('fs');
if (cluster.isPrimary && workers > 0) {
    for (let i = 0; i < workers; i++) cluster.fork();
    process.on('SIGTERM', () => { for (const id in cluster.workers) cluster.workers[id].kill(); process.exit(0); });
} else {
    http.createServer((request, response) => {
        const file = site + '/' + request.url.slice(1);
        response.setHeader('Content-Length', fs.statSync(file).size);
        fs.createReadStream(file).pipe(response);
    }).listen({ port: Number(port), host: '0.0.0.0', backlog: 512 });
}
";

fn node(place: &Place, workers: u32) -> std::io::Result<Vec<String>> {
    let script = place.write("server.js", NODE)?;
    let site = place.site.display().to_string();
    Ok(vec![script, PORT.to_string(), site, workers.to_string()])
}

/// All of them.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "nginx, 1 worker",
        package: "nginx-light",
        program: "nginx",
        arguments: |place| nginx(place, "worker_processes 1;", "", "", ""),
        protocol: Protocol::Http,
        reload: Some(Signal::HUP),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "nginx, 4 workers",
        package: "nginx-light",
        program: "nginx",
        arguments: |place| nginx(place, "worker_processes 4;", "", "", ""),
        protocol: Protocol::Http,
        reload: Some(Signal::HUP),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "nginx, 4 workers, reuseport",
        package: "nginx-light",
        program: "nginx",
        arguments: |place| nginx(place, "worker_processes 4;", "", "reuseport", ""),
        protocol: Protocol::Http,
        reload: Some(Signal::HUP),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "nginx, 4 workers, accept_mutex",
        package: "nginx-light",
        program: "nginx",
        arguments: |place| nginx(place, "worker_processes 4;", "accept_mutex on;", "", ""),
        protocol: Protocol::Http,
        reload: Some(Signal::HUP),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "nginx, proxy",
        package: "nginx-light",
        program: "nginx",
        arguments: |place| {
            let location = format!("proxy_pass http://{}:{BEHIND};", place.behind);
            nginx(place, "worker_processes 2;", "", "", &location)
        },
        protocol: Protocol::Http,
        reload: Some(Signal::HUP),
        passes_on: true,
        most: None,
    },
    Subject {
        name: "Apache, prefork",
        package: "apache2",
        program: "apache2",
        arguments: |place| apache(place, "prefork"),
        protocol: Protocol::Http,
        reload: Some(Signal::USR1),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "Apache, worker",
        package: "apache2",
        program: "apache2",
        arguments: |place| apache(place, "worker"),
        protocol: Protocol::Http,
        reload: Some(Signal::USR1),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "Apache, event",
        package: "apache2",
        program: "apache2",
        arguments: |place| apache(place, "event"),
        protocol: Protocol::Http,
        reload: Some(Signal::USR1),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "HAProxy, 4 threads",
        package: "haproxy",
        program: "haproxy",
        arguments: |place| haproxy(place, 4),
        protocol: Protocol::Http,
        reload: Some(Signal::USR2),
        passes_on: true,
        most: None,
    },
    Subject {
        name: "lighttpd",
        package: "lighttpd",
        program: "lighttpd",
        arguments: |place| {
            let text = format!(
                "server.document-root = \"{}\"\nserver.port = {PORT}\n",
                place.site.display()
            );
            let configuration = place.write("lighttpd.conf", &text)?;
            Ok(vec!["-D".into(), "-f".into(), configuration])
        },
        protocol: Protocol::Http,
        reload: Some(Signal::USR1),
        passes_on: false,
        most: None,
    },
    Subject {
        name: "redis",
        package: "redis-server",
        program: "redis-server",
        arguments: |place| redis(place, ""),
        protocol: Protocol::Redis,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "redis, 4 I/O threads, saving",
        package: "redis-server",
        program: "redis-server",
        arguments: |place| redis(place, "--io-threads 4 --io-threads-do-reads yes"),
        protocol: Protocol::Redis,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "memcached, 4 threads",
        package: "memcached",
        program: "memcached",
        arguments: |_| Ok(words(&format!("-u root -p {PORT} -U 0 -t 4 -l 0.0.0.0"))),
        protocol: Protocol::Memcached,
        reload: None,
        passes_on: false,
        most: Some(500_000),
    },
    Subject {
        name: "socat, fork",
        package: "socat",
        program: "socat",
        arguments: |_| {
            let listen = format!("TCP4-LISTEN:{PORT},fork,reuseaddr,backlog=512");
            Ok(vec![listen, "EXEC:cat".into()])
        },
        protocol: Protocol::Echo,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "socat, fork, a program in its place",
        package: "socat",
        program: "socat",
        arguments: |_| {
            let listen = format!("TCP4-LISTEN:{PORT},fork,reuseaddr,backlog=512");
            Ok(vec![listen, "EXEC:cat,nofork".into()])
        },
        protocol: Protocol::Echo,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "python, http.server",
        package: "python3",
        program: "/usr/bin/python3",
        arguments: |place| {
            let site = place.site.display();
            Ok(words(&format!("-m http.server {PORT} --directory {site}")))
        },
        protocol: Protocol::Http,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "python, asyncio",
        package: "python3",
        program: "/usr/bin/python3",
        arguments: |_| Ok(vec!["-c".into(), ASYNCIO.into(), PORT.to_string()]),
        protocol: Protocol::Echo,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "python, ForkingTCPServer",
        package: "python3",
        program: "/usr/bin/python3",
        arguments: |_| Ok(vec!["-c".into(), FORKING.into(), PORT.to_string()]),
        protocol: Protocol::Echo,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "node, http",
        package: "nodejs",
        program: "node",
        arguments: |place| node(place, 0),
        protocol: Protocol::Http,
        reload: None,
        passes_on: false,
        most: None,
    },
    Subject {
        name: "node, cluster of 4",
        package: "nodejs",
        program: "node",
        arguments: |place| node(place, 4),
        protocol: Protocol::Http,
        reload: None,
        passes_on: false,
        most: None,
    },
];

/// The subjects whose names contain one of these words; all, without any.
pub fn chosen(words: &[String]) -> Vec<&'static Subject> {
    let has = |subject: &&Subject| {
        words.is_empty()
            || words
                .iter()
                .any(|word| subject.name.to_lowercase().contains(&word.to_lowercase()))
    };
    SUBJECTS.iter().filter(has).collect()
}

/// The executable, if it is installed.
pub fn executable(subject: &Subject) -> Option<PathBuf> {
    if subject.program.starts_with('/') {
        return Some(Path::new(subject.program))
            .filter(|path| path.exists())
            .map(Path::to_owned);
    }
    crate::tool::find(subject.program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_tell_them_apart() {
        let names: BTreeSet<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
        assert_eq!(names.len(), SUBJECTS.len());
        assert_eq!(chosen(&["APACHE".into()]).len(), 3);
        assert_eq!(chosen(&[]).len(), SUBJECTS.len());
    }
}
