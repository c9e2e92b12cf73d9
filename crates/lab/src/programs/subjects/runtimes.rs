//! Servers in languages that bring a runtime: python and node.

use super::super::exchange::Protocol;
use super::super::place::{PORT, Place};
use super::super::subject::{Clients, Subject};
use anyhow::Result;

/// A script, and what it is told.
fn script(place: &Place, name: &str, text: &str, arguments: &str) -> Result<Vec<String>> {
    let file = place.write(name, text)?;
    Ok(place.command(&format!("{file} {arguments}")))
}

fn node(place: &Place, workers: u32) -> Result<Vec<String>> {
    let told = format!("{PORT} {} {workers}", place.site.display());
    script(place, "server.js", include_str!("sources/server.js"), &told)
}

const PYTHON: Subject = Subject {
    packages: "python3",
    program: "/usr/bin/python3",
    ..Subject::WEB
};

const NODE: Subject = Subject {
    packages: "nodejs",
    program: "node",
    ..Subject::WEB
};

/// The subjects of this family.
pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "python, http.server",
        command: |place| {
            let site = place.site.display();
            Ok(place.command(&format!("-m http.server {PORT} --directory {site}")))
        },
        ..PYTHON
    },
    Subject {
        name: "python, asyncio",
        command: |place| {
            let text = include_str!("sources/asyncio_echo.py");
            script(place, "echo.py", text, &PORT.to_string())
        },
        clients: Clients::Speak(Protocol::Echo),
        ..PYTHON
    },
    Subject {
        name: "python, ForkingTCPServer",
        command: |place| {
            let text = include_str!("sources/forking_echo.py");
            script(place, "echo.py", text, &PORT.to_string())
        },
        clients: Clients::Speak(Protocol::Echo),
        ..PYTHON
    },
    Subject {
        name: "node, http",
        command: |place| node(place, 0),
        ..NODE
    },
    Subject {
        name: "node, cluster of 4",
        command: |place| node(place, 4),
        ..NODE
    },
];
