//! Where this runs.

use differ::setting::Setting;
use std::sync::OnceLock;

pub static SETTING: OnceLock<Setting> = OnceLock::new();

/// Where this runs.
pub fn setting() -> &'static Setting {
    SETTING.get().expect("set before the first call")
}
