//! Tables of the source (document 003) that more than the reprint asks for.

pub use lab::catalogue::SATURATION;

/// Table 4-4: goodput at saturation, megabytes a second.
pub const GOODPUT: [(u32, f64, f64); 5] = [
    (0, 0.3174, 0.256),
    (1, 1.36, 1.35),
    (2, 7.8, 10.2),
    (3, 19.6, 46.5),
    (4, 24.8, 74.1),
];
