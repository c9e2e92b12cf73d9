//! The Internet checksum's sum, taken while bytes are copied.
//!
//! Ones' complement addition does not care for the size of the words that are added, as long as the
//! carries come back in at the end, nor for their byte order, as long as the result is swapped
//! (RFC 1071, section 2). So 64-bit words are added as they lie in memory.
//!
//! A 64-bit sum would lose its carries. Splitting every word in halves, before adding them, costs
//! four operations a word. It is three to add up the whole words, carries lost, and beside it their
//! high halves, which cannot overflow: with `whole = low + 2³² · high (mod 2⁶⁴)` and `high` known,
//! the sum of the low halves is `whole − 2³² · high (mod 2⁶⁴)`, and it is below 2⁶⁴ itself. That
//! keeps up with a plain copy from the second-level cache.

use core::sync::atomic::AtomicU8;

/// Fills `out` from the beginning of `from` and returns the Internet checksum's sum (RFC 1071) of
/// the bytes that `out` now holds: the ones' complement sum of them as 16-bit big-endian words, an
/// odd last byte padded with a zero on its right, folded, not complemented.
///
/// # Panics
/// `from` is shorter than `out`.
pub fn copy_out_sum(from: &[AtomicU8], out: &mut [u8]) -> u16 {
    copy_and_sum(&from[..out.len()], out)
}

/// Copies `from` to `out`, of the same length, and returns the sum of what `out` then holds.
fn copy_and_sum(from: &[AtomicU8], out: &mut [u8]) -> u16 {
    debug_assert_eq!(from.len(), out.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, and both ranges have `out.len()` bytes.
        return unsafe { avx2::copy_and_sum(from.as_ptr().cast(), out.as_mut_ptr(), out.len()) };
    }
    crate::copy::copy_out(from, out);
    sum(out)
}

/// The sum of private bytes.
fn sum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words
        .iter()
        .fold(0, |sum, word| add_halves(sum, u64::from_ne_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    fold(add_halves(whole, u64::from_ne_bytes(last)))
}

/// Adds both halves of `word` to `sum`. Overflows after no less than 2³¹ words.
fn add_halves(sum: u64, word: u64) -> u64 {
    sum + (word & 0xffff_ffff) + (word >> 32)
}

/// Brings the carries of a sum of native words back in, and gives it the byte order of the network.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (sum as u16).to_be()
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{add_halves, fold};
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_slli_epi64,
        _mm256_srli_epi64, _mm256_storeu_si256, _mm256_sub_epi64,
    };

    /// The sums of four lanes, as the module's documentation explains.
    #[derive(Clone, Copy)]
    struct Lanes {
        whole: __m256i,
        high: __m256i,
    }

    impl Lanes {
        #[target_feature(enable = "avx2")]
        fn zero() -> Self {
            Self {
                whole: _mm256_setzero_si256(),
                high: _mm256_setzero_si256(),
            }
        }

        #[target_feature(enable = "avx2")]
        fn add(self, words: __m256i) -> Self {
            Self {
                whole: _mm256_add_epi64(self.whole, words),
                high: _mm256_add_epi64(self.high, _mm256_srli_epi64::<32>(words)),
            }
        }

        /// The sum of all halves of all words of both.
        #[target_feature(enable = "avx2")]
        fn total(self, other: Self) -> u64 {
            let whole = _mm256_add_epi64(self.whole, other.whole);
            let high = _mm256_add_epi64(self.high, other.high);
            let low = _mm256_sub_epi64(whole, _mm256_slli_epi64::<32>(high));
            let mut lanes = [0u64; 4];
            // SAFETY: the lanes are 32 bytes, and the store needs no alignment.
            unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), _mm256_add_epi64(low, high)) };
            lanes.iter().sum()
        }
    }

    /// Copies `len` bytes and returns their sum. What is summed is the register that is stored,
    /// so each byte of `from` is read once.
    ///
    /// # Safety
    /// `from` and `to` are valid for `len` bytes and do not overlap. Someone else may write `from`
    /// meanwhile, within the limits that the `copy` module's documentation sets.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn copy_and_sum(from: *const u8, to: *mut u8, len: usize) -> u16 {
        let mut at = 0;
        let step = |at: usize, lanes: Lanes| {
            // SAFETY: called only while 32 bytes are left at `at`; the load needs no alignment.
            let words = unsafe { _mm256_loadu_si256(from.add(at).cast()) };
            // SAFETY: as above.
            unsafe { _mm256_storeu_si256(to.add(at).cast(), words) };
            lanes.add(words)
        };
        // Two sums at a time, so that no addition waits for the one before.
        let (mut even, mut odd) = (Lanes::zero(), Lanes::zero());
        while len - at >= 64 {
            even = step(at, even);
            odd = step(at + 32, odd);
            at += 64;
        }
        if len - at >= 32 {
            even = step(at, even);
            at += 32;
        }
        let mut sum = even.total(odd);
        while len - at >= 8 {
            // SAFETY: 8 bytes are left at `at`; the load needs no alignment.
            let word = unsafe { from.add(at).cast::<u64>().read_unaligned() };
            // SAFETY: as above.
            unsafe { to.add(at).cast::<u64>().write_unaligned(word) };
            sum = add_halves(sum, word);
            at += 8;
        }
        let mut last = [0; 8];
        for (i, last) in last.iter_mut().take(len - at).enumerate() {
            // SAFETY: `at + i` is below `len`.
            unsafe {
                *last = from.add(at + i).read();
                to.add(at + i).write(*last);
            }
        }
        fold(add_halves(sum, u64::from_ne_bytes(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of taking the sum agree, at every length and alignment.
    #[test]
    fn every_processor_takes_the_same_sum() {
        let bytes: Vec<u8> = (0..400u32).map(|i| (i * 37 + i / 7) as u8 | 0x80).collect();
        let shared: Vec<AtomicU8> = bytes.iter().copied().map(AtomicU8::new).collect();
        let mut out = [0; 400];
        for skip in [0, 1, 6] {
            for len in (0..bytes.len() - skip).step_by(if cfg!(miri) { 37 } else { 1 }) {
                let from = &shared[skip..skip + len];
                let found = copy_and_sum(from, &mut out[..len]);
                assert_eq!(out[..len], bytes[skip..skip + len]);
                assert_eq!(found, sum(&bytes[skip..skip + len]), "{len} bytes");
            }
        }
    }
}
