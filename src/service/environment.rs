//! The environment of a service whose program is not started with that of its unit: Debian's PostgreSQL, whose
//! pg_ctlcluster empties it and reads a file of the cluster's instead.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// What starts clusters.
const STARTER: &str = "pg_ctlcluster";
const BEGIN: &str = "# Begin of what `outboard service enable` wrote; `disable` takes it back.\n";
const END: &str = "# End of what `outboard service enable` wrote.\n";

/// The file that a service's program gets its environment from, if that is not its unit.
pub fn file(root: &Path, service: &str, program: &Path) -> Option<PathBuf> {
    (program.file_name()? == STARTER)
        .then(|| of_cluster(root, service))
        .flatten()
}

/// The file of the cluster that a service is named after, as in `postgresql@15-main`.
fn of_cluster(root: &Path, service: &str) -> Option<PathBuf> {
    let (version, cluster) = service.strip_prefix("postgresql@")?.split_once('-')?;
    let clusters = root.join("etc/postgresql");
    Some(clusters.join(version).join(cluster).join("environment"))
}

/// Adds variables to a file, instead of those that were added before.
pub fn write(path: &Path, variables: &[(&str, String)]) -> Result<()> {
    let text = read(path)?;
    let (mut text, _) = without(&text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += BEGIN;
    for (name, value) in variables {
        text += &format!("{name} = '{value}'\n");
    }
    text += END;
    put(path, &text)
}

/// Takes out of a service's file what was added; the file, if there was something.
pub fn remove(root: &Path, service: &str) -> Result<Option<PathBuf>> {
    let Some(path) = of_cluster(root, service).filter(|path| path.is_file()) else {
        return Ok(None);
    };
    match without(&read(&path)?) {
        (_, false) => Ok(None),
        (text, true) => put(&path, &text).map(|()| Some(path)),
    }
}

/// A text without what was added, and whether anything was.
fn without(text: &str) -> (String, bool) {
    let parted = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some(format!("{before}{after}"))
    });
    let found = parted.is_some();
    (parted.unwrap_or_else(|| text.to_owned()), found)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// In its place, so that it stays its owner's.
fn put(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {} (use sudo)", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_cluster_has_a_file_of_its_own() {
        let root = Path::new("/");
        let of = |service, program| file(root, service, Path::new(program));
        let starter = "/usr/bin/pg_ctlcluster";
        assert_eq!(
            of("postgresql@15-main", starter),
            Some("/etc/postgresql/15/main/environment".into())
        );
        assert_eq!(
            of("postgresql@16-a-b", starter),
            Some("/etc/postgresql/16/a-b/environment".into())
        );
        assert_eq!(of("postgresql@15-main", "/usr/bin/postgres"), None);
        assert_eq!(of("nginx", starter), None);
    }

    #[test]
    fn what_was_added_is_taken_out_and_nothing_else() {
        let added = format!("A = 'b'\n{BEGIN}X = 'y'\n{END}C = 'd'\n");
        assert_eq!(without(&added), ("A = 'b'\nC = 'd'\n".to_owned(), true));
        let broken = format!("A = 'b'\n{BEGIN}X = 'y'\n");
        assert_eq!(without(&broken), (broken.clone(), false));
    }
}
