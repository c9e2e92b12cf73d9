//! The arrows inside a package, on small made-up trees.

use super::circles;
use super::files::complaint;
use super::modules::Modules;
use std::path::Path;

/// The modules of a tree: each file's path and text.
fn tree(files: &[(&str, &str)]) -> anyhow::Result<Modules> {
    let text = |file: &Path| {
        let found = files.iter().find(|(path, _)| Path::new(path) == file);
        found.map(|(_, text)| (*text).to_owned())
    };
    Modules::read(Path::new("src/lib.rs"), &text)
}

/// Every arrow of a tree, as `a.rs > b.rs`.
fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let arrows = tree(files).expect("every file is there").arrows();
    let short = |path: &Path| path.display().to_string().replace("src/", "");
    arrows
        .keys()
        .map(|(from, to)| format!("{} > {}", short(from), short(to)))
        .collect()
}

/// The shortest ways round the circles of a tree.
fn ways(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let arrows = tree(files).expect("every file is there").arrows();
    let circles = circles::of(&arrows);
    circles.into_iter().map(|circle| circle.shortest).collect()
}

const LIB: (&str, &str) = ("src/lib.rs", "mod a; mod b; mod c;");

#[test]
fn two_files_that_import_each_other_are_a_circle_and_the_lines_are_named() {
    let files = [
        LIB,
        ("src/a.rs", "//! A.\nuse crate::b::B;\npub struct A(B);"),
        ("src/b.rs", "pub struct B;\nfn f() { super::a::A::g() }"),
        ("src/c.rs", "use crate::a::A;"),
    ];
    assert_eq!(
        ways(&files),
        [[
            "src/a.rs:2 imports crate::b::B from src/b.rs",
            "src/b.rs:2 imports super::a::A::g from src/a.rs",
        ]]
    );
}

#[test]
fn the_shortest_way_round_is_told_of_a_larger_circle() {
    let files = [
        LIB,
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "use crate::c::C; pub struct B;"),
        ("src/c.rs", "use crate::{a::A, b::B}; pub struct C;"),
    ];
    let arrows = tree(&files).unwrap().arrows();
    let circles = circles::of(&arrows);
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].files.len(), 3);
    assert_eq!(circles[0].shortest.len(), 2, "{:?}", circles[0].shortest);
}

#[test]
fn arrows_that_only_point_down_are_no_circle() {
    let files = [
        LIB,
        ("src/a.rs", "use crate::{b::B, c::C}; pub struct A;"),
        ("src/b.rs", "use crate::c::C; pub struct B;"),
        ("src/c.rs", "pub struct C;"),
    ];
    assert_eq!(
        arrows(&files),
        ["a.rs > b.rs", "a.rs > c.rs", "b.rs > c.rs"]
    );
    assert!(ways(&files).is_empty());
}

#[test]
fn a_parent_that_only_hands_names_on_imports_nothing() {
    let files = [
        ("src/lib.rs", "mod a; pub use a::{One, Two};"),
        (
            "src/a/mod.rs",
            "mod one; mod two; pub use one::One; pub(crate) use two::Two;",
        ),
        ("src/a/one.rs", "use super::Two; pub struct One(Two);"),
        ("src/a/two.rs", "pub struct Two;"),
    ];
    assert_eq!(arrows(&files), ["a/one.rs > a/two.rs"]);
}

#[test]
fn a_parent_that_uses_a_child_that_imports_from_it_is_a_circle() {
    let child = (
        "src/a/one.rs",
        "use super::A; pub struct One(A); pub fn go() {}",
    );
    for parent in [
        "mod one; pub struct A; fn f() { one::go() }",
        "mod one; use one::One; pub struct A;",
        "mod one; pub use one::One; pub struct A(Option<One>);",
        "mod one; pub use one::go; pub struct A; fn f() { go() }",
        "mod one; pub use one::*; pub struct A(One);",
    ] {
        let files = [("src/lib.rs", "mod a;"), ("src/a.rs", parent), child];
        assert_eq!(
            arrows(&files),
            ["a/one.rs > a.rs", "a.rs > a/one.rs"],
            "{parent}"
        );
    }
    // It may declare such a child, and hand on what is there.
    let files = [
        ("src/lib.rs", "mod a;"),
        ("src/a.rs", "mod one; pub use one::{One, go}; pub struct A;"),
        child,
    ];
    assert_eq!(arrows(&files), ["a/one.rs > a.rs"]);
}

#[test]
fn an_arrow_ends_where_the_thing_is_defined() {
    let files = [
        LIB,
        (
            "src/a.rs",
            "use crate::b; use crate::b::Thing as Other; fn f() { b::thing(); }",
        ),
        ("src/b.rs", "pub use crate::c::*;"),
        ("src/c.rs", "pub fn thing() {} pub struct Thing;"),
    ];
    assert_eq!(arrows(&files), ["a.rs > c.rs"]);
}

#[test]
fn a_module_and_a_function_may_have_one_name() {
    let files = [
        LIB,
        (
            "src/a.rs",
            "use crate::b::check; fn f() { check(); check::deeper() }",
        ),
        ("src/b.rs", "pub mod check; pub use check::check;"),
        (
            "src/b/check.rs",
            "pub fn check() {} pub use crate::c::deeper;",
        ),
        ("src/c.rs", "pub fn deeper() {}"),
    ];
    assert_eq!(arrows(&files), ["a.rs > b/check.rs", "a.rs > c.rs"]);
}

