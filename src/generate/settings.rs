//! The manual page of the engine's configuration, outboard.toml(5), from the documented example.

use std::fmt::Write;

const EXAMPLE: &str = include_str!("../../docs/engine.toml");

/// The page.
pub fn page() -> String {
    let mut text = format!(
        ".TH outboard.toml 5 \"\" \"outboard {}\"\n.SH NAME\noutboard.toml \\- configuration of an \
         outboard engine\n.SH SYNOPSIS\n/etc/outboard/NAME.toml\n.SH DESCRIPTION\n\
         What outboard\\-engine(1) reads with \\-\\-config, in TOML. Every setting has a default but \
         interface. outboard engine \\-\\-check says what is wrong in a file; outboard reload has a \
         running engine read it again.\n.SH SETTINGS\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut said = Vec::new();
    // The lines up to the first blank one are about the file.
    let settings = EXAMPLE.split_once("\n\n").map_or("", |(_, rest)| rest);
    for line in settings.lines() {
        let commented = line.strip_prefix("# ");
        let setting = commented.unwrap_or(line);
        let is_setting = setting.split_once(" = ").is_some_and(|(name, _)| {
            name.bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        if is_setting {
            let _ = writeln!(
                text,
                ".TP\n\\fB{}\\fR\n{}",
                escaped(setting),
                said.join("\n")
            );
            said.clear();
        } else if let Some(comment) = commented {
            said.push(escaped(comment));
        } else if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let _ = writeln!(text, ".SS [{table}]\n{}", said.join("\n"));
            said.clear();
        } else if !line.is_empty() {
            said.push(escaped(line));
        }
    }
    text += ".SH SEE ALSO\noutboard\\-engine(1), outboard\\-reload(1)\n";
    text
}

/// As roff wants it.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-");
    match text.strip_prefix(['.', '\'']) {
        Some(_) => format!("\\&{text}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn every_setting_has_its_place() {
        let page = page();
        for line in super::EXAMPLE.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, _)) = line.split_once(" = ") {
                assert!(page.contains(&format!("\n\\fB{name} = ")), "{name}: {page}");
            }
        }
        for table in ["offload", "tcp", "limits", "access", "metrics"] {
            assert!(page.contains(&format!("\n.SS [{table}]\n")), "{table}");
        }
        assert!(
            page.contains("\n\\fBlisten = \"127.0.0.1:9464\"\\fR\n"),
            "{page}"
        );
    }
}
