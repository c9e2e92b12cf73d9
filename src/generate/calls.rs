//! Manual pages of section 3, from the comments of `outboard.h` and `tcps.h`: one for each function, and one
//! of each header with its types.

use anyhow::{Result, ensure};
use std::fmt::Write;

const OUTBOARD: &str = include_str!("../../crates/capi/include/outboard.h");
const TCPS: &str = include_str!("../../crates/capi/include/tcps.h");

/// Functions that have one comment in common.
struct Calls<'a> {
    names: Vec<&'a str>,
    declarations: Vec<String>,
    comment: String,
    /// What threads may do with them.
    threads: String,
    /// Which of the header's parts they stand in, and what is said there of all of them.
    part: usize,
}

/// What a header says.
struct Header<'a> {
    /// Its name.
    file: &'a str,
    /// What its programs are linked with.
    libraries: &'a str,
    /// The paragraphs at its head.
    about: Vec<String>,
    /// Of the parts, what is said of all that is in them.
    parts: Vec<String>,
    calls: Vec<Calls<'a>>,
    /// Types and constants, as they stand.
    types: Vec<&'a str>,
}

/// What begins, and of a function's comment ends, the rule for threads.
const THREADS: &str = "Threads: ";

/// Names and texts of the pages.
///
/// # Errors
/// A function does not say what threads may do with it.
pub fn pages() -> Result<Vec<(String, String)>> {
    let tcps = without_bodies(TCPS);
    let headers = [
        read("outboard.h", "\\-loutboard", OUTBOARD)?,
        read("tcps.h", "\\-loutboard \\-lpthread", &tcps)?,
    ];
    let mut pages = Vec::new();
    for header in &headers {
        pages.push((format!("{}.3", header.file), header.page()));
        for calls in &header.calls {
            let text = calls.page(header);
            let of = |name: &&str| (format!("{name}.3"), text.clone());
            pages.extend(calls.names.iter().map(of));
        }
    }
    Ok(pages)
}

/// A header whose functions are in it, as if they were declared there. What is its own ends in `_`.
fn without_bodies(header: &str) -> String {
    let items = header.split("\n\n").map(|item| {
        let Some((before, function)) = item.split_once("TCPS_WEAK ") else {
            return item.to_owned();
        };
        let is_own = function
            .split_once('(')
            .is_none_or(|(name, _)| name.ends_with('_'));
        match function.split_once("\n{") {
            Some((declared, _)) if !is_own => format!("{before}{declared};"),
            _ => String::new(),
        }
    });
    items.collect::<Vec<_>>().join("\n\n")
}

/// Takes a header apart. Blank lines are between its items.
fn read<'a>(file: &'a str, libraries: &'a str, text: &'a str) -> Result<Header<'a>> {
    let mut header = Header {
        file,
        libraries,
        about: Vec::new(),
        parts: Vec::new(),
        calls: Vec::new(),
        types: Vec::new(),
    };
    let mut items = text.split("\n\n").filter(|item| !item.trim().is_empty());
    let about = comment(items.next().unwrap_or_default()).0;
    header.about = about.split("\n\n").map(str::to_owned).collect();
    for item in items {
        let item = item.trim_matches('\n');
        let (said, rest) = comment(item);
        let is_function = |line: &&str| line.starts_with(char::is_alphabetic) && line.contains('(');
        if item.starts_with("/* ---") {
            header.parts.push(String::new());
        } else if rest.is_empty() {
            if let Some(part) = header.parts.last_mut() {
                part.push_str(&said);
            }
        } else if rest.lines().any(|line| is_function(&line)) && !rest.starts_with("typedef") {
            let declarations = rest.split_inclusive(";\n").map(|one| one.trim().to_owned());
            let names: Vec<&str> = rest.lines().filter_map(name).collect();
            let (said, threads) = said.rsplit_once(THREADS).unwrap_or((&said, ""));
            ensure!(
                !threads.trim().is_empty(),
                "{file}: {} says nothing of threads (\"{THREADS}...\" at the end of its comment)",
                names.join(", ")
            );
            header.calls.push(Calls {
                names,
                declarations: declarations.collect(),
                comment: said.trim().to_owned(),
                threads: threads.trim().to_owned(),
                part: header.parts.len().saturating_sub(1),
            });
        } else if rest.starts_with("typedef") || rest.starts_with("enum") {
            header.types.push(item);
        }
    }
    Ok(header)
}

