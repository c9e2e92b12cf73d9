//! Debian's kernels: found, fetched and unpacked with Debian's own tools, and kept.

use crate::shell;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel, unpacked, with a first file system for it.
pub struct Kernel {
    package: String,
    directory: PathBuf,
}

impl Kernel {
    /// The newest of a series, as `6.1`, that the package lists of this machine have.
    pub fn of_series(series: &str, directory: &Path) -> Result<Self> {
        let prefix = format!("linux-image-{series}.");
        let names = shell::quiet(Command::new("apt-cache").args(["pkgnames", &prefix]))?;
        let package = newest(names.lines(), &prefix).context("run apt-get update first")?;
        let kernel = Self {
            package: package.to_owned(),
            directory: directory.join(package),
        };
        if !kernel.image().exists() {
            kernel.fetch()?;
        }
        Ok(kernel)
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        let name = self.package.trim_start_matches("linux-image-");
        name.trim_end_matches("-unsigned")
    }

    /// The kernel itself.
    pub fn bzimage(&self) -> Result<PathBuf> {
        let boot = self.directory.join("boot");
        let entries = std::fs::read_dir(&boot).with_context(|| boot.display().to_string())?;
        let is_kernel = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with("vmlinuz-"))
        };
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.find(is_kernel).context("the package has no kernel")
    }

    /// Its first file system.
    pub fn image(&self) -> PathBuf {
        self.directory.with_extension("image")
    }

    fn fetch(&self) -> Result<()> {
        let into = self.directory.parent().context("a directory")?;
        shell::loud(
            Command::new("apt-get")
                .current_dir(into)
                .args(["download", &self.package]),
        )?;
        let of_package = |path: &PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy());
            name.is_some_and(|name| name.starts_with(&format!("{}_", self.package)))
        };
        let mut files = std::fs::read_dir(into)?.filter_map(|entry| Some(entry.ok()?.path()));
        let archive = files.find(of_package).context("nothing was fetched")?;
        shell::loud(
            Command::new("dpkg-deb")
                .arg("-x")
                .args([&archive, &self.directory]),
        )?;
        std::fs::remove_file(archive)?;
        shell::loud(&mut script(
            include_str!("image.sh"),
            &[&self.directory, &self.image()],
        ))
    }
}

/// The newest plain kernel among package names.
fn newest<'a>(names: impl Iterator<Item = &'a str>, prefix: &str) -> Option<&'a str> {
    let plain = |name: &&str| {
        let middle = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix("-amd64-unsigned"));
        // Not the variants for clouds and for real time.
        middle.is_some_and(|middle| !middle.contains("cloud") && !middle.contains("rt"))
    };
    names.filter(plain).max_by_key(|name| numbers(name))
}

fn numbers(text: &str) -> Vec<u32> {
    let parts = text.split(|c: char| !c.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

/// A shell script of this module, with arguments.
fn script(text: &str, arguments: &[&std::path::Path]) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", text, "script"]).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn the_newest_plain_kernel_is_taken() {
        let names = [
            "linux-image-6.1.0-9-amd64-unsigned",
            "linux-image-6.1.0-47-amd64-unsigned",
            "linux-image-6.1.0-47-amd64",
            "linux-image-6.1.0-50-cloud-amd64-unsigned",
            "linux-image-6.1.0-50-rt-amd64-unsigned",
            "linux-image-6.1.0-50-amd64-dbg",
        ];
        let found = newest(names.into_iter(), "linux-image-6.1.");
        assert_eq!(found, Some("linux-image-6.1.0-47-amd64-unsigned"));
    }
}
