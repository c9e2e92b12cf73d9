//! Amounts of memory, as they are written.

/// An amount.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    Bytes(u64),
    /// Of what there is, percent.
    Share(f64),
}

impl Size {
    /// Bytes, given what there is.
    pub fn of(self, all: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(percent) => (all as f64 * percent / 100.0) as u64,
        }
    }
}

/// Reads bytes: `51200K`, `64M`, `1.5G`, in units of 1,024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?}: write an amount such as 51200K, 64M or 1.5G");
    let at = text.find(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let unit = unit.trim_end_matches('B').trim_end_matches('i');
    let scale = match unit {
        "" => 1u64,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "t" | "T" => 1 << 40,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * scale as f64;
    // Larger than any memory.
    if !(0.0..1e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// Reads an amount, or a share of what there is: `5%`.
pub fn size(text: &str) -> Result<Size, String> {
    match text.strip_suffix('%') {
        Some(_) => percent(text).map(Size::Share),
        None => bytes(text).map(Size::Bytes),
    }
}

/// Reads a share in percent, with its sign or without, from 0 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(format!("{text:?}: write percent, from 0 to 100")),
    }
}

/// Writes bytes for people.
pub fn written(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{:.0} KiB", bytes as f64 / 1_024.0),
        1_048_576..10_737_418_240 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_written() {
        let read = ["51200K", "64M", "1.5GiB", "7", "2 k", "1T", "3B"].map(bytes);
        let known = [52_428_800, 67_108_864, 1_610_612_736, 7, 2_048, 1 << 40, 3];
        assert_eq!(read, known.map(Ok));
        for wrong in ["", "M", "-1", "1X", "nan", "1e30", "inf", "5%"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("5%"), Ok(Size::Share(5.0)));
        assert_eq!(size("5K"), Ok(Size::Bytes(5_120)));
        assert_eq!(
            (
                size("5%").map(|it| it.of(200)),
                size("5").map(|it| it.of(200))
            ),
            (Ok(10), Ok(5))
        );
        for wrong in ["101%", "-1%", "%", "nan%"] {
            assert!(size(wrong).is_err() && percent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(written(4_053 * 1_000), "3.9 MiB");
        assert_eq!(
            (written(2_048), written(20 << 30)),
            ("2 KiB".into(), "20.0 GiB".into())
        );
    }
}
