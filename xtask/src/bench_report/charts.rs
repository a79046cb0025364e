//! Charts: how many times as fast ours is on each shape, and the roofline.

use super::figures::{Table, copy_rate, product_bytes, rate};
use super::record::Record;
use super::svg::{Anchor, COLOURS, Picture};

/// Title, name and picture of every chart of a run.
pub fn all(record: &Record) -> Vec<(String, String, String)> {
    let tables = Table::all(record);
    let mut charts = Vec::new();
    for section in ["bf16", "fp8"] {
        let of = |table: &&Table<'_>| table.first.section == section && table.is_plain();
        let chosen: Vec<&Table<'_>> = tables.iter().filter(of).collect();
        let title = format!("Products in {section}: times as fast as the first peer");
        charts
            .extend(bars(&title, &chosen).map(|chart| (title, format!("{section}-ratio"), chart)));
    }
    let layers = |table: &&Table<'_>| table.first.task == "layer" && table.is_plain();
    let chosen: Vec<&Table<'_>> = tables.iter().filter(layers).collect();
    let title = "Layers, forward and backward: times as fast as the first peer".to_owned();
    charts.extend(bars(&title, &chosen).map(|chart| (title, "layer-ratio".to_owned(), chart)));
    let title = "Roofline: products of this library".to_owned();
    let roofline = roofline(&title, record, &tables);
    charts.extend(roofline.map(|chart| (title, "roofline".to_owned(), chart)));
    charts
}

