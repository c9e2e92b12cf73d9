//! Servers that pass requests on.

use super::super::place::{BEHIND, PORT, Place};
use super::super::serving::Reload;
use super::super::subject::Subject;
use super::web::{NGINX, Nginx};
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
        name: "HAProxy, 4 threads",
        packages: "haproxy",
        program: "haproxy",
        command: |place| haproxy(place, 4, ""),
        reload: Some(Reload::Signal(Signal::USR2)),
        passes_on: true,
        ..Subject::WEB
    },
];
