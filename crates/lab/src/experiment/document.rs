//! A report as parts, which are written as Markdown and as HTML, so that both say the same.

use std::fmt::Write;

/// A part of a report.
#[derive(Clone, Debug)]
pub enum Part {
    /// What stands above all.
    Title(String),
    /// What stands above a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// What a reader must know before everything else.
    Warnings(Vec<String>),
    /// Points of a list.
    List(Vec<String>),
    /// A list of words, each with what it leads to.
    Links(Vec<(String, String)>),
    /// A table; the first column holds words, the others figures.
    Table {
        /// Column headings.
        head: Vec<String>,
        /// Rows of as many cells.
        rows: Vec<Vec<String>>,
    },
    /// A plot.
    Picture {
        /// What it shows.
        title: String,
        /// The file beside the report.
        file: String,
        /// Its text.
        svg: String,
    },
}

/// As Markdown, with plots in files beside it.
pub fn markdown(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let part = match part {
            Part::Title(words) => format!("# {words}\n"),
            Part::Heading(words) => format!("## {words}\n"),
            Part::Text(words) => format!("{words}\n"),
            Part::Warnings(points) if points.is_empty() => continue,
            Part::Warnings(points) => {
                points.iter().fold(String::new(), |mut text, point| {
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "> **Doubtful.** {point}\n>");
                    text
                })
            }
            Part::List(points) => points.iter().map(|point| format!("- {point}\n")).collect(),
            Part::Links(points) => points
                .iter()
                .map(|(words, to)| format!("- [{words}]({to})\n"))
                .collect(),
            Part::Table { head, rows } => {
                let line = |cells: &[String]| {
                    let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
                    format!("| {} |\n", cells.join(" | "))
                };
                let rule: Vec<&str> = (0..head.len())
                    .map(|column| if column == 0 { "---" } else { "---:" })
                    .collect();
                let rows: String = rows.iter().map(|row| line(row)).collect();
                format!("{}| {} |\n{rows}", line(head), rule.join(" | "))
            }
            Part::Picture { title, file, .. } => format!("![{title}]({file})\n"),
        };
        text.push_str(&part);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}\
th,td{border-bottom:1px solid #999;padding:.2em .8em;text-align:right}\
th:first-child,td:first-child{text-align:left}\
.doubtful{border:2px solid #000;padding:0 1em;margin:1em 0}\
figure{margin:1.5em 0}svg{max-width:100%;height:auto}";

/// As HTML, one file with everything in it.
pub fn html(parts: &[Part]) -> String {
    let title = parts.iter().find_map(|part| match part {
        Part::Title(words) => Some(escape(words)),
        _ => None,
    });
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title>\
         <style>{STYLE}</style></head><body>\n",
        title.unwrap_or_default()
    );
    for part in parts {
        let part = match part {
            Part::Title(words) => format!("<h1>{}</h1>", escape(words)),
            Part::Heading(words) => format!("<h2>{}</h2>", escape(words)),
            Part::Text(words) => format!("<p>{}</p>", escape(words)),
            Part::Warnings(points) if points.is_empty() => continue,
            Part::Warnings(points) => {
                let points: String = points
                    .iter()
                    .map(|point| format!("<p><strong>Doubtful.</strong> {}</p>", escape(point)))
                    .collect();
                format!("<div class=\"doubtful\">{points}</div>")
            }
            Part::List(points) => {
                let points: String = points
                    .iter()
                    .map(|point| format!("<li>{}</li>", escape(point)))
                    .collect();
                format!("<ul>{points}</ul>")
            }
            Part::Links(points) => {
                let link = |(words, to): &(String, String)| {
                    format!("<li><a href=\"{}\">{}</a></li>", escape(to), escape(words))
                };
                let points: String = points.iter().map(link).collect();
                format!("<ul>{points}</ul>")
            }
            Part::Table { head, rows } => {
                let row = |cells: &[String], tag: &str| -> String {
                    let cells: String = cells
                        .iter()
                        .map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)))
                        .collect();
                    format!("<tr>{cells}</tr>\n")
                };
                let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
                format!("<table>{}{rows}</table>", row(head, "th"))
            }
            Part::Picture { title, svg, .. } => {
                format!("<figure aria-label=\"{}\">{svg}</figure>", escape(title))
            }
        };
        text.push_str(&part);
        text.push('\n');
    }
    text + "</body></html>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{Part, html, markdown};

    #[test]
    fn both_forms_say_the_same() {
        let parts = [
            Part::Title("a < b".into()),
            Part::Warnings(vec!["the client was the limit".into()]),
            Part::Links(vec![("all of it".into(), "a&b/report".into())]),
            Part::Table {
                head: vec!["size".into(), "kernel".into()],
                rows: vec![vec!["1".into(), "2|3".into()]],
            },
        ];
        let text = markdown(&parts);
        assert_eq!(
            text,
            "# a < b\n\n> **Doubtful.** the client was the limit\n>\n\n- [all of it](a&b/report)\n\n\
             | size | kernel |\n| --- | ---: |\n| 1 | 2\\|3 |\n"
        );
        let page = html(&parts);
        for piece in [
            "<h1>a &lt; b</h1>",
            "the client was",
            "<a href=\"a&amp;b/report\">all of it</a>",
            "<td>2|3</td>",
        ] {
            assert!(page.contains(piece), "{piece} in {page}");
        }
    }
}
