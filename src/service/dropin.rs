//! The file beside a unit that has its program run on the engine.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Its name: late among those of a unit, so that it goes before what others set.
const FILE: &str = "90-outboard.conf";
/// Its first words, by which it is known.
const MARK: &str = "# Written by `outboard service enable";
const ENGINE: &str = "# Engine: ";

/// What it is to say.
pub struct Wanted<'a> {
    pub service: &'a str,
    pub engine: &'a str,
    pub strict: bool,
    pub library: &'a Path,
    pub needs_unix_sockets: bool,
}

/// What the program has to find in its environment.
pub fn variables(engine: &str, strict: bool, library: &Path) -> [(&'static str, String); 3] {
    [
        ("LD_PRELOAD", library.display().to_string()),
        ("OUTBOARD_SOCKET", format!("/run/outboard/{engine}.sock")),
        ("OUTBOARD_STRICT", u8::from(strict).to_string()),
    ]
}

/// Its text.
pub fn text(wanted: &Wanted<'_>) -> String {
    let Wanted {
        service, engine, ..
    } = wanted;
    let mut text = format!(
        "{MARK} {service}`; `outboard service disable {service}` takes it back.\n{ENGINE}{engine}\n\
         [Unit]\nWants=outboard@{engine}.service\nAfter=outboard@{engine}.service\n\n[Service]\n"
    );
    for (name, value) in variables(engine, wanted.strict, wanted.library) {
        let _ = writeln!(text, "Environment={name}={value}");
    }
    if wanted.needs_unix_sockets {
        let _ = writeln!(
            text,
            "# To talk to the engine.\nRestrictAddressFamilies=AF_UNIX"
        );
    }
    text
}

fn directory(root: &Path, service: &str) -> PathBuf {
    root.join(format!("etc/systemd/system/{service}.service.d"))
}

/// Writes it; where it is.
pub fn write(root: &Path, service: &str, text: &str) -> Result<PathBuf> {
    let directory = directory(root, service);
    let path = directory.join(FILE);
    refuse_foreign(&path)?;
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {} (use sudo)", directory.display()))?;
    lab::whole_file::write(&path, text)
        .with_context(|| format!("cannot write {} (use sudo)", path.display()))?;
    Ok(path)
}

/// Takes it away; where it was.
pub fn remove(root: &Path, service: &str) -> Result<PathBuf> {
    let directory = directory(root, service);
    let path = directory.join(FILE);
    if !path.exists() {
        bail!(
            "{service} was not put on the engine: there is no {}",
            path.display()
        );
    }
    refuse_foreign(&path)?;
    std::fs::remove_file(&path)
        .with_context(|| format!("cannot remove {} (use sudo)", path.display()))?;
    // Others may have files in it: then it stays.
    let _ = std::fs::remove_dir(&directory);
    Ok(path)
}

/// The services that have one, and their engines.
pub fn all(root: &Path) -> Result<Vec<(String, String)>> {
    let units = root.join("etc/systemd/system");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&units).into_iter().flatten() {
        let entry = entry.with_context(|| format!("cannot list {}", units.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(service) = name.strip_suffix(".service.d") else {
            continue;
        };
        let Ok(text) = std::fs::read_to_string(entry.path().join(FILE)) else {
            continue;
        };
        let engine = text.lines().find_map(|line| line.strip_prefix(ENGINE));
        all.push((service.to_owned(), engine.unwrap_or("?").to_owned()));
    }
    all.sort();
    Ok(all)
}

/// Somebody else's file is not ours to change.
fn refuse_foreign(path: &Path) -> Result<()> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.starts_with(MARK) => bail!(
            "{} is not of outboard's making: move it away first",
            path.display()
        ),
        _ => Ok(()),
    }
}