/// The text of the comment that an item begins with, and the rest.
fn comment(item: &str) -> (String, &str) {
    let Some((said, rest)) = item
        .strip_prefix("/*")
        .and_then(|after| after.split_once("*/"))
    else {
        return (String::new(), item.trim());
    };
    let lines = said.lines().map(|line| {
        let line = line.trim();
        line.strip_prefix('*').unwrap_or(line).trim_start()
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    (text.trim().to_owned(), rest.trim())
}

/// The function that a line declares.
fn name(line: &str) -> Option<&str> {
    let before = line.split_once('(')?.0;
    let name = before.rsplit([' ', '*']).next()?;
    let is_ours = name.starts_with("ob_") || name.starts_with("tcps_");
    (line.starts_with(char::is_alphabetic) && is_ours).then_some(name)
}

/// What is said, and the errors: each with its names.
fn errors(comment: &str) -> (String, Vec<(String, String)>) {
    let words: Vec<&str> = comment.split_whitespace().collect();
    let (mut said, mut errors): (String, Vec<(String, String)>) = Default::default();
    let is_error = |word: &str| word.starts_with("-E") && word.ends_with([',', ':']);
    let mut at = 0;
    while at < words.len() {
        let names = words[at..].iter().take_while(|word| is_error(word)).count();
        if names > 0 && words[at + names - 1].ends_with(':') {
            let list = words[at..at + names].join(" ");
            errors.push((list.trim_end_matches(':').to_owned(), String::new()));
            at += names;
            continue;
        }
        let to = errors.last_mut().map_or(&mut said, |(_, text)| text);
        let _ = write!(to, "{}{}", if to.is_empty() { "" } else { " " }, words[at]);
        at += 1;
    }
    (said, errors)
}

impl Calls<'_> {
    fn page(&self, header: &Header) -> String {
        let (said, own) = errors(&self.comment);
        let returns = |what| self.declarations.iter().any(|one| one.starts_with(what));
        // What is said of all sends is of those that return a count.
        let part = header.parts.get(self.part).filter(|_| returns("ssize_t"));
        let part = part.map_or("", String::as_str);
        let (said_of_all, others) = errors(part);
        let short = said.split([':', ',', '.', '(', ';']).next();
        let short = short.unwrap_or_default().trim().replace('`', "");
        let mut text = head(self.names[0]);
        let _ = writeln!(text, "{} \\- {}", self.names.join(", "), plain(&short));
        let _ = writeln!(
            text,
            ".SH SYNOPSIS\n.nf\n\\fB#include <{}>\\fP\n",
            header.file
        );
        for declaration in &self.declarations {
            let _ = writeln!(
                text,
                "\\fB{}\\fP",
                plain(declaration).replace('\n', "\\fP\n\\fB")
            );
        }
        let _ = writeln!(
            text,
            ".fi\n.PP\nLink with {}.\n.SH DESCRIPTION",
            header.libraries
        );
        for paragraph in [said, said_of_all] {
            if !paragraph.is_empty() {
                let _ = writeln!(text, ".PP\n{}", marked(&paragraph));
            }
        }
        let on_results = header.about.iter().find(|one| one.starts_with("Calls"));
        if (returns("int") || returns("ssize_t"))
            && let Some(returned) = on_results
        {
            let _ = writeln!(text, ".SH RETURN VALUE\n{}", marked(returned));
        }
        let all: Vec<_> = own.iter().chain(&others).collect();
        if !all.is_empty() {
            text.push_str(".SH ERRORS\n");
        }
        for (names, why) in all {
            let _ = writeln!(text, ".TP\n.B {}\n{}", plain(names), marked(why));
        }
        let of_all = |beginning| {
            let mut about = header.about.iter();
            about.find_map(|one| one.strip_prefix(beginning))
        };
        let _ = writeln!(text, ".SH THREADS\n{}", marked(&self.threads));
        if let Some(said) = of_all(THREADS) {
            let _ = writeln!(text, ".PP\n{}", marked(said));
        }
        if let Some(said) = of_all("Forks: ") {
            let _ = writeln!(text, ".SH FORKS\n{}", marked(said));
        }
        let near = header.calls.iter().filter(|other| other.part == self.part);
        let near = near
            .flat_map(|other| &other.names)
            .filter(|name| !self.names.contains(name));
        see_also(&mut text, near.copied().chain([header.file]));
        text
    }
}

impl Header<'_> {
    fn page(&self) -> String {
        let file = self.file;
        let mut text = head(file);
        let title = self.about.first().map_or("", String::as_str);
        let title = title
            .trim_start_matches(&format!("{file}: "))
            .trim_end_matches('.');
        let _ = writeln!(text, "{file} \\- {}", plain(&title.replace('\n', " ")));
        let _ = writeln!(
            text,
            ".SH SYNOPSIS\n.B #include <{file}>\n.PP\nLink with {}.\n.SH DESCRIPTION",
            self.libraries
        );
        for paragraph in self.about.iter().skip(1) {
            let _ = writeln!(text, ".PP\n{}", marked(paragraph));
        }
        let _ = writeln!(
            text,
            ".SH TYPES\n.nf\n{}\n.fi",
            plain(&self.types.join("\n\n"))
        );
        see_also(
            &mut text,
            self.calls.iter().flat_map(|calls| &calls.names).copied(),
        );
        text
    }
}

