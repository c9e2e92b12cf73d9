//! Files that import each other in a circle.

use super::modules::Arrows;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Files of which each can be reached from each along arrows.
pub struct Circle {
    /// All of them.
    pub files: BTreeSet<PathBuf>,
    /// The shortest way round, as the lines that import.
    pub shortest: Vec<String>,
}

/// The circles that `arrows` make, of two files or more.
pub fn of(arrows: &Arrows) -> Vec<Circle> {
    let mut next: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (from, to) in arrows.keys() {
        next.entry(from).or_default().push(to);
    }
    let ways: BTreeMap<&Path, BTreeMap<&Path, &Path>> = next
        .keys()
        .map(|&from| (from, ways_from(from, &next)))
        .collect();
    let reaches = |from: &Path, to: &Path| ways.get(from).is_some_and(|way| way.contains_key(to));

    let mut circles: Vec<Circle> = Vec::new();
    for &file in ways.keys() {
        let known = circles.iter().any(|circle| circle.files.contains(file));
        if known || !reaches(file, file) {
            continue;
        }
        let files: BTreeSet<PathBuf> = ways
            .keys()
            .filter(|&&other| reaches(file, other) && reaches(other, file))
            .map(|&other| other.into())
            .collect();
        let shortest = files
            .iter()
            .map(|file| way_round(file, &ways[file.as_path()]))
            .min_by_key(Vec::len)
            .unwrap_or_default();
        let lines = shortest.windows(2).map(|pair| {
            let arrow = &arrows[&(pair[0].into(), pair[1].into())];
            format!(
                "{}:{} imports {} from {}",
                pair[0].display(),
                arrow.line,
                arrow.path,
                pair[1].display()
            )
        });
        circles.push(Circle {
            shortest: lines.collect(),
            files,
        });
    }
    circles
}

/// Every file that can be reached from `start`, and the one before it on a shortest way.
fn ways_from<'a>(
    start: &'a Path,
    next: &BTreeMap<&'a Path, Vec<&'a Path>>,
) -> BTreeMap<&'a Path, &'a Path> {
    let mut before = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &to in next.get(at).into_iter().flatten() {
            if !before.contains_key(to) {
                before.insert(to, at);
                queue.push_back(to);
            }
        }
    }
    before
}

/// From `start` to itself.
fn way_round<'a>(start: &'a Path, before: &BTreeMap<&'a Path, &'a Path>) -> Vec<&'a Path> {
    let mut way = vec![start];
    let mut at = start;
    loop {
        at = before[at];
        way.push(at);
        if at == start {
            way.reverse();
            return way;
        }
    }
}
