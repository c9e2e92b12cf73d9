//! Sources of Debian's packages, with their tests. They are fetched with lists of our own, so that the
//! machine's lists of packages stay as they are.

use crate::shell;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Signs what Debian's archives offer.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The directory with the source of `package`, which is fetched if it is not below `scratch` yet.
///
/// # Errors
/// There is no such source, or no way to it.
pub fn source(scratch: &Path, package: &str) -> Result<PathBuf> {
    let sources = scratch.join("sources");
    let place = sources.join(package);
    if !place.exists() {
        let apt = Apt::new(&sources)?;
        apt.update()?;
        // What was broken off is not taken for a source.
        let unfinished = sources.join(format!("{package}.unfinished"));
        shell::quiet(Command::new("rm").arg("-rf").arg(&unfinished))?;
        std::fs::create_dir_all(&unfinished)?;
        apt.unpack(&unfinished, package)?;
        std::fs::rename(&unfinished, &place)?;
    }
    let entries = std::fs::read_dir(&place)?.filter_map(Result::ok);
    let tree = entries
        .map(|entry| entry.path())
        .find(|path| path.join("debian").is_dir());
    tree.with_context(|| format!("{} holds no source", place.display()))
}

/// apt with lists of its own.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(sources: &Path) -> Result<Self> {
        let lists = sources.join("lists");
        std::fs::create_dir_all(lists.join("partial"))?;
        let file = sources.join("sources.list");
        std::fs::write(&file, of_sources(&archives()?))?;
        let list = format!("Dir::Etc::sourcelist={}", file.display());
        let lists = format!("Dir::State::lists={}", lists.display());
        let settings = [
            list.as_str(),
            "Dir::Etc::sourceparts=/dev/null",
            lists.as_str(),
            "Dir::Cache::pkgcache=",
            "Dir::Cache::srcpkgcache=",
            "APT::Sandbox::User=root",
        ];
        let options = settings.map(|setting| format!("--option={setting}"));
        Ok(Self {
            options: options.into(),
        })
    }

    fn update(&self) -> Result<()> {
        shell::quiet(Command::new("apt-get").args(&self.options).arg("update"))?;
        Ok(())
    }

    fn unpack(&self, directory: &Path, package: &str) -> Result<()> {
        shell::quiet(
            Command::new("apt-get")
                .current_dir(directory)
                .args(&self.options)
                .args(["--only-source", "source", package]),
        )?;
        Ok(())
    }
}

/// Debian's archives as this machine knows them: a line each, of an address, a suite, and a component.
/// Without that of security's updates: not every mirror of it has sources, and their tests are the same.
fn archives() -> Result<String> {
    let archives = shell::quiet(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
        "Origin: Debian",
        "Label: Debian",
    ]))?;
    if archives.trim().is_empty() {
        bail!("no archive of Debian's is known here: as root, apt-get update");
    }
    Ok(archives)
}

/// What apt is told of where their sources are.
fn of_sources(archives: &str) -> String {
    let lines: BTreeSet<&str> = archives.lines().collect();
    let lines = lines.into_iter();
    lines
        .map(|line| format!("deb-src [signed-by={KEYRING}] {line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_archive_is_asked_once_for_sources() {
        let archives = "http://a.example/ stable main\nhttp://b.example/ stable-updates main\n\
            http://a.example/ stable main\n";
        let expected = format!(
            "deb-src [signed-by={KEYRING}] http://a.example/ stable main\n\
             deb-src [signed-by={KEYRING}] http://b.example/ stable-updates main\n"
        );
        assert_eq!(of_sources(archives), expected);
    }
}
