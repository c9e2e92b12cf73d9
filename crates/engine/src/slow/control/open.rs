//! Whether what a process has said of a descriptor can still be true.

/// Whether a process still has a descriptor, as far as the engine may look.
pub(super) fn is_open(pid: u32, fd: i32) -> bool {
    if fd < 0 {
        return true;
    }
    let at = |what: &str| std::fs::symlink_metadata(format!("/proc/{pid}/fd{what}"));
    let gone =
        at(&format!("/{fd}")).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    !(gone && at("").is_ok())
}