/// One panel for each table, in it a group of bars for each shape, in it a bar for each of ours.
fn bars(title: &str, tables: &[&Table<'_>]) -> Option<String> {
    let panels: Vec<_> = tables
        .iter()
        .filter_map(|table| {
            let ours = table.ours();
            let peer = *table.rivals(*ours.first()?).first()?;
            let series: Vec<_> = ours
                .into_iter()
                .map(|ours| (ours.name, table.ratios(ours, peer)))
                .filter(|(_, ratios)| !ratios.is_empty())
                .collect();
            (!series.is_empty()).then_some((table, peer, series))
        })
        .collect();
    let ratios = panels.iter().flat_map(|(_, _, series)| series).flat_map(|(_, ratios)| ratios);
    let most = ratios.map(|(_, ratio)| *ratio).fold(1.25f64, f64::max) * 1.05;
    let shapes = panels.iter().map(|(table, ..)| table.cases.len()).max()?;
    let (left, panel_height, width) = (60.0, 190.0, 120.0 + 52.0 * shapes.max(6) as f64);
    let mut picture = Picture::new(width, 40.0 + panel_height * panels.len() as f64);
    picture.text((width / 2.0, 24.0), Anchor::Middle, 16, title);
    for (number, (table, peer, series)) in panels.iter().enumerate() {
        let top = 70.0 + panel_height * number as f64;
        let (bottom, plot) = (top + 110.0, width - left - 20.0);
        let height = |ratio: f64| bottom - 110.0 * ratio / most;
        let case = table.first;
        let what = if case.task == "layer" { &case.section } else { &case.task };
        picture.text(
            (left, top - 12.0),
            Anchor::Start,
            13,
            &format!("{what}, beside {}", peer.rival_label()),
        );
        for (place, (ours, _)) in series.iter().enumerate() {
            let x = left + plot - 110.0 * (series.len() - place) as f64;
            picture.bar((x, top - 22.0), (10.0, 10.0), COLOURS[place % COLOURS.len()]);
            picture.text((x + 14.0, top - 13.0), Anchor::Start, 12, ours);
        }
        let step = plot / table.cases.len() as f64;
        for (column, (shape, _)) in table.cases.iter().enumerate() {
            let x = left + step * column as f64;
            picture.text((x + step / 2.0, bottom + 16.0), Anchor::Middle, 11, &shape.id);
            let wide = (step - 10.0) / series.len() as f64;
            for (place, (_, ratios)) in series.iter().enumerate() {
                let own = ratios.iter().find(|(other, _)| other.id == shape.id);
                let Some((_, ratio)) = own else { continue };
                let (x, y) = (x + 5.0 + wide * place as f64, height(*ratio));
                let colour = COLOURS[place % COLOURS.len()];
                picture.bar((x, y), (wide - 1.0, bottom - y), colour);
                if series.len() == 1 {
                    let middle = (x + wide / 2.0, y - 3.0);
                    picture.text(middle, Anchor::Middle, 10, &format!("{ratio:.2}"));
                }
            }
        }
        for ratio in [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0] {
            if ratio <= most {
                let y = height(ratio);
                picture.text((left - 8.0, y + 4.0), Anchor::End, 11, &format!("{ratio:.1}"));
                let colour = if ratio == 1.0 { "#222222" } else { "#dddddd" };
                if ratio <= 1.0 {
                    picture.line((left, y), (left + plot, y), colour);
                }
            }
        }
    }
    Some(picture.finish())
}

/// Rates over FLOPs a byte, below what a copy and a dense product of the same run reach.
fn roofline(title: &str, record: &Record, tables: &[Table<'_>]) -> Option<String> {
    let bandwidth = copy_rate(record)?;
    let mut points = Vec::new();
    let mut ceilings: Vec<(&str, f64)> = Vec::new();
    let products = |table: &&Table<'_>| table.is_plain();
    for table in tables.iter().filter(products) {
        let section = table.first.section.as_str();
        for (shape, case) in &table.cases {
            let Some(bytes) = product_bytes(shape, section, &case.task) else { continue };
            for times in &case.times {
                let Some(rate) = rate(case, times.us) else { continue };
                if times.ours {
                    points.push((section, case.flops / bytes, rate, &shape.id, &case.task, times));
                } else if times.name.starts_with("dense") {
                    match ceilings.iter_mut().find(|(own, _)| *own == section) {
                        Some((_, most)) => *most = most.max(rate),
                        None => ceilings.push((section, rate)),
                    }
                }
            }
        }
    }
    if points.is_empty() {
        return None;
    }
    let most_rate = points.iter().map(|point| point.2).chain(ceilings.iter().map(|c| c.1));
    let most_rate = most_rate.max_by(f64::total_cmp)? * 1.3;
    let span = |of: fn(f64, f64) -> f64, start| points.iter().map(|p| p.1).fold(start, of);
    let (least, most) = (span(f64::min, f64::INFINITY) / 1.5, span(f64::max, 0.0) * 1.5);
    let least_rate = points.iter().map(|point| point.2).fold(f64::INFINITY, f64::min) / 1.5;
    let (left, top, width, height) = (70.0, 50.0, 640.0, 380.0);
    let x = |intensity: f64| left + width * (intensity / least).ln() / (most / least).ln();
    let y = |rate: f64| {
        top + height - height * (rate / least_rate).ln() / (most_rate / least_rate).ln()
    };
    let mut picture = Picture::new(left + width + 150.0, top + height + 60.0);
    picture.text((left + width / 2.0, 24.0), Anchor::Middle, 16, title);
    picture.line((left, top + height), (left + width, top + height), "#222222");
    picture.line((left, top), (left, top + height), "#222222");
    let below = (left + width / 2.0, top + height + 45.0);
    picture.text(below, Anchor::Middle, 12, "FLOPs per byte that must be moved");
    picture.text((left, top - 8.0), Anchor::Middle, 12, "TFLOP/s");
    for power in 0..5 {
        for digit in [1.0, 2.0, 5.0] {
            let value = digit * 10f64.powi(power);
            if value > least && value < most {
                let text = format!("{value:.0}");
                picture.text((x(value), top + height + 18.0), Anchor::Middle, 11, &text);
            }
            if value > least_rate && value < most_rate {
                picture.line((left, y(value)), (left + width, y(value)), "#eeeeee");
                let text = format!("{value:.0}");
                picture.text((left - 8.0, y(value) + 4.0), Anchor::End, 11, &text);
            }
        }
    }
    // The slope leaves the picture below or on the left, and above or on the right.
    let from = least.max(least_rate / bandwidth);
    let to = most.min(most_rate / bandwidth);
    if from < to {
        let ends = [from, to].map(|intensity| (x(intensity), y(intensity * bandwidth)));
        picture.line(ends[0], ends[1], "#222222");
        let label = format!("copy, {bandwidth:.2} TB/s");
        picture.text((ends[1].0 - 6.0, ends[1].1 + 14.0), Anchor::End, 11, &label);
    }
    for (section, rate) in &ceilings {
        picture.line((left, y(*rate)), (left + width, y(*rate)), "#222222");
        let label = format!("dense {section}, {rate:.0}");
        picture.text((left + width + 6.0, y(*rate) + 4.0), Anchor::Start, 11, &label);
    }
    let mut names: Vec<String> = Vec::new();
    for (section, intensity, rate, shape, task, times) in &points {
        let name = if times.name == *section { (*section).to_owned() } else { times.name.clone() };
        let place = names.iter().position(|own| *own == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        let label =
            format!("{shape} {task} {name}: {rate:.0} TFLOP/s, {intensity:.0} FLOPs a byte");
        picture.point((x(*intensity), y(*rate)), COLOURS[place % COLOURS.len()], &label);
    }
    for (place, name) in names.iter().enumerate() {
        let (x, y) = (left + width + 10.0, top + height - 20.0 * (names.len() - place) as f64);
        picture.point((x, y - 4.0), COLOURS[place % COLOURS.len()], name);
        picture.text((x + 10.0, y), Anchor::Start, 12, name);
    }
    Some(picture.finish())
}
