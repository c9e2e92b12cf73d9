//! What happened, as a page on a terminal.

use super::history::{History, Line as Figure};
use super::sample::Between;
use super::served::{By, Served, Sort};
use super::view::{KEYS, View};
use crate::load::short;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table};

/// All that is to be drawn.
pub struct Page<'a> {
    /// Which engine, in words.
    pub engine: &'a str,
    pub between: &'a Between,
    pub history: &'a History,
    pub view: &'a View,
    /// Why there is nothing new.
    pub trouble: Option<&'a str>,
}

/// The columns: heading, width, and by which order they stand first.
const COLUMNS: [(&str, u16, Option<Sort>); 10] = [
    ("Program", 15, Some(Sort::Name)),
    ("PID", 7, None),
    ("Conns", 7, Some(Sort::Conns)),
    ("Segs/s", 7, Some(Sort::Segs)),
    ("In B/s", 7, None),
    ("Out B/s", 8, Some(Sort::Bytes)),
    ("Again/s", 8, Some(Sort::Retrans)),
    ("Accept", 7, Some(Sort::Waits)),
    ("Unread", 7, None),
    ("Unacked", 7, None),
];

/// Those that a narrow terminal goes without, the least first.
const SPARE: [usize; 6] = [9, 8, 1, 7, 6, 3];
/// Columns of the terminal that the last one has at least.
const LAST: u16 = 16;

/// The columns that fit, by their numbers.
fn columns(width: u16) -> Vec<usize> {
    let mut all: Vec<usize> = (0..COLUMNS.len()).collect();
    for spare in SPARE {
        let wide: u16 = all.iter().map(|column| COLUMNS[*column].1 + 1).sum();
        if wide + LAST > width {
            all.retain(|column| *column != spare);
        }
    }
    all
}

impl Page<'_> {
    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let above = self.above();
        let [head, figures, table, last] = Layout::vertical([
            Constraint::Length(above.len() as u16),
            Constraint::Length(4),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(above), head);
        self.figures(frame, figures);
        self.table(frame, table);
        frame.render_widget(self.last_line(), last);
        if self.view.help {
            help(frame);
        }
    }

    /// What is true of all that are served.
    fn above(&self) -> Vec<Line<'static>> {
        let b = self.between;
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let mut title = vec![Span::styled(self.engine.to_owned(), bold)];
        title.push(format!(", every {:?}", self.view.interval).into());
        if self.view.paused {
            title.push(Span::styled("  STANDS STILL (space goes on)", bold));
        }
        let drops: Vec<String> = b.reasons.iter().take(3).map(named).collect();
        let drops = match &drops[..] {
            [] => String::new(),
            some => format!(" ({})", some.join(", ")),
        };
        let mut worker: Vec<String> = b
            .worker
            .iter()
            .map(|(state, share)| format!("{state} {:.0} %", share * 100.0))
            .collect();
        worker.extend(b.worker_core.map(|core| format!("on core {core}")));
        let mut lines = vec![
            Line::from(title),
            Line::from(format!(
                "{} connections, {} accepted/s, {} failed/s, {} exchanges/s, {} segments/s",
                b.connections,
                short(b.accepted),
                short(b.failed),
                short(b.exchanges),
                short(b.segments),
            )),
            Line::from(format!(
                "{}B/s in, {}B/s out, {} sent again/s, {} dropped/s{drops}",
                short(b.bytes_in),
                short(b.bytes_out),
                short(b.retransmits),
                short(b.drops),
            )),
            Line::from(format!(
                "engine: {:.0} % of a core (worker: {}; longest turn {:.1} ms)",
                b.cpu * 100.0,
                worker.join(", "),
                b.longest_turn * 1e3,
            )),
        ];
        for core in &b.cores {
            let all = core.all.map_or(String::new(), |all| {
                format!(" of it {:.0} % in use", all * 100.0)
            });
            lines.push(Line::from(format!(
                "  core {}: engine {:.0} % ({}),{all}",
                core.number,
                core.engine * 100.0,
                core.threads
            )));
        }
        lines
    }

    /// How it was some time back.
    fn figures(&self, frame: &mut Frame<'_>, area: Rect) {
        let history = self.history;
        let rows = Layout::vertical([Constraint::Length(1); 4]).split(area);
        let percent = |value: f64| format!("{:.0} %", value * 100.0);
        let per_second = |value: f64| format!("{}/s", short(value));
        let bytes = |value: f64| format!("{}B/s", short(value));
        figure(frame, rows[0], "bytes", &history.bytes, &bytes);
        figure(frame, rows[1], "exchanges", &history.exchanges, &per_second);
        figure(frame, rows[2], "engine", &history.cpu, &percent);
    }

    /// Who is served.
    fn table(&self, frame: &mut Frame<'_>, area: Rect) {
        let view = self.view;
        let rows = self
            .between
            .served(view.by, view.sort, view.reverse, &view.filter);
        let place = match view.by {
            By::Program => "Listens on",
            By::Listener => "Listener",
        };
        let order = if view.reverse { "▲" } else { "▼" };
        let columns = columns(area.width);
        let headings = columns.iter().map(|column| {
            let (name, _, sort) = COLUMNS[*column];
            let mark = if sort == Some(view.sort) { order } else { "" };
            cell(format!("{name}{mark}"), *column)
        });
        let headings = Row::new(headings.chain([Line::from(place)]))
            .style(Style::new().add_modifier(Modifier::REVERSED));
        let skipped = view.skipped.min(rows.len().saturating_sub(1));
        let widths = columns
            .iter()
            .map(|column| Constraint::Length(COLUMNS[*column].1));
        let widths = widths.chain([Constraint::Min(1)]);
        let rows = rows.into_iter().skip(skipped);
        let rows = rows.map(|served| Row::new(cells(served, &columns)));
        frame.render_widget(Table::new(rows, widths).header(headings), area);
    }

    fn last_line(&self) -> Line<'static> {
        let view = self.view;
        if let Some(trouble) = self.trouble {
            let reversed = Style::new().add_modifier(Modifier::REVERSED);
            return Line::styled(trouble.to_owned(), reversed);
        }
        if view.writes {
            return format!("filter: {}█  (Enter keeps it, Esc clears it)", view.filter).into();
        }
        let filter = match &view.filter[..] {
            "" => "/ filter".to_owned(),
            text => format!("/ filter: {text} (Esc clears it)"),
        };
        format!("q end  h help  s sort  r reverse  l listeners  {filter}  space stand still").into()
    }
}

