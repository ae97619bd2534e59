//! Plots of a report as SVG, without external scripts, fonts or images.
//!
//! The colours are the palette of Okabe and Ito, which is safe for colour blindness; each has a
//! label. Own code, because plot libraries cannot follow a light or dark page.

use super::input::ReportInput;
use monitor_format::human;
use monitor_model::field::ProcessField as F;
use monitor_model::id::Ns;
use monitor_sampling::usage_report::{USAGE_COUNTERS, UsagePlot};
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Size of a plot and of its margins, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 28.0;
/// Maximum characters of a label.
const NAME: usize = 22;

/// The style sheet of the plots.
pub const STYLE: &str = "\
svg{font:12px system-ui,sans-serif;--ink:#222;--line:#ccc;--paper:#fff}
svg text{fill:var(--ink)} svg .grid{stroke:var(--line)} svg .paper{fill:var(--paper)}
svg .title{font-weight:600}
.c0{--c:#0072b2}.c1{--c:#e69f00}.c2{--c:#009e73}.c3{--c:#cc79a7}.c4{--c:#56b4e9}
.c5{--c:#d55e00}.c6{--c:#b8ad00}.c7{--c:#7a5195}.c8{--c:#999}
.area{fill:var(--c);stroke:var(--c);stroke-width:.5;fill-opacity:.8}
.line{fill:none;stroke:var(--c);stroke-width:1.5} .key{fill:var(--c)}
@media (prefers-color-scheme:dark){svg{--ink:#ddd;--line:#444;--paper:#16181c}}";

/// A labelled series of values in a plot.
struct Layer {
    name: String,
    /// `None` is a gap.
    values: Vec<Option<f64>>,
}

/// How layers are drawn: stacked areas or lines.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Stacked,
    Lines,
}

/// A plot.
struct Chart {
    title: &'static str,
    base: f64,
    shape: Shape,
    layers: Vec<Layer>,
}

/// All plots in one file. Writing to a `String` cannot fail.
pub fn all(input: &ReportInput<'_>) -> String {
    let plots = plots(input);
    let height = HEIGHT * plots.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    for (at, plot) in plots.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">{plot}</g>", HEIGHT * at as f64);
    }
    out + "</svg>\n"
}

/// Each plot as an element of its own.
pub fn each(input: &ReportInput<'_>) -> Vec<String> {
    let svg = |plot: &String| {
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">{plot}</svg>\n")
    };
    plots(input).iter().map(svg).collect()
}

fn plots(input: &ReportInput<'_>) -> Vec<String> {
    let Some(plot) = input.ledger.plot() else { return Vec::new() };
    let memory = vec![Layer { name: "in use".into(), values: plot.memory_used() }];
    let storage = rates(plot, &[(F::ReadBytes, "read"), (F::WrittenBytes, "written")]);
    let tcp = rates(plot, &[(F::TcpReceived, "received"), (F::TcpSent, "sent")]);
    let charts = [
        cpu(input, plot),
        bytes("Memory of the node, bytes", memory),
        bytes("Storage, bytes per second", storage),
        bytes("TCP, bytes per second", tcp),
    ];
    let drawn = |chart: &Chart| chart.layers.iter().any(|it| it.values.iter().any(Option::is_some));
    charts.iter().filter(|it| drawn(it)).map(|it| draw(it, plot.span())).collect()
}

fn cpu(input: &ReportInput<'_>, plot: &UsagePlot) -> Chart {
    let entries = input.ledger.entries();
    let shown = entries.iter().take(super::input::PLOTTED).enumerate();
    let mut layers: Vec<_> = shown
        .map(|(at, (_, entry))| {
            let pid = entry.id.map(|id| format!(" {}", id.pid.0)).unwrap_or_default();
            Layer { name: format!("{}{pid}", entry.name), values: plot.cpu(at) }
        })
        .collect();
    let mut rest = plot.all_cpu();
    for layer in &layers {
        for (rest, value) in rest.iter_mut().zip(&layer.values) {
            *rest = rest.map(|rest| (rest - value.unwrap_or(0.0)).max(0.0));
        }
    }
    // Rounding leaves small remainders where there is no other process.
    if rest.iter().flatten().any(|it| *it > 0.01) {
        layers.push(Layer { name: "all others".into(), values: rest });
    }
    let title = "CPU, percent of one processor";
    Chart { title, base: 1000.0, shape: Shape::Stacked, layers }
}

/// Lines of byte counts.
fn bytes(title: &'static str, layers: Vec<Layer>) -> Chart {
    Chart { title, base: 1024.0, shape: Shape::Lines, layers }
}

fn rates(plot: &UsagePlot, fields: &[(F, &str)]) -> Vec<Layer> {
    let layer = |(field, name): &(F, &str)| {
        let counter = USAGE_COUNTERS.iter().position(|it| it == field)?;
        let values = plot.rate(counter);
        let any = values.iter().flatten().any(|it| *it > 0.0);
        any.then(|| Layer { name: (*name).to_owned(), values })
    };
    fields.iter().filter_map(layer).collect()
}

/// Maps values to coordinates.
struct Scale {
    most: f64,
    parts: usize,
}

