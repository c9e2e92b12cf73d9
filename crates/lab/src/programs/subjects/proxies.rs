//! Servers that pass requests on.

use super::super::place::{BEHIND, PORT, Place};
use super::super::serving::Reload;
use super::super::subject::Subject;
use super::web::{APACHE, NGINX, Nginx, apache};
use crate::apache::MODULES;
use anyhow::Result;
use rustix::process::Signal;

/// Writes the configuration of a HAProxy, with further lines for all its proxies.
fn haproxy(place: &Place, threads: u32, further: &str) -> Result<Vec<String>> {
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
    {further}
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
    Ok(place.command(&format!("-W -db -f {configuration}")))
}

/// HAProxy with a master: USR2 starts new workers, which take the listening sockets over.
const HAPROXY: Subject = Subject {
    packages: "haproxy",
    program: "haproxy",
    reload: Some(Reload::Signal(Signal::USR2)),
    passes_on: true,
    ..Subject::WEB
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "nginx, proxy",
        command: |place| {
            let nginx = Nginx {
                main: "worker_processes 2;",
                location: &format!("proxy_pass http://{}:{BEHIND};", place.behind),
                ..Nginx::default()
            };
            nginx.command(place)
        },
        passes_on: true,
        ..NGINX
    },
    Subject {
        name: "Apache, event, proxy",
        command: |place| {
            let further = format!(
                "LoadModule proxy_module {MODULES}/mod_proxy.so
LoadModule proxy_http_module {MODULES}/mod_proxy_http.so
ProxyPass / http://{}:{BEHIND}/
",
                place.behind
            );
            apache(place, "event", &further)
        },
        passes_on: true,
        ..APACHE
    },
    Subject {
        name: "HAProxy, 4 threads",
        command: |place| haproxy(place, 4, ""),
        ..HAPROXY
    },
    Subject {
        name: "HAProxy, 4 threads, splice",
        command: |place| {
            haproxy(
                place,
                4,
                "option splice-request\n    option splice-response",
            )
        },
        ..HAPROXY
    },
    Subject {
        name: "varnish",
        packages: "varnish",
        program: "varnishd",
        command: |place| {
            Ok(place.command(&format!(
                "-F -a 0.0.0.0:{PORT} -b {}:{BEHIND} -n {} -s malloc,64m",
                place.behind,
                place.path("varnish")
            )))
        },
        passes_on: true,
        ..Subject::WEB
    },
];
