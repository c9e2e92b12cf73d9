//! The small site that the demo serves, and the hashes of its files.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Small pages: name, and what is in it.
const PAGES: [(&str, &str); 3] = [
    (
        "index.html",
        "<!DOCTYPE html>\n<title>outboard</title>\n<h1>It works</h1>\n\
         <p>The TCP of this page ran in an engine beside the kernel.</p>\n",
    ),
    (
        "about.html",
        "<!DOCTYPE html>\n<title>About</title>\n<p>A page.</p>\n",
    ),
    (
        "logo.svg",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 10 10\"><circle cx=\"5\" cy=\"5\" r=\"4\"/></svg>\n",
    ),
];

/// The large file.
pub const LARGE: &str = "large.bin";
/// Its size: 100 MB.
pub const LARGE_SIZE: usize = 100_000_000;
/// The file of the requests whose cost is measured.
pub const KILOBYTE: &str = "1K.bin";

/// A directory of files with known hashes.
pub struct Site {
    directory: PathBuf,
    hashes: Vec<(String, String)>,
}

impl Site {
    /// Writes the files into a new directory.
    pub fn make(directory: &Path) -> Result<Self> {
        std::fs::create_dir(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        for (name, text) in PAGES {
            std::fs::write(directory.join(name), text)?;
        }
        write_noise(&directory.join(KILOBYTE), 1 << 10)?;
        write_noise(&directory.join(LARGE), LARGE_SIZE)?;
        let names = PAGES.map(|(name, _)| name).into_iter().chain([LARGE]);
        let hashes = names
            .map(|name| Ok((name.to_string(), hash(&directory.join(name))?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            directory: directory.to_owned(),
            hashes,
        })
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The small pages.
    pub fn pages() -> impl Iterator<Item = &'static str> {
        PAGES.iter().map(|(name, _)| *name)
    }

    /// Whether the file at `path` has the content of the site's `name`.
    pub fn is_equal(&self, name: &str, path: &Path) -> Result<bool> {
        let known = self.hashes.iter().find(|(known, _)| known == name);
        let (_, known) = known.with_context(|| format!("{name} is not of the site"))?;
        Ok(hash(path)? == *known)
    }
}

/// Bytes that do not compress and do not repeat, the same at every run.
fn write_noise(path: &Path, size: usize) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut left = size;
    while left > 0 {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let bytes = state.to_le_bytes();
        let length = left.min(bytes.len());
        out.write_all(&bytes[..length])?;
        left -= length;
    }
    out.flush()?;
    Ok(())
}

/// The SHA-256 of a file, as sha256sum prints it.
fn hash(path: &Path) -> Result<String> {
    let mut command = Command::new("sha256sum");
    command.arg(path);
    let printed = ::lab::tool::output(&mut command, "sha256sum")?;
    let hash = printed.split_whitespace().next();
    Ok(hash.context("sha256sum printed nothing")?.to_string())
}
