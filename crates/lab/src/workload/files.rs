//! Sets of files on disk, the same from the same seed.

use super::mixes::class;
use super::surge::Sizes;
use anyhow::{Context, Result};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::Distribution;
use std::io::Write;
use std::path::Path;

/// A file: its name, and its size in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name, which is that of its place in the set.
    pub name: String,
    /// Its size.
    pub size: u64,
}

/// Bytes that are written at once.
const PIECE: usize = 64 << 10;

/// So many files of SURGE's sizes in one class of 003, from 0 to 4; in class 4 no larger than
/// `largest`. None is empty.
pub fn surge_class(wanted: usize, count: usize, largest: u64, seed: u64) -> Vec<File> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut files = Vec::new();
    // One in some hundred files is of class 4, and more are of all others.
    let mut draws = 0;
    while files.len() < count && draws < 1_000_000 {
        draws += 1;
        let size = Sizes.sample(&mut random).ceil().max(1.0) as u64;
        if class(size) == wanted && size <= largest {
            let name = format!("c{wanted}-{}", files.len());
            files.push(File { name, size });
        }
    }
    files
}

/// Writes them into a directory. What is in them is drawn from the seed, too, so that nothing on the
/// way can make it smaller.
///
/// # Errors
/// They cannot be written.
pub fn write(files: &[File], directory: &Path, seed: u64) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut piece = vec![0; PIECE];
    for file in files {
        let path = directory.join(&file.name);
        let put = || -> std::io::Result<()> {
            let mut out = std::fs::File::create(&path)?;
            let mut left = usize::try_from(file.size).unwrap_or(usize::MAX);
            while left > 0 {
                let part = left.min(PIECE);
                random.fill_bytes(&mut piece[..part]);
                out.write_all(&piece[..part])?;
                left -= part;
            }
            Ok(())
        };
        let mut put = put;
        put().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
