//! Servers in languages that bring a runtime: python, node, PHP, Java, Rust's tokio and Go.

use super::super::clients::Client;
use super::super::exchange::Protocol;
use super::super::place::{PORT, Place};
use super::super::serving::Reload;
use super::super::subject::{Clients, Subject};
use crate::process::Program;
use anyhow::Result;
use rustix::process::Signal;

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

/// A command with the directory of the files in its environment.
fn with_site(place: &Place, command: Vec<String>) -> Vec<String> {
    let site = format!("SITE={}", place.site.display());
    ["env".to_owned(), site]
        .into_iter()
        .chain(command)
        .collect()
}

fn php_fpm(place: &Place) -> Result<Vec<String>> {
    place.write("echo.php", "<?php readfile('php://input');\n")?;
    let configuration = place.write(
        "fpm.conf",
        &format!(
            "[global]
error_log = {}
daemonize = no
process_control_timeout = 20s
[lab]
user = www-data
group = www-data
listen = 0.0.0.0:{PORT}
listen.backlog = 512
pm = static
pm.max_children = 8
",
            place.path("error.log")
        ),
    )?;
    Ok(place.command(&format!("-F -y {configuration}")))
}

/// What was posted comes back, behind the lines of a head.
const POSTED: Client = Client::of(
    "SCRIPT_FILENAME=$DIR/echo.php REQUEST_METHOD=POST CONTENT_TYPE=application/octet-stream \\
     CONTENT_LENGTH=$(stat -c %s $FILE) cgi-fcgi -bind -connect $HOST:$PORT <$FILE >all
     LC_ALL=C sed '1,/^\r$/d' all",
);

/// A program in Java of one file, which `java` compiles itself.
fn java(place: &Place, name: &str, text: &str) -> Result<Vec<String>> {
    script(place, name, text, &PORT.to_string())
}

const JAVA: Subject = Subject {
    packages: "default-jdk-headless",
    program: "java",
    also: &["javac"],
    clients: Clients::Speak(Protocol::Echo),
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
        name: "python, gunicorn, 4 workers",
        packages: "gunicorn",
        program: "/usr/bin/gunicorn",
        command: |place| {
            place.write("wsgi.py", include_str!("sources/wsgi.py"))?;
            let command = place.command(&format!(
                "-w 4 -b 0.0.0.0:{PORT} --chdir {} wsgi:application",
                place.directory.display()
            ));
            Ok(with_site(place, command))
        },
        reload: Some(Reload::Signal(Signal::HUP)),
        ..Subject::WEB
    },
    Subject {
        name: "python, uvicorn, 4 workers",
        packages: "python3-uvicorn",
        program: "/usr/bin/python3",
        also: &["/usr/lib/python3/dist-packages/uvicorn"],
        command: |place| {
            place.write("asgi.py", include_str!("sources/asgi.py"))?;
            let command = place.command(&format!(
                "-m uvicorn --workers 4 --host 0.0.0.0 --port {PORT} --log-level warning \
                 --app-dir {} asgi:application",
                place.directory.display()
            ));
            Ok(with_site(place, command))
        },
        ..Subject::WEB
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
    Subject {
        name: "php-fpm, 8 children",
        packages: "php-fpm libfcgi-bin",
        program: "/usr/sbin/php-fpm*",
        also: &["cgi-fcgi"],
        command: php_fpm,
        clients: Clients::Run(&POSTED),
        reload: Some(Reload::Signal(Signal::USR2)),
        ..Subject::WEB
    },
    Subject {
        name: "Java, a thread for each",
        command: |place| java(place, "Threads.java", include_str!("sources/Threads.java")),
        ..JAVA
    },
    Subject {
        name: "Java, NIO",
        command: |place| {
            java(
                place,
                "Channels.java",
                include_str!("sources/Channels.java"),
            )
        },
        ..JAVA
    },
    Subject {
        name: "tokio, 4 threads",
        packages: "",
        program: "examples/tokio_echo",
        command: |place| Ok(place.command(&format!("0.0.0.0:{PORT} 4"))),
        clients: Clients::Speak(Protocol::Echo),
        ..Subject::WEB
    },
    Subject {
        name: "Go",
        packages: "golang-go",
        program: "go",
        command: |place| {
            let (text, program) = (place.write("echo.go", ECHO_IN_GO)?, place.path("echo"));
            Program::new(&place.program)
                .args(["build", "-o", &program, &text])
                .env("CGO_ENABLED", "0")
                .env("GO111MODULE", "off")
                .env("GOFLAGS", "")
                .env("GOTOOLCHAIN", "local")
                .env("GOCACHE", place.path("cache"))
                .env("GOPATH", place.path("path"))
                .output()?;
            Ok(vec![program, format!("0.0.0.0:{PORT}")])
        },
        clients: Clients::Speak(Protocol::Echo),
        apart: true,
        ..Subject::WEB
    },
];

const ECHO_IN_GO: &str = include_str!("sources/echo.go");
