//! Why an engine leaves a listener to the kernel.

use rustix::io::Errno;

/// Why an engine does not take a listener, in words, from what it has answered.
pub fn why_refused(error: Errno) -> &'static str {
    match error {
        Errno::OPNOTSUPP => "its address is not one of the engine's interface",
        Errno::XDEV => "it is bound to an interface, and the engine has several",
        Errno::ACCESS => "the engine's configuration leaves it to the kernel",
        Errno::PERM => "it is in another network namespace than the engine",
        Errno::NOBUFS | Errno::NOMEM => "the engine has no room for more listeners",
        Errno::ADDRINUSE => "another program has offloaded this port",
        Errno::MFILE | Errno::NFILE => {
            "there are no descriptors left with which to show it to the engine"
        }
        _ => "the engine refused it",
    }
}
