//! Which programs can be interposed, and which cannot.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use enterable::{Program, executed, look_at};

/// The file that a shell would run for `name`.
pub fn find(name: &OsStr) -> Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| {
            file.metadata()
                .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
        })
        .with_context(|| format!("{}: no such program in PATH", name.to_string_lossy()))
}

/// Refuses a program whose calls would not pass through the interposer.
pub fn check(path: &Path) -> Result<()> {
    let path = executed(path).with_context(|| format!("cannot open {}", path.display()))?;
    match cannot_be_interposed(&path)? {
        None => Ok(()),
        Some(why) => bail!("cannot run {} on the engine: {why}", path.display()),
    }
}

/// Why the calls of the program in this file would not pass through the interposer, if they would not.
pub fn cannot_be_interposed(path: &Path) -> Result<Option<&'static str>> {
    Ok(privileged(path)?.or(not_interposable(path)?))
}

/// The loader ignores LD_PRELOAD for programs that run with more rights than their caller.
fn privileged(path: &Path) -> Result<Option<&'static str>> {
    let mode = path.metadata()?.permissions().mode();
    let mut capabilities = [0u8; 64];
    Ok(if mode & 0o6000 != 0 {
        Some("it is setuid or setgid, and the loader interposes nothing there")
    } else if rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok() {
        Some("it has file capabilities, and the loader interposes nothing there")
    } else {
        None
    })
}

fn not_interposable(path: &Path) -> Result<Option<&'static str>> {
    match look_at(path).with_context(|| format!("cannot read {}", path.display()))? {
        Program::Enterable => Ok(None),
        Program::Apart(why) => Ok(Some(why)),
        Program::Unknown => {
            let name = path.display();
            bail!(
                "{name} is no program, and no script whose first line names an interpreter (#!/bin/sh); \
                 if it is a script, name that: outboard run -- sh {name}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_dynamic_programs_and_scripts() {
        check(Path::new("/bin/sh")).expect("the shell is dynamically linked");
        let this = std::env::current_exe().expect("a test has an executable");
        check(&this).expect("a test is dynamically linked");
    }

    #[test]
    fn refuses_setuid() {
        let refused = check(Path::new("/bin/su"))
            .expect_err("su is setuid")
            .to_string();
        assert!(refused.contains("setuid"), "{refused}");
    }
}
