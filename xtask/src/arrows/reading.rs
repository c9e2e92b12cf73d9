//! What one file says of modules: which it declares, what it defines, imports and names.

use super::tokens::{self, Token, after_group, is_name};

/// A module as its own text has it: a file, or a `mod name { … }` inside one.
#[derive(Default)]
pub struct Module {
    /// `mod name;`, each of which is a file of its own.
    pub declares: Vec<(String, usize)>,
    /// `mod name { … }`.
    pub holds: Vec<(String, Module)>,
    /// The items that it defines itself.
    pub defines: Vec<String>,
    /// The macros that it defines by `macro_rules!`.
    pub macros: Vec<String>,
    /// The types that it gives methods or traits to, as they are written after `impl`.
    pub extends: Vec<Vec<String>>,
    /// What `use` brings in.
    pub imports: Vec<Import>,
    /// Paths in its code of two or more names.
    pub paths: Vec<Path>,
    /// Names in its code that stand alone: of functions that are called, and of types.
    pub words: Vec<Path>,
    /// Names of macros in its code that stand alone.
    pub expansions: Vec<Path>,
}

/// One name that a `use` brings in.
pub struct Import {
    /// Under which name; `*` brings in all.
    pub name: String,
    /// From where.
    pub path: Path,
    /// Whether it only hands the name on: `pub use`, `pub(crate) use`.
    pub public: bool,
}

/// A path, and the line that it is written on.
#[derive(Clone)]
pub struct Path {
    /// Its names, `crate`, `self` and `super` among them.
    pub names: Vec<String>,
    /// The line, from one.
    pub line: usize,
}

/// Reads a file.
pub fn read(source: &str) -> Module {
    let tokens = tokens::of(source);
    let mut module = Module::default();
    if !begins(&tokens, 0, "#![cfg(test)") {
        module.items(&tokens);
    }
    module
}

impl Module {
    /// Reads what stands at the level of a module.
    fn items(&mut self, tokens: &[Token]) {
        self.walk(tokens, true);
    }

    /// Reads tokens; items are the module's own only `at_top`, not inside of a function, say.
    fn walk(&mut self, tokens: &[Token], at_top: bool) {
        let mut at = 0;
        let mut public = false;
        while at < tokens.len() {
            let text = tokens[at].text.as_str();
            let next = tokens.get(at + 1).map_or("", |token| &token.text);
            match text {
                "#" if next == "[" || next == "!" => {
                    // A module by `#[path]` is another program's file: it imports nothing here.
                    let exempt = is_only_for_tests(tokens, at) || begins(tokens, at, "#[path=");
                    at = after_group(tokens, at);
                    if exempt {
                        at = after_item(tokens, at);
                    }
                    continue;
                }
                "pub" => {
                    public = true;
                    at += 1;
                    if next == "(" {
                        at = after_group(tokens, at);
                    }
                    continue;
                }
                "use" if next != "<" => {
                    at = self.import(tokens, at + 1, &mut Vec::new(), public);
                }
                "mod" if is_name(next) => at = self.submodule(tokens, at),
                "macro_rules" if next == "!" => {
                    self.macros.push(tokens[at + 2].text.clone());
                    at += 3;
                }
                "impl" if at_top => {
                    self.extends.extend(extended(tokens, at + 1));
                    at += 1;
                }
                "enum" if is_name(next) => at = self.enumeration(tokens, at, at_top),
                "fn" | "struct" | "trait" | "union" | "type" | "const" | "static"
                    if is_name(next) && !(at > 0 && tokens[at - 1].text == "*") =>
                {
                    at += usize::from(next == "mut");
                    // `const fn` is a function; the next round reads its name.
                    if next != "fn" && next != "unsafe" && next != "extern" {
                        if at_top {
                            self.defines.push(tokens[at + 1].text.clone());
                        }
                        at += 1;
                    }
                    at += 1;
                }
                "(" | "[" | "{" => {
                    let end = after_group(tokens, at);
                    self.walk(&tokens[at + 1..end.max(at + 2) - 1], false);
                    at = end;
                }
                _ if is_name(text) => at = self.path(tokens, at),
                _ => at += 1,
            }
            public = false;
        }
    }

    /// Reads one branch of a `use` from `at`; `before` is what stands before its brace.
    fn import(
        &mut self,
        tokens: &[Token],
        mut at: usize,
        before: &mut Vec<String>,
        public: bool,
    ) -> usize {
        let had = before.len();
        while at < tokens.len() {
            match tokens[at].text.as_str() {
                "::" => at += 1,
                "{" => {
                    let end = after_group(tokens, at);
                    at += 1;
                    while at + 1 < end {
                        at = self.import(&tokens[..end - 1], at, before, public) + 1;
                    }
                    before.truncate(had);
                    return end;
                }
                name if name == "*" || is_name(name) => {
                    before.push(name.into());
                    let line = tokens[at].line;
                    at += 1;
                    if tokens.get(at).is_some_and(|token| token.text == "::") {
                        continue;
                    }
                    // `a::{self}` is `a`.
                    if name == "self" && before.len() > 1 {
                        before.pop();
                    }
                    let mut alias = before.last().cloned().unwrap_or_default();
                    if tokens.get(at).is_some_and(|token| token.text == "as") {
                        alias.clone_from(&tokens[at + 1].text);
                        at += 2;
                    }
                    self.imports.push(Import {
                        name: alias,
                        path: Path {
                            names: before.clone(),
                            line,
                        },
                        public,
                    });
                    before.truncate(had);
                    return at;
                }
                _ => break,
            }
        }
        before.truncate(had);
        at + 1
    }

