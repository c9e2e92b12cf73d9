//! The caches of this machine, and sets of files that none of them holds.

use crate::machine;
use std::path::Path;

/// Where Linux tells of the caches of the first core.
const TOLD: &str = "/sys/devices/system/cpu/cpu0/cache";
/// A set is so many times as large as the last cache, at least.
const TIMES: u64 = 2;
/// Bytes of a set at most: what asks for its files has a number of 16 bits for each of 16 KB.
const MOST: u64 = 960 << 20;
/// The part of the machine's memory that a set has at most: there are several of them, and others, too.
const PART: u64 = 16;

/// Bytes of the last cache of the first core, which is the largest. `None` where Linux does not tell.
pub fn last() -> Option<u64> {
    last_in(Path::new(TOLD))
}

fn last_in(directory: &Path) -> Option<u64> {
    let caches = machine::caches_in(directory).into_iter();
    let of_data = caches.filter(|cache| cache.kind != "Instruction");
    of_data.filter_map(|cache| bytes(&cache.size)).max()
}

/// What sysfs means by "32768K".
fn bytes(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit());
    let (number, unit) = text.split_at(at.unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_shl(shift)
}

/// Bytes of a set of files that no cache of this machine holds: twice the last one, `least` at least, and no more than a
/// part of the memory. The same at every call.
pub fn beyond(least: u64) -> u64 {
    set(least, last(), memory())
}

fn set(least: u64, last: Option<u64>, memory: Option<u64>) -> u64 {
    let most = memory.map_or(MOST, |memory| (memory / PART).min(MOST));
    let wanted = TIMES.saturating_mul(last.unwrap_or_default());
    wanted.min(most).max(least)
}

/// Bytes of memory that the machine has.
fn memory() -> Option<u64> {
    let told = machine::memory()?;
    let kilobytes = told.strip_suffix("kB")?.trim();
    Some(kilobytes.parse::<u64>().ok()? << 10)
}

/// What a report says of a set of so many bytes.
pub fn words(set: u64) -> String {
    words_beside(set, last())
}

fn words_beside(set: u64, last: Option<u64>) -> String {
    let all = set >> 20;
    match last {
        None => format!("{all} MB; how large the caches of this machine are is not known"),
        Some(last) if set >= TIMES * last => format!(
            "{all} MB, which is {:.1} times the last cache of this machine",
            set as f64 / last.max(1) as f64
        ),
        Some(last) => format!(
            "{all} MB, which is less than twice the last cache of this machine, of {} MB: what is asked for may come from \
             there",
            last >> 20
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, bytes, last_in, set, words_beside};

    #[test]
    fn the_last_cache_is_the_largest_that_has_data() {
        let name = format!("lab-caches-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        assert_eq!(last_in(&scratch), None);
        for (index, kind, size) in [
            ("index0", "Data", "48K"),
            ("index1", "Instruction", "64M"),
            ("index2", "Unified", "1024K"),
            ("index3", "Unified", "32768K"),
        ] {
            let cache = scratch.join(index);
            std::fs::create_dir_all(&cache).unwrap();
            std::fs::write(cache.join("type"), format!("{kind}\n")).unwrap();
            std::fs::write(cache.join("size"), format!("{size}\n")).unwrap();
        }
        std::fs::write(scratch.join("uevent"), "").unwrap();
        assert_eq!(last_in(&scratch), Some(32 << 20));
        std::fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(
            ["7", "2M", "1G"].map(bytes),
            [Some(7), Some(2 << 20), Some(1 << 30)]
        );
        assert_eq!(["", "K", "2T", "M2"].map(bytes), [None; 4]);
    }

    #[test]
    fn a_set_is_twice_the_last_cache_where_memory_allows() {
        let (mega, giga) = (1 << 20, 1 << 30);
        let least = 8 * mega;
        assert_eq!(set(least, Some(32 * mega), Some(16 * giga)), 64 * mega);
        assert_eq!(set(least, Some(2 * mega), Some(16 * giga)), least);
        assert_eq!(set(least, Some(512 * mega), Some(8 * giga)), 512 * mega);
        assert_eq!(set(least, Some(4 * giga), None), MOST);
        assert_eq!(set(least, None, Some(giga)), least);
        // Little memory takes nothing away of what there was before.
        assert_eq!(set(least, Some(32 * mega), Some(64 * mega)), least);
    }

    #[test]
    fn a_set_that_a_cache_may_hold_is_told_of() {
        let mega = 1 << 20;
        let told = words_beside(64 * mega, Some(32 * mega));
        assert_eq!(
            told,
            "64 MB, which is 2.0 times the last cache of this machine"
        );
        let told = words_beside(64 * mega, Some(256 * mega));
        assert!(
            told.contains("less than twice") && told.contains("of 256 MB"),
            "{told}"
        );
        assert!(words_beside(64 * mega, None).contains("not known"));
    }
}