fn head(name: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} 3 \"\" \"outboard {version}\" \"outboard\"\n.SH NAME\n")
}

fn see_also<'a>(text: &mut String, names: impl Iterator<Item = &'a str>) {
    let names: Vec<String> = names.map(|name| format!("\\fB{name}\\fP(3)")).collect();
    let _ = writeln!(text, ".SH SEE ALSO\n{}", names.join(", "));
}

/// Text of one paragraph: what is between backticks is a parameter.
fn marked(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let mut marked = String::new();
    for (at, piece) in text.split('`').enumerate() {
        let _ = match at % 2 {
            0 => write!(marked, "{}", plain(piece)),
            _ => write!(marked, "\\fI{}\\fP", plain(piece)),
        };
    }
    marked
}

/// What roff would read as its own.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let lines = text.split('\n').map(|line| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::{pages, read};

    const HEADER: &str = "/*\n * x.h: calls.\n *\n * Threads: all the same.\n */\n\n\
        /* Does it. -EINVAL: it cannot.\n * Threads: any,\n * one at a time. */\nint ob_do(int how);\n\n\
        /* Both. Threads: any. */\nint ob_one(void);\nint ob_other(void);\n";

    #[test]
    fn what_a_call_says_of_threads_stands_on_its_page_before_what_holds_for_all() {
        let header = read("x.h", "", HEADER).unwrap();
        let page = header.calls[0].page(&header);
        assert!(
            page.contains(".SH THREADS\nAny, one at a time.\n.PP\nAll the same.\n"),
            "{page}"
        );
        assert!(page.contains(".B \\-EINVAL\nIt cannot.\n"), "{page}");
        assert_eq!(header.calls[1].names, ["ob_one", "ob_other"]);
        assert_eq!(header.calls[1].comment, "Both.");
    }

    /// So that none is added without: `outboard generate` makes no page then.
    #[test]
    fn a_call_that_says_nothing_of_threads_is_refused() {
        for other in ["Both. */", "Both. Threads: */", "From any thread. */"] {
            let text = HEADER.replace("Both. Threads: any. */", other);
            let refused = read("x.h", "", &text).err().map(|error| error.to_string());
            assert!(refused.unwrap().contains("ob_one, ob_other"), "{other}");
        }
    }

    #[test]
    fn every_call_of_ours_says_what_threads_may_do_with_it() {
        let pages = pages().unwrap();
        let of_calls = pages.iter().filter(|(name, _)| !name.contains(".h."));
        for (name, page) in of_calls.clone() {
            assert!(page.contains(".SH THREADS\n"), "{name}");
        }
        assert!(of_calls.count() > 60);
    }

    /// Those that return nothing, or what cannot fail; and those that only a mistake of the program's own makes fail.
    const DO_NOT_FAIL: &str =
        "ob_detach ob_is_attached ob_queue_free ob_memory_data ob_memory_len ob_file_is_offloaded
        ob_unregister_file ob_wake ob_queue_fd ob_disarm ob_version";

    #[test]
    fn every_call_of_ours_that_can_fail_says_with_what() {
        let pages = pages().unwrap();
        let silent = |(name, page): &(String, String)| {
            let call = name
                .strip_suffix(".3")
                .filter(|call| call.starts_with("ob_"));
            call.filter(|_| !page.contains(".SH ERRORS\n"))
                .map(str::to_owned)
        };
        let mut silent: Vec<_> = pages.iter().filter_map(silent).collect();
        silent.retain(|call| !DO_NOT_FAIL.split_whitespace().any(|other| other == call));
        assert!(silent.is_empty(), "{silent:?}");
    }
}
