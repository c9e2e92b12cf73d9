//! Tells of what the interposed library is made: its sources, those of the packages of ours that are in it, and
//! for which profile, optimization and target they are compiled; not by which compiler, and with what else it is told
//! (RUSTFLAGS, Cargo's configuration). Whoever starts programs with a library can so tell whether it is made of the same
//! as itself, also of builds for development, which name no commit.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The library, by the name of its directory.
const LIBRARY: &str = "preload";

fn main() -> io::Result<()> {
    let own = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let crates = own.as_deref().and_then(Path::parent);
    let crates = crates.unwrap_or(Path::new(".."));
    let mut files = BTreeSet::new();
    for part in parts(crates)? {
        files.insert(crates.join(&part).join("Cargo.toml"));
        let sources = crates.join(part).join("src");
        // A file that is new changes only its directory.
        println!("cargo::rerun-if-changed={}", sources.display());
        below(&sources, &mut files)?;
    }
    // Which versions of others' packages, and how all is compiled.
    for name in ["../Cargo.lock", "../Cargo.toml"] {
        files.extend(Some(crates.join(name)).filter(|file| file.is_file()));
    }
    let mut hasher = DefaultHasher::new();
    for name in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        hasher.write(env::var(name).unwrap_or_default().as_bytes());
    }
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(crates).unwrap_or(file);
        let bytes = match fs::read(file) {
            // It has gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        hasher.write(name.as_os_str().as_encoded_bytes());
        hasher.write(&bytes);
    }
    println!(
        "cargo::rustc-env=OUTBOARD_LIBRARY_MADE_OF={:016x}",
        hasher.finish()
    );
    Ok(())
}

/// The packages of ours that are in the library, by the names of their directories.
fn parts(crates: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut left = vec![LIBRARY.to_owned()];
    while let Some(name) = left.pop() {
        let manifest = fs::read_to_string(crates.join(&name).join("Cargo.toml"))?;
        let lines = manifest
            .lines()
            .skip_while(|line| *line != "[dependencies]");
        let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next());
        let ours = names.filter(|name| !name.is_empty() && crates.join(name).is_dir());
        left.extend(ours.filter(|name| !found.contains(*name)).map(String::from));
        found.insert(name);
    }
    Ok(found)
}

/// Adds the sources below a directory. What an editor has beside a file is none.
fn below(directory: &Path, files: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if path.is_dir() {
            below(&path, files)?;
        } else if name.ends_with(b".rs") && !name.starts_with(b".") {
            files.insert(path);
        }
    }
    Ok(())
}