#[test]
fn paths_in_macros_and_imports_in_functions_count() {
    let files = [
        LIB,
        ("src/a.rs", "fn f() { println!(\"{}\", crate::b::x()); }"),
        ("src/b.rs", "pub fn x() { use crate::c::y; y() }"),
        ("src/c.rs", "pub fn y() {}"),
    ];
    assert_eq!(arrows(&files), ["a.rs > b.rs", "b.rs > c.rs"]);
}

#[test]
fn a_macro_comes_from_the_module_above_that_has_it() {
    let files = [
        ("src/lib.rs", "macro_rules! m { () => { } } mod a;"),
        ("src/a.rs", "m!(); fn f(m: u8) -> bool { m != 1 }"),
    ];
    assert_eq!(arrows(&files), ["a.rs > lib.rs"]);
}

#[test]
fn what_is_for_tests_only_does_not_count() {
    let files = [
        LIB,
        (
            "src/a.rs",
            "#[cfg(test)] use crate::b::B;
             #[cfg(all(test, not(miri)))] const X: B = { crate::b::B };
             #[cfg(test)] #[allow(dead_code)] pub(crate) fn f<A, B>(b: crate::b::B) -> A { b.into() }
             struct A { #[cfg(test)] b: crate::b::B, c: crate::c::C }
             #[cfg(test)] mod tests;",
        ),
        ("src/b.rs", "pub struct B;"),
        ("src/c.rs", "pub struct C; #[cfg(not(test))] fn f() { crate::b::B; }"),
    ];
    assert_eq!(arrows(&files), ["a.rs > c.rs", "c.rs > b.rs"]);
}

#[test]
fn names_that_only_look_alike_do_not_count() {
    let files = [
        (
            "src/lib.rs",
            "mod a; pub use a::{Thing, go, one};
             use std::one::one as first; use anyhow::anyhow;
             /// [`crate::a::Thing`]
             pub enum Kind { Thing, Other(u8) }
             // crate::a::Thing
             fn f<'go>(x: &'go X) { x.go(); X::go(); Kind::Thing; let go = \"crate::a::go()\"; }",
        ),
        (
            "src/a.rs",
            "pub struct Thing; pub fn go() {} pub fn one() {}",
        ),
    ];
    assert!(arrows(&files).is_empty(), "{:?}", arrows(&files));
}

#[test]
fn a_module_inside_of_a_file_belongs_to_that_file() {
    let files = [
        LIB,
        (
            "src/a.rs",
            "pub mod inner { use super::A; use crate::b::B; } pub struct A;",
        ),
        ("src/b.rs", "pub struct B(crate::a::inner::C);"),
        ("src/c.rs", ""),
    ];
    assert_eq!(arrows(&files), ["a.rs > b.rs", "b.rs > a.rs"]);
}

#[test]
fn a_file_that_is_not_there_is_an_error() {
    let error = tree(&[("src/lib.rs", "\nmod gone;")]).err().unwrap();
    assert!(error.to_string().contains("src/lib.rs:2"), "{error}");
    // One that is named by a path is another program's.
    assert!(tree(&[("src/lib.rs", "#[path = \"../x.rs\"] mod gone;")]).is_ok());
}

#[test]
fn a_circle_is_told_with_the_lines_that_import() {
    let files = [
        LIB,
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "use crate::a::A; pub struct B;"),
        ("src/c.rs", ""),
    ];
    let circles = circles::of(&tree(&files).unwrap().arrows());
    let said = complaint("p", &circles).unwrap();
    assert!(said.contains("src/a.rs:1 imports crate::b::B"), "{said}");
    assert_eq!(complaint("p", &[]), None);
}

#[test]
fn a_file_that_writes_a_part_of_a_type_of_a_module_above_belongs_to_that_type() {
    let parent = "mod one; pub struct A<T>(one::Part, T); pub struct B; pub trait Go {}";
    for (child, found) in [
        (
            "use super::A; pub struct Part; impl<T: Fn() -> u8> A<T> { fn f(a: A<T>) {} }",
            false,
        ),
        (
            "use super::A; pub struct Part; impl<T> Clone for A<T> where T: Clone {}",
            false,
        ),
        (
            "pub struct Part; impl<T> super::A<T> { fn f() { super::A::g() } }",
            false,
        ),
        // It only uses the type, or something else besides.
        ("use super::A; pub struct Part; fn f(a: A) {}", true),
        (
            "use super::{A, B}; pub struct Part; impl<T> A<T> { fn f(b: B) {} }",
            true,
        ),
        ("use super::Go; pub struct Part; impl Go for Part {}", true),
    ] {
        let files = [
            ("src/lib.rs", "mod a;"),
            ("src/a.rs", parent),
            ("src/a/one.rs", child),
        ];
        assert_eq!(!ways(&files).is_empty(), found, "{child}");
    }
    // Only below it: what stands beside is another part of the house.
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "use crate::b::B; pub struct A;"),
        ("src/b.rs", "use crate::a::A; pub struct B; impl A {}"),
    ];
    assert_eq!(ways(&files).len(), 1);
}
