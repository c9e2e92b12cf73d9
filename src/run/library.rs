//! The shared object that takes the place of libc's socket calls: where it is, and whether it is of this build.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use enterable::made::is_of_this_build;
use lab::outboard::{ANY_BUILD, is_any_wanted};

/// Its file.
pub const NAME: &str = "liboutboard_preload.so";

/// What to do about one of another build that was found beside this program.
const REMEDY: &str = "build or install both together (from sources: cargo build --workspace)";
/// Whoever names one knows what it is.
const NAMED: &str = "OUTBOARD_PRELOAD names it";

/// Where it is: `OUTBOARD_PRELOAD`, beside this executable, or in `../lib/outboard` of it.
///
/// # Errors
/// It is in none of these places.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("OUTBOARD_PRELOAD") {
        let path = PathBuf::from(path);
        if !path.is_file() {
            bail!(
                "OUTBOARD_PRELOAD names {}, which is no file",
                path.display()
            );
        }
        return Ok(path);
    }
    let executable = std::env::current_exe().context("cannot tell where this program is")?;
    let here = executable.parent().unwrap_or(Path::new("/"));
    let places = [here.join(NAME), here.join("../lib/outboard").join(NAME)];
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.canonicalize()?),
        None => bail!(
            "{NAME} is neither in {} nor in {}; build it (`cargo build --workspace`) or name it \
             in OUTBOARD_PRELOAD",
            here.display(),
            here.join("../lib/outboard").display(),
        ),
    }
}

/// What is wrong with this library, if it is not the one that this program was built with.
///
/// # Errors
/// It cannot be read.
pub fn of_another_build(library: &Path) -> Result<Option<String>> {
    let shown = library.display();
    let is_ours = is_of_this_build(library).with_context(|| format!("cannot read {shown}"))?;
    Ok((!is_ours).then(|| {
        let is_named = std::env::var_os("OUTBOARD_PRELOAD").is_some();
        let about = if is_named { NAMED } else { REMEDY };
        format!("{shown} is of another build than this program, older or newer: {about}")
    }))
}

/// What is wrong with the one that there is, if it is of another build. Of none, whoever needs it says so.
///
/// # Errors
/// It cannot be read.
pub fn wrong() -> Result<Option<String>> {
    find().map_or(Ok(None), |library| of_another_build(&library))
}

/// Refuses to measure with a library of another build: what it does would be taken for what this one does. Who wants that
/// says so, and is told what is wrong.
///
/// # Errors
/// It is of another build, or cannot be read.
pub fn check() -> Result<()> {
    if let Some(wrong) = wrong()? {
        if !is_any_wanted() {
            bail!("{wrong}; {ANY_BUILD}=1 goes on with it nevertheless");
        }
        crate::closed_pipe::remark(format_args!("outboard: {wrong}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::of_another_build;
    use std::path::Path;

    #[test]
    fn a_library_that_says_nothing_is_of_another_build() {
        let this = std::env::current_exe().expect("a test has an executable");
        let said = of_another_build(&this).expect("to be read");
        assert!(said.is_some_and(|said| said.contains("of another build")));
        assert!(of_another_build(Path::new("/nonexistent")).is_err());
    }
}
