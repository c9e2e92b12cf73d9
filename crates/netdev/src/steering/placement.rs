//! Where the program runs.

/// Where the program is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// In the driver; if that cannot, in the kernel's generic hook, with a warning in the log.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the kernel's generic hook: slower, for every driver.
    Generic,
}
