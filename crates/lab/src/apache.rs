//! An unmodified Apache on the kernel's TCP.

use crate::experiment::left_out::LeftOut;
use crate::process::Process;
use crate::tool;
use crate::world::{Side, World};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// How long it may take to be ready, on however busy a machine.
const STARTING: Duration = Duration::from_secs(60);
/// The program.
pub const PROGRAM: &str = "apache2";
/// What a report calls it, as a subject of an experiment.
pub const SUBJECT: &str = "Apache on the kernel";
/// How one comes by it.
pub const BROUGHT_BY: &str = "apt-get install apache2";
/// Where Debian has its modules.
pub const MODULES: &str = "/usr/lib/apache2/modules";

/// What is left out of an experiment that would have it, as this: nothing, where it is there.
pub fn left_out(is_there: bool, what: &str) -> Vec<LeftOut> {
    let missing = (!is_there).then(|| LeftOut {
        axis: "subject".into(),
        name: SUBJECT.into(),
        why: format!("{what}, {PROGRAM}, is not installed ({BROUGHT_BY})"),
    });
    missing.into_iter().collect()
}

/// Its configuration, with this model of processes, and with further lines. What it writes is in `directory`.
pub fn configuration(directory: &Path, site: &Path, port: u16, mpm: &str, further: &str) -> String {
    let (directory, site) = (directory.display(), site.display());
    format!(
        "ServerRoot {directory}
ServerName lab
PidFile {directory}/apache.pid
DefaultRuntimeDir {directory}
ErrorLog {directory}/error.log
LoadModule mpm_{mpm}_module {MODULES}/mod_mpm_{mpm}.so
LoadModule authz_core_module {MODULES}/mod_authz_core.so
Listen {port}
User www-data
Group www-data
DocumentRoot {site}
<Directory {site}>
Require all granted
</Directory>
{further}"
    )
}

/// Starts one for the files in `site` on the server's side of `world`, on this core.
///
/// # Errors
/// It is not installed, or does not start.
pub fn start(world: &World, site: &Path, port: u16, core: usize) -> Result<Process> {
    let program = tool::find(PROGRAM);
    let program = program.with_context(|| format!("{PROGRAM} is not installed: {BROUGHT_BY}"))?;
    // It gives its rights away, and reads the files as somebody else.
    world.open_scratch()?;
    let directory = world.scratch().join("apache");
    std::fs::create_dir_all(&directory)?;
    let file = directory.join("apache.conf");
    std::fs::write(&file, configuration(&directory, site, port, "event", ""))?;
    let mut process = world
        .program(Side::Server, program)
        .args(["-D", "FOREGROUND", "-f"])
        .arg(file)
        .on_core(core)
        .log(directory.join("output.log"))
        .start()?;
    let address = SocketAddr::from((Side::Server.ipv4(), port));
    process.wait_until(STARTING, || world.is_reached(address))?;
    Ok(process)
}
