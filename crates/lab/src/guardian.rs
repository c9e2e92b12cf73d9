//! Cleaning up however we end.
//!
//! A guardian is a shell that waits for the end of its standard input. The other end of that pipe
//! is held by us alone, so it comes to its end when we drop it, and just as well when we are
//! killed or interrupted: the kernel closes it. Then the guardian kills what still runs in the
//! namespaces, and deletes them and the scratch directory. It is a process group of its own, so a
//! Ctrl-C on the terminal does not reach it.

use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Arguments: the scratch directory, then namespaces.
const SCRIPT: &str = r#"
cat >/dev/null
scratch=$1
shift
for ns; do
    # Twice: a program that is being started when we look is there at the second look.
    for _ in 1 2; do
        for pid in $(ip netns pids "$ns" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
    done
    ip netns del "$ns" 2>/dev/null
done
rm -rf -- "$scratch"
"#;

pub(crate) struct Guardian {
    shell: Child,
}

impl Guardian {
    pub(crate) fn new(scratch: &Path, namespaces: &[String]) -> Result<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "guardian"])
            .arg(scratch)
            .args(namespaces)
            .env("PATH", crate::tool::search_path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .process_group(0)
            .spawn()
            .context("/bin/sh cannot be run")?;
        Ok(Self { shell })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        // Nothing useful can be done about a shell that cannot be waited for.
        let _ = self.shell.wait();
    }
}
