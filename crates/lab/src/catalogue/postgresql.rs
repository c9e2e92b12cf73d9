//! PostgreSQL behind nginx, which asks it itself, in Lua over a local socket: what stands in nginx's configuration,
//! and a database with something in it.

use super::bed::SERVER_CORE;
use crate::postgres::{self, PSQL, SERVER};
use crate::process::{Process, Program};
use crate::programs::find;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A part of its socket's name; nobody listens at such a port.
const PORT: u16 = 5_432;
/// Connections that nginx has to it, at most: it has a process for each.
const CONNECTIONS: usize = 16;
/// Rows, one of which is asked for.
const ROWS: usize = 256;
/// Nothing takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What is not installed of what it needs.
pub fn missing() -> Option<String> {
    let missing = [SERVER, PSQL].into_iter().find(|name| find(name).is_none());
    missing.map(|name| format!("{name} is not installed (apt-get install postgresql)"))
}

/// Where its socket is: into a directory with a database nobody else may look.
fn directory(world: &World) -> PathBuf {
    world.scratch().join("postgresql")
}

/// Starts one whose rows have so many bytes.
///
/// # Errors
/// It is not installed, or cannot be started.
pub fn start(world: &World, size: usize) -> Result<Process> {
    let program = find(SERVER).context("PostgreSQL is not installed")?;
    let sockets = directory(world);
    world.open_scratch()?;
    let shown = sockets.display();
    tool::run(&format!(
        "install -d -o postgres -g postgres -m 755 {shown}"
    ))?;
    let data = world.scratch().join("postgresql-data");
    let command = postgres::prepare(&program, &data, PORT)?;
    let mut words = command.iter();
    let first = words.next().context("no command")?;
    let mut server = world
        .program(Side::Server, first)
        .args(words)
        // The last word counts.
        .args(["-c", &format!("unix_socket_directories={shown}")])
        .args(["-c", "listen_addresses=", "-c", "autovacuum=off"])
        .on_core(SERVER_CORE)
        .log(world.scratch().join("postgresql.log"))
        // Killed at once, it would leave a piece of shared memory behind.
        .ends_by(Signal::INT)
        .start()?;
    let ask = |text: &str| asks(world, &sockets, text);
    let up = ask("select 1")?;
    server.wait_until(LIMIT, || up.output().is_ok())?;
    // Rows as they are, and not compressed: that would take time of its own.
    let fill = format!(
        "create table pages (id int primary key, body text);
         alter table pages alter body set storage external;
         insert into pages select id, repeat('x', {size}) from generate_series(1, {ROWS}) id;
         analyze pages"
    );
    ask(&fill)?.output()?;
    Ok(server)
}

/// Its own client, told to say this.
fn asks(world: &World, sockets: &Path, text: &str) -> Result<Program> {
    let client = find(PSQL).context("psql is not installed")?;
    let client = world.program(Side::Server, client).arg("-h").arg(sockets);
    let port = PORT.to_string();
    Ok(client
        .args(["-p", &port, "-U", "postgres", "-d", "postgres", "-qAtX"])
        .args(["-v", "ON_ERROR_STOP=1", "-c", text]))
}

/// How nginx asks for a row, by PostgreSQL's protocol (version 3.0) in its simple form: a function in Lua.
pub fn function(world: &World) -> String {
    let socket = directory(world).join(format!(".s.PGSQL.{PORT}"));
    format!(
        "
        local function message(kind, text)
            local length = #text + 4
            return kind .. string.char(0, 0, math.floor(length / 256), length % 256) .. text
        end
        local function read(there)
            local head = there:receive(5)
            if not head then return nil end
            local a, b, c, d = head:byte(2, 5)
            local length = ((a * 256 + b) * 256 + c) * 256 + d - 4
            local text = \"\"
            if length > 0 then text = there:receive(length) end
            return text and head:sub(1, 1), text
        end
        local begins = message(\"\", \"\\0\\3\\0\\0user\\0postgres\\0database\\0postgres\\0\\0\")
        function row(id)
            local there = ngx.socket.tcp()
            there:settimeout(60000)
            local limits = {{ pool_size = {CONNECTIONS}, backlog = 1024 }}
            if not there:connect(\"unix:{socket}\", limits) then return nil end
            local asks = message(\"Q\", \"select body from pages where id = \" .. id .. \"\\0\")
            local expected = 1
            if there:getreusedtimes() == 0 then
                asks, expected = begins .. asks, 2
            end
            there:send(asks)
            local value
            -- It is ready for the first time when it knows who asks.
            while expected > 0 do
                local kind, text = read(there)
                if not kind or kind == \"E\" then
                    there:close()
                    return nil
                end
                if kind == \"D\" then value = text:sub(7) end
                if kind == \"Z\" then expected = expected - 1 end
            end
            there:setkeepalive(3600000, {CONNECTIONS})
            return value
        end
",
        socket = socket.display()
    )
}

/// Where nginx serves it.
pub fn place(path: &str) -> String {
    format!(
        "        location = {path} {{ content_by_lua_block {{
            local value = row(math.random(1, {ROWS}))
            if not value then ngx.exit(502) end
            ngx.header.content_length = #value
            ngx.print(value)
        }} }}
"
    )
}