impl Scale {
    fn x(&self, part: usize) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * part as f64 / self.parts.saturating_sub(1).max(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / self.most
    }
}

fn draw(chart: &Chart, span: (Ns, Ns)) -> String {
    let parts = chart.layers.iter().map(|it| it.values.len()).max().unwrap_or(0);
    let at = |part: usize| chart.layers.iter().map(move |it| it.values[part].unwrap_or(0.0));
    let highest = |part| match chart.shape {
        Shape::Stacked => at(part).sum(),
        Shape::Lines => at(part).fold(0.0, f64::max),
    };
    let most = (0..parts).map(highest).fold(0.0, f64::max);
    let step = step(most, chart.base);
    let scale = Scale { most: (most / step).ceil().max(1.0) * step, parts };
    let mut out = format!("<text class=\"title\" x=\"{LEFT}\" y=\"16\">{}</text>", chart.title);
    axes(chart.base, step, span, &scale, &mut out);
    match chart.shape {
        Shape::Stacked => areas(&chart.layers, &scale, &mut out),
        Shape::Lines => lines(&chart.layers, &scale, &mut out),
    }
    names(&chart.layers, &mut out);
    out
}

/// Distance of grid lines: about four of them, at round numbers.
fn step(most: f64, base: f64) -> f64 {
    let rough = (most / 4.0).max(1e-9);
    let unit = base.powf(rough.log(base).floor());
    let round = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, base];
    unit * round.into_iter().find(|it| it * unit >= rough).unwrap_or(base)
}

fn axes(base: f64, step: f64, (from, to): (Ns, Ns), scale: &Scale, out: &mut String) {
    let right = WIDTH - RIGHT;
    let mut value = 0.0;
    while value <= scale.most * 1.001 {
        let y = scale.y(value);
        let label = human::scaled_text(value, base);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{right}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            LEFT - 6.0,
            y + 4.0,
        );
        value += step;
    }
    for quarter in 0..=4_u64 {
        let at = Ns(from.0 + to.since(from).0 / 4 * quarter);
        let x = LEFT + (right - LEFT) * quarter as f64 / 4.0;
        let anchor = ["start", "middle", "middle", "middle", "end"][quarter as usize];
        let y = HEIGHT - 8.0;
        let _ = write!(
            out,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>",
            clock(at)
        );
    }
}

/// Hours, minutes and seconds, UTC.
fn clock(at: Ns) -> String {
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(at.0));
    text.to_string().get(11..20).unwrap_or_default().to_owned()
}

fn areas(layers: &[Layer], scale: &Scale, out: &mut String) {
    let mut below = vec![0.0; scale.parts];
    for (at, layer) in layers.iter().enumerate() {
        let above: Vec<_> =
            below.iter().zip(&layer.values).map(|(low, it)| low + it.unwrap_or(0.0)).collect();
        let mut path = String::new();
        for (part, value) in above.iter().enumerate() {
            let letter = if part == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{:.1} {:.1}", scale.x(part), scale.y(*value));
        }
        for (part, value) in below.iter().enumerate().rev() {
            let _ = write!(path, "L{:.1} {:.1}", scale.x(part), scale.y(*value));
        }
        let _ = write!(out, "<path class=\"area c{at}\" d=\"{path}Z\"/>");
        below = above;
    }
}

fn lines(layers: &[Layer], scale: &Scale, out: &mut String) {
    for (at, layer) in layers.iter().enumerate() {
        let (mut path, mut begun) = (String::new(), false);
        for (part, value) in layer.values.iter().enumerate() {
            let Some(value) = value else {
                begun = false;
                continue;
            };
            let letter = if begun { 'L' } else { 'M' };
            let _ = write!(path, "{letter}{:.1} {:.1}", scale.x(part), scale.y(*value));
            begun = true;
        }
        let _ = write!(out, "<path class=\"line c{at}\" d=\"{path}\"/>");
    }
}

fn names(layers: &[Layer], out: &mut String) {
    let x = WIDTH - RIGHT + 14.0;
    for (at, layer) in layers.iter().enumerate() {
        let y = TOP + 8.0 + 20.0 * at as f64;
        let _ = write!(
            out,
            "<rect class=\"key c{at}\" x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            y - 9.0,
            x + 16.0,
            y,
            quoted(&layer.name.chars().take(NAME).collect::<String>()),
        );
    }
}

/// Escapes a text for SVG and HTML, including control characters.
pub fn quoted(text: &str) -> String {
    let safe = human::escaped_text(text);
    let mut out = String::with_capacity(safe.len());
    for letter in safe.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grid_lines_are_at_round_numbers() {
        for (most, base, wanted) in [
            (100.0, 1000.0, 50.0),
            (4.0, 1000.0, 1.0),
            (1700.0, 1000.0, 500.0),
            (0.0, 1000.0, 1e-9),
            (8192.0, 1024.0, 2048.0),
        ] {
            assert!((step(most, base) / wanted - 1.0).abs() < 1e-9, "{most}: {}", step(most, base));
        }
    }

    #[test]
    fn markup_in_names_is_escaped() {
        assert_eq!(quoted("<b a='\"&\u{1b}"), "&lt;b a=&#39;&quot;&amp;\\u{1b}");
    }
}
