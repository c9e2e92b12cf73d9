//! The modules of a package, and in which file a path ends.

use super::reading::{self, Import};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// An arrow from one file to another.
pub struct Arrow {
    /// The line that imports.
    pub line: usize,
    /// What it imports, as it is written there.
    pub path: String,
}

/// The arrows of a package: from which file, to which, and the first line that says so.
pub type Arrows = BTreeMap<(PathBuf, PathBuf), Arrow>;

/// A module with its place among the others.
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    defines: HashSet<String>,
    macros: HashSet<String>,
    text: reading::Module,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq)]
enum Target<'a> {
    Module(usize),
    /// Something that this module defines, and its name there.
    Item(usize, &'a str),
}

/// What is asked for where a name can be both, as in `check::check`.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Module,
    Item,
}

/// The modules below one root (`lib.rs`, or the file of a program).
pub struct Modules {
    all: Vec<Module>,
}

/// How many names a path may pass through: `pub use` in a circle ends here.
const DEEPEST: usize = 32;

impl Modules {
    /// Reads the modules below `root`; `text` has the text of a file, if there is such a file.
    pub fn read(root: &Path, text: &dyn Fn(&Path) -> Option<String>) -> Result<Self> {
        let mut modules = Self { all: Vec::new() };
        let source = text(root).with_context(|| format!("{} is missing", root.display()))?;
        let below = root.parent().unwrap_or(Path::new(""));
        modules.add(root, below, None, reading::read(&source), text)?;
        Ok(modules)
    }

