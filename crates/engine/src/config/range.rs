//! Whether a value is in its range.

/// A value outside its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` is {value}, allowed is {allowed}")]
pub(crate) struct OutOfRange {
    pub(super) table: &'static str,
    pub(super) key: &'static str,
    pub(super) value: String,
    pub(super) allowed: String,
}

impl OutOfRange {
    pub(super) fn setting(&self) -> String {
        if self.table.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.table, self.key)
        }
    }
}

/// `Ok` if `low <= value <= high`.
pub(super) fn in_range(
    table: &'static str,
    key: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), OutOfRange> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(OutOfRange {
        table,
        key,
        value: value.to_string(),
        allowed: format!("{low} to {high}"),
    })
}
