//! Network namespaces by their names.

use anyhow::{Context, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Moves the calling thread into the network namespace that is entered by a file.
pub(crate) fn enter_file(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&file),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )
    .with_context(|| format!("cannot enter {}", path.display()))?;
    Ok(())
}

/// Moves the calling thread into a network namespace by its name. There is no way back: use a
/// thread made for it.
pub fn enter_namespace(name: &str) -> Result<()> {
    enter_file(&namespace_file(name))
}

/// The file by which the namespace `name` is entered.
pub(crate) fn namespace_file(name: &str) -> PathBuf {
    Path::new("/run/netns").join(name)
}
