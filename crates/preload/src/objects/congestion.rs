//! The names of congestion controls.

/// The engine's number for a congestion control.
pub fn code(name: &[u8]) -> Option<u32> {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    match name {
        b"reno" => Some(0),
        b"cubic" => Some(1),
        b"bbr" => Some(2),
        _ => None,
    }
}

/// The name of a congestion control, as long as the kernel's buffer for it.
pub fn name(code: Option<u32>) -> [u8; 16] {
    let mut name = [0; 16];
    let given: &[u8] = match code {
        Some(0) => b"reno",
        Some(2) => b"bbr",
        _ => b"cubic",
    };
    name[..given.len()].copy_from_slice(given);
    name
}