    /// Adds a module and all below it; `below` is the directory of the files that it declares.
    fn add(
        &mut self,
        file: &Path,
        below: &Path,
        parent: Option<usize>,
        mut read: reading::Module,
        text: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize> {
        let number = self.all.len();
        let holds = std::mem::take(&mut read.holds);
        let declares = std::mem::take(&mut read.declares);
        self.all.push(Module {
            file: file.into(),
            parent,
            children: HashMap::new(),
            defines: read.defines.iter().cloned().collect(),
            macros: read.macros.iter().cloned().collect(),
            text: read,
        });
        for (name, held) in holds {
            let child = self.add(file, &below.join(&name), Some(number), held, text)?;
            self.all[number].children.insert(name, child);
        }
        for (name, line) in declares {
            let own = below.join(&name);
            let places = [own.with_extension("rs"), own.join("mod.rs")];
            let found = places
                .iter()
                .find_map(|place| Some((place, text(place.as_path())?)));
            let Some((place, source)) = found else {
                bail!(
                    "{}:{line}: no file for module {name} where its name says",
                    file.display()
                );
            };
            let child = self.add(place, &own, Some(number), reading::read(&source), text)?;
            self.all[number].children.insert(name, child);
        }
        Ok(number)
    }

    /// How many files they are.
    pub fn count_files(&self) -> usize {
        let files: HashSet<&Path> = self.all.iter().map(|module| &*module.file).collect();
        files.len()
    }

    /// Every arrow between two files.
    pub fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (number, module) in self.all.iter().enumerate() {
            let extended = self.extended(number);
            let mut arrow = |target: Option<Target<'_>>, path: &reading::Path| {
                let Some(Target::Item(at, name)) = target else {
                    return;
                };
                if extended.contains(&(at, name)) {
                    return;
                }
                let to = &self.all[at].file;
                if *to != module.file {
                    let between = (module.file.clone(), to.clone());
                    let earlier = arrows
                        .get(&between)
                        .map_or(usize::MAX, |found: &Arrow| found.line);
                    if path.line < earlier {
                        let path = Arrow {
                            line: path.line,
                            path: path.names.join("::"),
                        };
                        arrows.insert(between, path);
                    }
                }
            };
            for import in &module.text.imports {
                if !import.public && import.name != "*" {
                    arrow(
                        self.resolve(number, &import.path.names, Wanted::Item, 0),
                        &import.path,
                    );
                }
            }
            for path in &module.text.paths {
                arrow(self.resolve(number, &path.names, Wanted::Item, 0), path);
            }
            // What is handed on or brought in with all else counts where it is used.
            for word in &module.text.words {
                arrow(self.lookup(number, &word.names[0], Wanted::Item, 0), word);
            }
            for expansion in &module.text.expansions {
                arrow(self.macro_by(number, &expansion.names[0]), expansion);
            }
        }
        arrows
    }

    /// The types of the modules above that this one writes a part of.
    fn extended(&self, module: usize) -> HashSet<(usize, &str)> {
        let mut above = HashSet::new();
        let mut at = self.all[module].parent;
        while let Some(parent) = at {
            above.insert(parent);
            at = self.all[parent].parent;
        }
        let types = &self.all[module].text.extends;
        types
            .iter()
            .filter_map(
                |names| match self.resolve(module, names, Wanted::Item, 0)? {
                    Target::Item(at, name) if above.contains(&at) => Some((at, name)),
                    _ => None,
                },
            )
            .collect()
    }

    /// What `names` lead to, as written in module `from`; nothing if that is not of this package.
    fn resolve<'a>(
        &'a self,
        from: usize,
        names: &'a [String],
        wanted: Wanted,
        depth: usize,
    ) -> Option<Target<'a>> {
        let (first, rest) = names.split_first()?;
        let wanted_of = |rest: &[String]| {
            if rest.is_empty() {
                wanted
            } else {
                Wanted::Module
            }
        };
        let mut target = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(from),
            "super" => Target::Module(self.all[from].parent?),
            name => self.lookup(from, name, wanted_of(rest), depth)?,
        };
        for (at, name) in rest.iter().enumerate() {
            let Target::Module(module) = target else {
                // What follows belongs to the item: a variant, a function of a type.
                break;
            };
            target = if name == "super" {
                Target::Module(self.all[module].parent?)
            } else {
                // What a macro defines is not seen, and is nowhere else.
                self.lookup(module, name, wanted_of(&rest[at + 1..]), depth)
                    .unwrap_or(Target::Item(module, name))
            };
        }
        Some(target)
    }

    /// What `name` is inside of `module`.
    fn lookup<'a>(
        &'a self,
        module: usize,
        name: &'a str,
        wanted: Wanted,
        depth: usize,
    ) -> Option<Target<'a>> {
        if depth > DEEPEST {
            return None;
        }
        let here = &self.all[module];
        let child = here.children.get(name).map(|&child| Target::Module(child));
        let defined = here.defines.contains(name) || here.macros.contains(name);
        let item = || defined.then_some(Target::Item(module, name));
        let imported = || {
            let named = |import: &&Import| import.name == name;
            here.text.imports.iter().filter(named).find_map(|import| {
                // `use name::name` begins at another package, or at a child.
                if import.path.names[0] == name && child.is_none() {
                    return None;
                }
                self.resolve(module, &import.path.names, wanted, depth + 1)
            })
        };
        let among_all = || {
            let all = |import: &&Import| import.name == "*";
            here.text.imports.iter().filter(all).find_map(|import| {
                let (_, names) = import.path.names.split_last()?;
                match self.resolve(module, names, Wanted::Module, depth + 1)? {
                    Target::Module(from) if from != module => {
                        self.lookup(from, name, wanted, depth + 1)
                    }
                    // The variants of an enum.
                    _ => None,
                }
            })
        };
        match wanted {
            Wanted::Module => child.or_else(imported).or_else(item),
            Wanted::Item => item().or_else(imported).or(child),
        }
        .or_else(among_all)
    }

    /// Where a macro that stands without a path comes from: an import, or a module above.
    fn macro_by<'a>(&'a self, module: usize, name: &'a str) -> Option<Target<'a>> {
        let mut above = Some(module);
        while let Some(at) = above {
            if self.all[at].macros.contains(name) {
                return Some(Target::Item(at, name));
            }
            above = self.all[at].parent;
        }
        match self.lookup(module, name, Wanted::Item, 0)? {
            Target::Item(at, _) if self.all[at].macros.contains(name) => {
                Some(Target::Item(at, name))
            }
            _ => None,
        }
    }
}
