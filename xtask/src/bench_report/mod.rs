//! `cargo xtask bench-report`: what `grouped-linear bench --out` wrote, as tables in
//! docs/benchmarks.md and charts beside it.

mod charts;
mod figures;
#[path = "../../../cli/src/bench/measure/record.rs"]
mod record;
mod svg;
mod tables;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::record::{FORMAT, Record};
use crate::commands;

/// Where the generated part begins and ends.
const BEGIN: &str = "<!-- bench-report: begin -->";
const END: &str = "<!-- bench-report: end -->";
/// The document, and the folder of its charts and of the runs they are made from.
const DOCUMENT: &str = "docs/benchmarks.md";
const FOLDER: &str = "docs/bench";

/// What a report consists of.
#[derive(Debug, PartialEq)]
struct Report {
    /// The generated part of the document, without its marks.
    text: String,
    /// Charts by file name.
    charts: BTreeMap<String, String>,
}

/// Writes the report of these runs, by default those in `docs/bench`.
pub fn write(root: &Path, runs: &[&str]) -> Result<()> {
    let report = report(root, runs)?;
    let path = root.join(DOCUMENT);
    let document = replaced(&commands::read(&path)?, &report.text)?;
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for stale in stale_charts(&folder, &report)? {
        let stale = folder.join(stale);
        std::fs::remove_file(&stale).with_context(|| format!("removing {}", stale.display()))?;
    }
    for (name, chart) in &report.charts {
        commands::write(&folder.join(name), chart)?;
    }
    commands::write(&path, &document)?;
    println!("{DOCUMENT} and {} charts in {FOLDER}", report.charts.len());
    Ok(())
}

/// Compares the report with what is there.
pub fn check(root: &Path, runs: &[&str]) -> Result<()> {
    let report = report(root, runs)?;
    let folder = root.join(FOLDER);
    let document = commands::read(&root.join(DOCUMENT))?;
    let mut differ = Vec::new();
    if replaced(&document, &report.text)? != document {
        differ.push(DOCUMENT.to_owned());
    }
    for (name, chart) in &report.charts {
        let path = folder.join(name);
        if !path.is_file() || commands::read(&path)? != *chart {
            differ.push(format!("{FOLDER}/{name}"));
        }
    }
    if folder.is_dir() {
        let stale = stale_charts(&folder, &report)?;
        differ.extend(stale.into_iter().map(|name| format!("{FOLDER}/{name}")));
    }
    ensure!(
        differ.is_empty(),
        "{} would be written otherwise: run `cargo xtask bench-report`",
        differ.join(", ")
    );
    Ok(())
}

fn report(root: &Path, runs: &[&str]) -> Result<Report> {
    let runs = match runs {
        [] => shipped_runs(&root.join(FOLDER))?,
        named => named.iter().map(PathBuf::from).collect(),
    };
    ensure!(!runs.is_empty(), "no run was named, and there is none in {FOLDER}");
    let records = runs
        .iter()
        .map(|path| {
            let text = commands::read(path)?;
            parse(&text).with_context(|| format!("reading {}", path.display()))
        })
        .collect::<Result<Vec<_>>>()?;
    make(&records)
}

/// The runs beside the charts, by name.
fn shipped_runs(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut runs: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    runs.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    runs.sort();
    Ok(runs)
}

fn stale_charts(folder: &Path, report: &Report) -> Result<Vec<String>> {
    let mut stale = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".svg") && !report.charts.contains_key(&name) {
            stale.push(name);
        }
    }
    stale.sort();
    Ok(stale)
}

fn parse(text: &str) -> Result<Record> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(format) if format == u64::from(FORMAT) => Ok(serde_json::from_value(value)?),
        Some(format) => bail!("it has format {format}, this program reads {FORMAT}"),
        None => bail!("it is no run of `grouped-linear bench`"),
    }
}

fn make(records: &[Record]) -> Result<Report> {
    let mut text = String::new();
    let mut charts = BTreeMap::new();
    for record in records {
        let _ = writeln!(
            text,
            "\n### {}, {}\n",
            record.date.replace(['T', 'Z'], " ").trim(),
            record.gpu.name
        );
        text += &tables::about(record);
        for (title, name, chart) in charts::all(record) {
            // A date names a run, and stays readable in a file's name.
            let file = format!("{}-{name}.svg", record.date.replace(':', ""));
            ensure!(!charts.contains_key(&file), "two runs began at {}", record.date);
            let _ = writeln!(text, "\n![{title}](bench/{file})");
            charts.insert(file, chart);
        }
        text += &tables::all(record);
    }
    Ok(Report { text: format!("{}\n", text.trim_end()), charts })
}

/// The document with another generated part.
fn replaced(document: &str, text: &str) -> Result<String> {
    let marks = || format!("{DOCUMENT} needs `{BEGIN}` and behind it `{END}`, each once");
    let (before, rest) = document.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    ensure!(!after.contains(BEGIN) && !after.contains(END), marks());
    Ok(format!("{before}{BEGIN}\n{text}{END}{after}"))
}

#[cfg(test)]
mod tests;
