//! Web servers.

use super::super::clients::Client;
use super::super::place::{PORT, Place};
use super::super::serving::Reload;
use super::super::subject::{Clients, Subject};
use crate::apache::{MODULES, PROGRAM, configuration};
use crate::tool;
use crate::world::Side;
use anyhow::Result;
use rustix::process::Signal;

/// Lines of an nginx's own, by where they belong in its configuration.
#[derive(Default)]
pub struct Nginx<'a> {
    /// Whether it becomes a daemon: only a daemon can be upgraded.
    pub daemon: bool,
    /// At the beginning.
    pub main: &'a str,
    /// Among the events.
    pub events: &'a str,
    /// Behind the address that it listens at.
    pub listen: &'a str,
    /// In the server.
    pub server: &'a str,
    /// In the one location.
    pub location: &'a str,
}

impl Nginx<'_> {
    /// So many workers.
    pub fn workers(main: &str) -> Nginx<'_> {
        Nginx {
            main,
            ..Nginx::default()
        }
    }

    /// Writes the configuration, and returns the command.
    pub fn command(&self, place: &Place) -> Result<Vec<String>> {
        let (directory, site) = (place.directory.display(), place.site.display());
        let daemon = if self.daemon { "on" } else { "off" };
        let Nginx {
            main,
            events,
            listen,
            server,
            location,
            ..
        } = self;
        let configuration = place.write(
            "nginx.conf",
            &format!(
                "daemon {daemon}; user root; pid {directory}/nginx.pid; {main}
error_log {directory}/error.log;
events {{ worker_connections 1000; {events} }}
http {{ access_log off; sendfile on;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{ listen {PORT} {listen}; listen [::]:{PORT} ipv6only=on {listen}; root {site};
        {server} location / {{ {location} }} }} }}
"
            ),
        )?;
        Ok(place.command(&format!(
            "-e {directory}/error.log -p {directory}/ -c {configuration}"
        )))
    }
}

/// An nginx that serves files.
pub const NGINX: Subject = Subject {
    packages: "nginx-light",
    program: "nginx",
    reload: Some(Reload::Signal(Signal::HUP)),
    ..Subject::WEB
};

/// An nginx with TLS, with these words behind the address that it listens at.
fn tls(place: &Place, listen: &str) -> Result<Vec<String>> {
    let (key, certificate) = (place.path("key"), place.path("certificate"));
    let host = Side::Server.ipv4();
    tool::run(&format!(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=lab \
         -addext subjectAltName=IP:{host} -keyout {key} -out {certificate}"
    ))?;
    let nginx = Nginx {
        main: "worker_processes 4;",
        listen,
        server: &format!("ssl_certificate {certificate}; ssl_certificate_key {key};"),
        ..Nginx::default()
    };
    nginx.command(place)
}

const TLS: Subject = Subject {
    packages: "nginx-light openssl curl",
    also: &["openssl", "curl"],
    ..NGINX
};

/// Writes the configuration of an Apache with this model of processes, and with further lines.
pub fn apache(place: &Place, mpm: &str, further: &str) -> Result<Vec<String>> {
    let text = configuration(&place.directory, &place.site, PORT, mpm, further);
    let configuration = place.write("apache.conf", &text)?;
    Ok(place.command(&format!("-D FOREGROUND -f {configuration}")))
}

/// An Apache with a program for each request, which sends back what was posted.
fn cgi(place: &Place, mpm: &str, module: &str) -> Result<Vec<String>> {
    let script = place.script("echo", ECHO)?;
    let directory = place.directory.display();
    let further = format!(
        "LoadModule alias_module {MODULES}/mod_alias.so
LoadModule {module}_module {MODULES}/mod_{module}.so
ScriptAlias /echo {script}
<Directory {directory}>
Require all granted
</Directory>
"
    );
    apache(place, mpm, &further)
}

/// It takes all before it answers: a server may wait until all was taken.
const ECHO: &str = r#"#!/bin/sh
all=$(mktemp)
cat >"$all"
printf 'Content-Type: application/octet-stream\r\n\r\n'
cat "$all"
rm "$all"
"#;

/// An Apache that runs programs.
const CGI: Subject = Subject {
    packages: "apache2 curl",
    also: &["curl"],
    clients: Clients::Run(&Client::of(
        "curl -sS --data-binary @$FILE http://$HOST:$PORT/echo",
    )),
    ..APACHE
};

/// An Apache that serves files.
pub const APACHE: Subject = Subject {
    packages: "apache2",
    program: PROGRAM,
    reload: Some(Reload::Signal(Signal::USR1)),
    ..Subject::WEB
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "nginx, 1 worker",
        command: |place| Nginx::workers("worker_processes 1;").command(place),
        ..NGINX
    },
    Subject {
        name: "nginx, 4 workers",
        command: |place| Nginx::workers("worker_processes 4;").command(place),
        ..NGINX
    },
    Subject {
        name: "nginx, 4 workers, reuseport",
        command: |place| {
            let nginx = Nginx {
                main: "worker_processes 4;",
                listen: "reuseport",
                ..Nginx::default()
            };
            nginx.command(place)
        },
        ..NGINX
    },
    Subject {
        name: "nginx, 4 workers, accept_mutex",
        command: |place| {
            let nginx = Nginx {
                main: "worker_processes 4;",
                events: "accept_mutex on;",
                ..Nginx::default()
            };
            nginx.command(place)
        },
        ..NGINX
    },
    Subject {
        name: "nginx, 4 workers, upgrade",
        command: |place| {
            let nginx = Nginx {
                daemon: true,
                main: "worker_processes 4;",
                ..Nginx::default()
            };
            nginx.command(place)
        },
        reload: Some(Reload::Upgrade("nginx.pid")),
        ..NGINX
    },
    Subject {
        name: "nginx, TLS",
        command: |place| tls(place, "ssl"),
        clients: Clients::Run(&Client::of(
            "curl -sS --cacert $DIR/certificate https://$HOST:$PORT/$NAME",
        )),
        ..TLS
    },
    Subject {
        name: "nginx, TLS and HTTP/2",
        command: |place| tls(place, "ssl http2"),
        clients: Clients::Run(&Client::of(
            "curl -sS --cacert $DIR/certificate -o got -w '%{http_version}' https://$HOST:$PORT/$NAME |
             grep -qx 2
             cat got",
        )),
        ..TLS
    },
    Subject {
        name: "Apache, prefork",
        command: |place| apache(place, "prefork", ""),
        ..APACHE
    },
    Subject {
        name: "Apache, worker",
        command: |place| apache(place, "worker", ""),
        ..APACHE
    },
    Subject {
        name: "Apache, event",
        command: |place| apache(place, "event", ""),
        ..APACHE
    },
    Subject {
        name: "Apache, prefork, CGI",
        command: |place| cgi(place, "prefork", "cgi"),
        ..CGI
    },
    Subject {
        name: "Apache, event, CGI",
        command: |place| cgi(place, "event", "cgid"),
        ..CGI
    },
    Subject {
        name: "lighttpd",
        packages: "lighttpd",
        program: "lighttpd",
        command: |place| {
            let text = format!(
                "server.document-root = \"{}\"\nserver.port = {PORT}\n",
                place.site.display()
            );
            let configuration = place.write("lighttpd.conf", &text)?;
            Ok(place.command(&format!("-D -f {configuration}")))
        },
        reload: Some(Reload::Signal(Signal::USR1)),
        ..Subject::WEB
    },
];
