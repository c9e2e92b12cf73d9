//! Programs whose calls nothing can take the place of: that must be said, not passed over.

use super::exchange::LIMIT;
use crate::outboard::Outboard;
use crate::process::Program;
use crate::world::World;
use anyhow::{Context, Result, ensure};

/// Becomes the program that is given as its arguments: a wrapper, as people have them.
const WRAPPER: [&str; 3] = ["sh", "-c", r#"exec "$0" "$@""#];

/// The command behind a wrapper, by which it runs nevertheless, on the kernel.
pub fn wrapped(command: &[String]) -> Vec<String> {
    let wrapper = WRAPPER.iter().map(|&word| word.to_owned());
    wrapper.chain(command.iter().cloned()).collect()
}

/// Whether it is told apart: refused, where it is started by `outboard run`; not executed by a wrapper that
/// was started with --strict; and explained, as `explained` has it, where it runs behind a wrapper.
///
/// # Errors
/// It is not.
pub fn told(
    outboard: &Outboard,
    world: &World,
    command: &[String],
    explained: &str,
) -> Result<String> {
    let run = outboard.command(world, "run");
    let said = refused(&run.clone().arg("--").args(command), world).context("outboard run")?;
    ensure!(said.contains("on the engine"), "outboard run says: {said}");
    let strict = run.args(["--strict", "--"]).args(wrapped(command));
    refused(&strict, world).context("outboard run --strict behind a wrapper")?;
    ensure!(
        explained.contains("executed without the library"),
        "outboard explain says: {explained}"
    );
    Ok("told apart".into())
}

/// What a command says that has to fail.
fn refused(command: &Program, world: &World) -> Result<String> {
    let mut process = command
        .clone()
        .log(world.scratch().join("apart.log"))
        .start()?;
    let status = process.wait(LIMIT)?;
    ensure!(!status.success(), "it is not refused");
    Ok(process.printed().trim().to_owned())
}
