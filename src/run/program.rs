//! Which programs can be interposed, and which cannot.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

type Header = elf::FileHeader64<object::Endianness>;

/// Interpreters in a row that are followed from one script to the next, as the kernel does.
const MOST_SCRIPTS: usize = 4;

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
    let mut path = path.to_path_buf();
    for _ in 0..MOST_SCRIPTS {
        match interpreter_of_script(&path)? {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    match cannot_be_interposed(&path)? {
        None => Ok(()),
        Some(why) => bail!("cannot run {} on the engine: {why}", path.display()),
    }
}

/// Why the calls of the program in this file would not pass through the interposer, if they would not.
pub fn cannot_be_interposed(path: &Path) -> Result<Option<&'static str>> {
    Ok(privileged(path)?.or(not_interposable(path)?))
}

fn interpreter_of_script(path: &Path) -> Result<Option<PathBuf>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut line = Vec::new();
    BufReader::new(file.take(256))
        .read_until(b'\n', &mut line)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let Some(rest) = line.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let interpreter = rest
        .trim_ascii()
        .split(|byte| byte.is_ascii_whitespace())
        .next();
    Ok(interpreter.map(|name| PathBuf::from(OsStr::from_bytes(name))))
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
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    if !bytes.starts_with(b"\x7fELF") {
        let name = path.display();
        bail!(
            "{name} is no program, and no script whose first line names an interpreter (#!/bin/sh); \
             if it is a script, name that: outboard run -- sh {name}"
        );
    }
    why_not(&bytes)
        .with_context(|| format!("{} is no program that can be run here", path.display()))
}

/// What in an ELF file makes interposing impossible.
fn why_not(bytes: &[u8]) -> Result<Option<&'static str>> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    for section in sections.iter() {
        let name = sections.section_name(endian, section).unwrap_or_default();
        if matches!(name, b".go.buildinfo" | b".note.go.buildid") && section.sh_size(endian) > 0 {
            return Ok(Some(
                "it is a Go program, which makes its system calls without libc",
            ));
        }
    }
    let mut interpreter = None;
    for segment in header.program_headers(endian, bytes)? {
        if let Some(name) = segment.interpreter(endian, bytes)? {
            interpreter = Some(name);
        }
    }
    Ok(match interpreter {
        None => Some("it is statically linked, so there is no libc to take the place of"),
        Some(name) if name.windows(4).any(|window| window == b"musl") => {
            Some("it is linked with musl, and the interposer with glibc")
        }
        Some(_) => None,
    })
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
    fn refuses_what_is_static() {
        // The test program itself, without the segment that names its loader.
        let this = std::env::current_exe().expect("a test has an executable");
        let mut bytes = std::fs::read(this).expect("and can read it");
        let header = Header::parse(&*bytes).expect("it is ELF");
        let endian = header.endian().expect("of a known order");
        let segments = header
            .program_headers(endian, &*bytes)
            .expect("with segments");
        let at = segments
            .iter()
            .position(|segment| segment.p_type(endian) == elf::PT_INTERP)
            .expect("one names the loader");
        let offset = header.e_phoff(endian) as usize
            + at * size_of::<elf::ProgramHeader64<object::Endianness>>();
        bytes[offset..offset + 4].copy_from_slice(&elf::PT_NULL.to_ne_bytes());
        assert!(
            why_not(&bytes)
                .expect("still ELF")
                .expect("refused")
                .contains("statically")
        );
    }

    #[test]
    fn refuses_go() {
        let Some(go) = ["/usr/local/go/bin/go", "/usr/bin/go"]
            .iter()
            .find(|path| Path::new(path).exists())
        else {
            return;
        };
        let refused = check(Path::new(go))
            .expect_err("a Go program is refused")
            .to_string();
        assert!(refused.contains("Go program"), "{refused}");
    }

    #[test]
    fn refuses_setuid() {
        let refused = check(Path::new("/bin/su"))
            .expect_err("su is setuid")
            .to_string();
        assert!(refused.contains("setuid"), "{refused}");
    }

    #[test]
    fn refuses_what_is_no_program() {
        assert!(why_not(b"hello").is_err());
    }
}
