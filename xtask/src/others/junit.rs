//! The results of a suite in JUnit's XML, as far as CPython's runner writes it: one element a test, with
//! an element inside it for each way in which it did not pass.

use super::results::Results;

/// Reads the results of `text`. A test that has parts of its own has passed if all of them have.
pub fn read(text: &str) -> Results {
    let mut results = Results::new();
    for case in text.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        let Some(name) = attribute(case, "name") else {
            continue;
        };
        if case.contains("<skipped") {
            continue;
        }
        let passed = !case.contains("<failure") && !case.contains("<error");
        *results.entry(name.to_owned()).or_insert(true) &= passed;
    }
    results
}

fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = element.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_its_result() {
        let text = "<testsuites><testsuite>\
            <testcase name=\"a.good\" status=\"run\" result=\"completed\" time=\"0.1\" />\
            <testcase name=\"a.bad\" status=\"run\"><failure message=\"x\">no</failure></testcase>\
            <testcase name=\"a.odd\" status=\"run\"><error type=\"OSError\">95</error></testcase>\
            <testcase name=\"a.none\" status=\"run\"><skipped>no CAN</skipped></testcase>\
            </testsuite></testsuites>";
        let expected = [("a.bad", false), ("a.good", true), ("a.odd", false)];
        let expected = expected.map(|(name, passed)| (name.to_owned(), passed));
        assert_eq!(read(text), Results::from(expected));
        assert!(read("").is_empty());
    }
}