fn named((reason, rate): &(String, f64)) -> String {
    format!("{reason} {}", short(*rate))
}

fn cell(text: String, column: usize) -> Line<'static> {
    // One that is longer than its column keeps what it begins with.
    let text: String = text.chars().take(COLUMNS[column].1.into()).collect();
    let name = column == 0;
    let alignment = if name {
        Alignment::Left
    } else {
        Alignment::Right
    };
    Line::from(text).alignment(alignment)
}

fn cells(served: &Served, columns: &[usize]) -> Vec<Line<'static>> {
    let pid = served.pid.map_or_else(|| "-".into(), |pid| pid.to_string());
    let texts = [
        served.name.clone(),
        pid,
        served.connections.to_string(),
        short(served.segments),
        short(served.bytes_in),
        short(served.bytes_out),
        short(served.retransmits),
        served.waiting.to_string(),
        short(served.unread as f64),
        short(served.unacked as f64),
    ];
    let cells = columns
        .iter()
        .map(|column| cell(texts[*column].clone(), *column));
    cells.chain([Line::from(served.places())]).collect()
}

/// A figure over time: its name, a block for each time, the latest to the right, and the greatest.
fn figure(
    frame: &mut Frame<'_>,
    area: Rect,
    name: &'static str,
    figure: &Figure,
    words: &dyn Fn(f64) -> String,
) {
    let [left, middle, right] = Layout::horizontal([
        Constraint::Length(10),
        Constraint::Min(1),
        Constraint::Length(18),
    ])
    .areas(area);
    let shown = usize::from(middle.width);
    let most = figure.most(shown);
    // Of thousandths: the blocks have eight heights.
    let scaled = |value: f64| (value / most.max(f64::MIN_POSITIVE) * 1000.0) as u64;
    let mut values: Vec<u64> = figure.last(shown).map(scaled).collect();
    let missing = shown - values.len();
    values.splice(0..0, std::iter::repeat_n(0, missing));
    frame.render_widget(Line::from(name), left);
    frame.render_widget(Sparkline::default().data(values).max(1000), middle);
    frame.render_widget(Line::from(format!(" up to {}", words(most))), right);
}

fn help(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, what)| Line::from(format!("{key:>10}  {what}")))
        .collect();
    let area = frame.area();
    let wide = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let area = area.centered(
        Constraint::Length(wide),
        Constraint::Length(lines.len() as u16 + 2),
    );
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" Keys ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::two_seconds;
    use super::super::view::tests::view;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(view: &View, size: (u16, u16), trouble: Option<&str>) -> String {
        let mut history = History::default();
        let between = two_seconds();
        history.add(&Between::default());
        history.add(&between);
        let page = Page {
            engine: "engine default",
            between: &between,
            history: &history,
            view,
            trouble,
        };
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| page.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_page_shows_who_is_served_and_how_it_was() {
        let text = drawn(&view(), (120, 24), None);
        for part in [
            "engine default, every 1s",
            "3 connections",
            "2 dropped/s (b 2, a 0)",
            "engine: 50 % of a core (worker: busy 50 %; longest turn 0.0 ms)",
            "core 1: engine 50 % (worker)",
            "Out B/s▼",
            "0.0.0.0:80 0.0.0.0:443",
            "█ up to 2000B/s",
            "space stand still",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
        assert!(at("nginx") < at("curl"), "{text}");
    }

    #[test]
    fn a_page_is_as_it_was_asked_for() {
        let listeners = View {
            by: By::Listener,
            filter: "nginx".into(),
            writes: true,
            ..view()
        };
        let text = drawn(&listeners, (120, 24), None);
        assert!(
            text.contains("Listener") && !text.contains("curl"),
            "{text}"
        );
        assert!(text.contains("filter: nginx█"), "{text}");
        let help = View {
            help: true,
            ..view()
        };
        let text = drawn(&help, (120, 30), None);
        for (key, what) in KEYS {
            assert!(text.contains(key) && text.contains(what), "{key}: {text}");
        }
        let trouble = drawn(&view(), (120, 24), Some("the engine has ended"));
        assert!(trouble.contains("the engine has ended"), "{trouble}");
    }

    #[test]
    fn a_narrow_terminal_goes_without_some_columns() {
        assert_eq!(columns(120).len(), COLUMNS.len());
        assert_eq!(columns(60), [0, 2, 4, 5]);
        let text = drawn(&view(), (60, 20), None);
        assert!(
            text.contains("Out B/s▼") && text.contains("0.0.0.0:80"),
            "{text}"
        );
        assert!(!text.contains("PID"), "{text}");
    }

    #[test]
    fn a_page_fits_any_terminal() {
        for size in [(1, 1), (20, 3), (80, 5), (300, 100)] {
            let help = View {
                help: true,
                skipped: 99,
                ..view()
            };
            drawn(&help, size, None);
        }
    }
}