    /// Reads `mod name;` or `mod name { … }`.
    fn submodule(&mut self, tokens: &[Token], at: usize) -> usize {
        let name = tokens[at + 1].text.clone();
        if tokens.get(at + 2).is_none_or(|token| token.text != "{") {
            self.declares.push((name, tokens[at].line));
            return at + 2;
        }
        let end = after_group(tokens, at + 2);
        let mut module = Module::default();
        module.items(&tokens[at + 3..end - 1]);
        self.holds.push((name, module));
        end
    }

    /// Reads an enum, whose variants are names of its own.
    fn enumeration(&mut self, tokens: &[Token], at: usize, at_top: bool) -> usize {
        if at_top {
            self.defines.push(tokens[at + 1].text.clone());
        }
        let Some(open) = (at..tokens.len()).find(|&at| tokens[at].text == "{") else {
            return tokens.len();
        };
        let end = after_group(tokens, open);
        let mut inside = open + 1;
        while inside + 1 < end {
            if tokens[inside].text == "#" {
                inside = after_group(tokens, inside);
                continue;
            }
            let variant = inside + 1;
            inside = variant;
            while inside + 1 < end && tokens[inside].text != "," {
                inside = match tokens[inside].text.as_str() {
                    "(" | "[" | "{" => after_group(tokens, inside),
                    _ => inside + 1,
                };
            }
            self.walk(&tokens[variant..inside.min(end - 1)], false);
            inside += 1;
        }
        end
    }

    /// Reads a path from its first name.
    fn path(&mut self, tokens: &[Token], at: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
        let mut names = vec![text(at).to_owned()];
        let mut end = at + 1;
        while text(end) == "::" && is_name(text(end + 1)) {
            names.push(text(end + 1).into());
            end += 2;
        }
        let before = if at == 0 { "" } else { text(at - 1) };
        // A field, a method, or what follows something that is no path, as in `<T as A>::b`.
        let own = !matches!(before, "." | "::");
        let path = Path {
            names,
            line: tokens[at].line,
        };
        if own && path.names.len() > 1 {
            self.paths.push(path);
        } else if own {
            let expanded = text(end) == "!" && matches!(text(end + 1), "(" | "[" | "{");
            let called = matches!(text(end), "(" | "::");
            if expanded {
                self.expansions.push(path);
            } else if called || path.names[0].starts_with(char::is_uppercase) {
                self.words.push(path);
            }
        }
        end
    }
}

/// The type of an `impl` whose next token is at `at`.
fn extended(tokens: &[Token], mut at: usize) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut angles = 0_usize;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            "<" => angles += 1,
            ">" => angles = angles.saturating_sub(1),
            _ if angles > 0 => {}
            // What stood before was a trait.
            "for" => names.clear(),
            "{" | "where" | ";" => break,
            name if is_name(name) => names.push(name.to_owned()),
            _ => {}
        }
        at += 1;
    }
    (!names.is_empty()).then_some(names)
}

/// Whether an attribute that says that what follows is for tests only begins at `at`.
fn is_only_for_tests(tokens: &[Token], at: usize) -> bool {
    ["#[cfg(test)", "#[cfg(all(test,"]
        .iter()
        .any(|attribute| begins(tokens, at, attribute))
}

/// Whether `written`, which has no spaces, stands at `at`.
fn begins(tokens: &[Token], at: usize, written: &str) -> bool {
    let mut rest = written;
    for token in &tokens[at..] {
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(token.text.as_str()) else {
            return false;
        };
        rest = after;
    }
    rest.is_empty()
}

/// The index after the item, statement, field or arm that begins at `at`.
fn after_item(tokens: &[Token], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| token.text == "#") {
        at = after_group(tokens, at);
    }
    if tokens.get(at).is_some_and(|token| token.text == "pub") {
        at += 1;
        if tokens.get(at).is_some_and(|token| token.text == "(") {
            at = after_group(tokens, at);
        }
    }
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    // Those whose braces are not their end.
    let until_semicolon = matches!(text(at), "use" | "static" | "let" | "type")
        || text(at) == "const" && text(at + 1) != "fn";
    let mut angles = 0_usize;
    while at < tokens.len() {
        match text(at) {
            ";" => return at + 1,
            "," if angles == 0 && !until_semicolon => return at + 1,
            "<" => angles += 1,
            ">" => angles = angles.saturating_sub(1),
            "{" if !until_semicolon => return after_group(tokens, at),
            "(" | "[" | "{" => {
                at = after_group(tokens, at);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    at
}
