//! Tables in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::figures::{
    Mean, Ratios, SETS, Table, Who, copy_rate, mean, of, product_bytes, rate, ratios_of_three,
};
use super::record::{COPY, CaseRecord, Check, Quantity, Record, Rest, Times};

/// What a reader must know of a run.
pub fn about(record: &Record) -> String {
    let Record { gpu, settings, .. } = record;
    let mut text = String::new();
    if let Some(failure) = &record.failure {
        let _ = writeln!(text, "**The run ended early: {}.**\n", escaped(failure));
    }
    let driver = gpu.driver.as_deref().unwrap_or("unknown");
    let _ = write!(text, "{} (driver {driver}), grouped-linear {}", gpu.name, record.version);
    if let Some(peer) = &record.peer {
        let versions = peer.versions.iter().map(|(name, version)| format!("{name} {version}"));
        let _ = write!(text, "; peers: {}", versions.collect::<Vec<_>>().join(", "));
    }
    let turns = if settings.turns { "contenders in turn" } else { "contenders one by one" };
    let _ = write!(
        text,
        ".\nMedians of {} rounds after {}, {turns}, normal random data of seed {}",
        settings.rounds, settings.warm_up, settings.seed
    );
    let _ = match (settings.in_a_row, settings.pause_us) {
        (Some(calls), _) => write!(text, ", {calls} calls in a row"),
        (None, 0) => write!(text, ", L2 flushed before each call"),
        (None, pause) => write!(text, ", L2 flushed and {pause} µs of rest before each call"),
    };
    if settings.peer_rest == Some(Rest::Kernel) {
        text += ", in a peer's rest a kernel waits";
    }
    if let Some(script) = &settings.peer_script {
        let _ = write!(text, ", the peer is {}", escaped(script));
    }
    if let Some(copy) = copy_rate(record) {
        let _ = write!(text, "; the card copied {copy:.2} TB/s");
    }
    let _ = writeln!(text, ".\n{}", sensors(record));
    let checks: Vec<&Check> = record.cases.iter().flat_map(|case| &case.checks).collect();
    let share = |check: &Check| (check.worst / check.worst_limit).max(check.rms / check.rms_limit);
    let nearest = checks.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(nearest) = nearest {
        let _ = writeln!(
            text,
            "{} results were compared with FP64 in the same run; the one nearest to its limit ({}) \
             had {:.0} % of it.",
            checks.len(),
            nearest.name,
            100.0 * share(nearest)
        );
    }
    for (name, reason) in record.peer.iter().flat_map(|peer| &peer.absent) {
        let _ = writeln!(text, "Not measured: {name} ({}).", escaped(reason));
    }
    text
}

/// Clock, power and temperature before and after.
fn sensors(record: &Record) -> String {
    let value = |name: &str| {
        let of = |values: &BTreeMap<String, String>| {
            values.get(name).cloned().unwrap_or_else(|| "unknown".to_owned())
        };
        format!("{} and {}", of(&record.gpu.before), of(&record.gpu.after))
    };
    format!(
        "Before and after: {} (multiprocessors), {} of {}, {} °C.",
        value("clocks.sm"),
        value("power.draw"),
        record.gpu.before.get("power.limit").map_or("unknown", String::as_str),
        value("temperature.gpu")
    )
}

/// Every table of a run.
pub fn all(record: &Record) -> String {
    let tables = Table::all(record);
    let (quantizers, others): (Vec<_>, Vec<_>) =
        tables.iter().partition(|table| table.first.section == "quantize");
    let mut text = means(&others);
    text += &memory_bound(record, &others);
    for table in &others {
        text += &contenders(table);
    }
    for quantity in [Quantity::Gpu, Quantity::Kernel] {
        let of = |table: &&&Table<'_>| table.first.quantity == quantity;
        let own: Vec<_> = quantizers.iter().filter(of).copied().collect();
        if !own.is_empty() {
            text += &shares(record, quantity, &own);
        }
    }
    text
}

/// What a table shows, in words.
fn title(case: &CaseRecord) -> String {
    let what = match case.section.strip_prefix("layer.") {
        Some(recipe) => {
            let part = if case.task == "layer" { "forward and backward" } else { "forward" };
            format!("Layer in {recipe}, {part}")
        }
        None => format!("Products in {}, {}", case.section, case.task),
    };
    let replay = if case.replay { ", replayed" } else { "" };
    let quantity = match case.quantity {
        Quantity::Gpu => "",
        Quantity::Host => ", host time",
        Quantity::Kernel => ", our kernel alone beside whole calls",
    };
    format!("{what}{replay}{quantity}")
}

/// Geometric means of all tables.
fn means(tables: &[&Table<'_>]) -> String {
    let mut rows = String::new();
    let mut add = |what: &str, ours: &Who<'_>, rival: &str, ratios: &Ratios<'_>| {
        let ours = ours.label();
        for (set, member) in SETS {
            let Some(Mean { mean, least: (shape, least), count }) = mean(ratios, member) else {
                continue;
            };
            let _ = writeln!(
                rows,
                "| {what} | {ours} | {rival} | {mean:.3} | {least:.3} ({}) | {count} of {set} |",
                shape.id
            );
        }
    };
    for table in tables {
        let what = title(table.first);
        for ours in table.ours() {
            for rival in table.rivals(ours) {
                add(&what, &ours, &rival.rival_label(), &table.ratios(ours, rival));
            }
            add(&what, &ours, "best of its peers", &table.ratios_to_best(ours));
        }
    }
    for section in ["bf16", "fp8"] {
        let plain = |table: &&&Table<'_>| table.first.section == section && table.is_plain();
        let own: Vec<&Table<'_>> = tables.iter().filter(plain).copied().collect();
        let Some(wgrad) = own.iter().find(|table| table.first.task == "wgrad") else { continue };
        for ours in wgrad.ours() {
            for rival in wgrad.rivals(ours) {
                let what = format!("Products in {section}, fprop + dgrad + wgrad");
                let ratios = ratios_of_three(&own, ours, rival);
                add(&what, &ours, &rival.rival_label(), &ratios);
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n#### Geometric means\n\nHow many times as fast as another.\n\n| what | ours | beside | \
         mean | least | shapes |\n| --- | --- | --- | ---: | ---: | --- |\n{rows}"
    )
}

/// Products that take at most twice as long as a copy of the bytes that they must move.
fn memory_bound(record: &Record, tables: &[&Table<'_>]) -> String {
    let Some(copy) = copy_rate(record) else { return String::new() };
    let mut rows = String::new();
    for table in tables.iter().filter(|table| table.is_plain()) {
        let (section, task) = (&table.first.section, &table.first.task);
        for (shape, case) in &table.cases {
            let Some(bytes) = product_bytes(shape, section, task) else { continue };
            for times in case.times.iter().filter(|times| times.ours) {
                let share = bytes / times.us / 1e6 / copy;
                if share > 0.5 {
                    let name = &times.name;
                    let _ = writeln!(
                        rows,
                        "| {} | {task} | {name} | {} | {share:.3} |",
                        shape.id,
                        round(times.us)
                    );
                }
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n#### Products bound by memory\n\nBytes that must be moved (operands once, results once, \
         in and out where they are added to) in parts of what a copy moves in the same time.\n\n| \
         shape | pass | ours | µs | share |\n| --- | --- | --- | ---: | ---: |\n{rows}"
    )
}

/// A line for each shape and contender of ours, with its peers' rates behind it.
fn contenders(table: &Table<'_>) -> String {
    let ours = table.ours();
    // A column has a rival's plain calls and, in rows of replays, its replays.
    let mut rivals: Vec<Who<'_>> = Vec::new();
    for rival in ours.iter().flat_map(|ours| table.rivals(*ours)) {
        if !rivals.iter().any(|own| (own.name, own.ours) == (rival.name, rival.ours)) {
            rivals.push(Who { replay: false, ..rival });
        }
    }
    let unit = if table.first.quantity == Quantity::Host { "µs" } else { "TFLOP/s (µs)" };
    let mut text = format!("\n#### {}\n\n", title(table.first));
    let heads: String = rivals.iter().map(|rival| format!(" {} |", rival.rival_label())).collect();
    let rules: String = rivals.iter().map(|_| " ---: |").collect();
    let _ = writeln!(
        text,
        "Ours: {unit}, median, least and most. Others: theirs, and how many times as fast ours is.\n\n\
         | shape | ours | {unit} |{heads}\n| --- | --- | --- |{rules}"
    );
    for (shape, case) in &table.cases {
        for who in &ours {
            let Some(own) = of(case, *who) else { continue };
            let _ = write!(text, "| {} | {} | {} |", shape.id, who.label(), measured(case, own));
            for rival in &rivals {
                let _ = match of(case, Who { replay: who.replay, ..*rival }) {
                    Some(times) if times.name != own.name => {
                        let theirs = rate(case, times.us).map_or(round(times.us), round);
                        write!(text, " {theirs}, **{:.3}** |", times.us / own.us)
                    }
                    _ => write!(text, " – |"),
                };
            }
            text.push('\n');
        }
    }
    text + &refusals(&[table])
}

fn measured(case: &CaseRecord, times: &Times) -> String {
    let Times { us, min, max, .. } = times;
    let span = format!("{}, {}–{}", round(*us), round(*min), round(*max));
    match rate(case, *us) {
        Some(rate) => format!("{} ({span})", round(rate)),
        None => span,
    }
}

/// Four digits are more than a measurement has.
fn round(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// What Markdown would take for marks of its own.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if "\\<>*_`|[]".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Who could not take part, once for each reason.
fn refusals(tables: &[&Table<'_>]) -> String {
    let mut reasons: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for (shape, case) in tables.iter().flat_map(|table| &table.cases) {
        for refused in &case.refused {
            let shapes = reasons.entry((&refused.name, &refused.reason)).or_default();
            if !shapes.contains(&shape.id.as_str()) {
                shapes.push(&shape.id);
            }
        }
    }
    let mut text = String::new();
    for ((name, reason), shapes) in reasons {
        let _ = writeln!(text, "\nWithout {name} on {}: {}.", shapes.join(", "), escaped(reason));
    }
    text
}

/// Quantizers, as shares of the bandwidth of a copy, or in TB/s where none was measured; kernels
/// alone also as shares of the bandwidth of the copy that took turns with them.
fn shares(record: &Record, quantity: Quantity, tables: &[&Table<'_>]) -> String {
    let copy = copy_rate(record);
    let unit = match copy {
        Some(copy) => format!("Shares of the bandwidth of a copy of 2 GiB ({copy:.2} TB/s)"),
        None => "TB/s".to_owned(),
    };
    let (title, counted) = match quantity {
        Quantity::Gpu | Quantity::Host => ("Quantizers", "set-up included."),
        Quantity::Kernel => (
            "Quantize kernels alone",
            "of all kernels but the set-up, those that find scales of groups included, each between two \
             events. In brackets: shares of the bandwidth of the driver's copy of as many bytes, timed \
             in turn with them, between two events, too.",
        ),
    };
    let mut text = format!(
        "\n#### {title}\n\n{unit}, {counted} Bytes of one read and of what is written count; a second \
         read, for magnitudes, does not.\n"
    );
    let mut shapes = Vec::new();
    for (shape, _) in tables.iter().flat_map(|table| &table.cases) {
        if !shapes.contains(&shape.id.as_str()) {
            shapes.push(shape.id.as_str());
        }
    }
    let heads: String = shapes.iter().map(|shape| format!(" {shape} |")).collect();
    let rules: String = shapes.iter().map(|_| " ---: |").collect();
    let _ = writeln!(text, "\n| quantizer |{heads}\n| --- |{rules}");
    for table in tables {
        let _ = write!(text, "| {} |", table.first.task);
        for id in &shapes {
            let case = table.cases.iter().find(|(shape, _)| shape.id == *id);
            let own = case.and_then(|(_, case)| {
                let own = case.times.iter().find(|times| times.name != COPY)?.us;
                let beside = case.times.iter().find(|times| times.name == COPY);
                let rate = rate(case, own)?;
                let share = copy.map_or(rate, |copy| rate / copy);
                Some((share, beside.map(|beside| beside.us / own)))
            });
            let _ = match own {
                Some((share, Some(beside))) => write!(text, " {share:.3} ({beside:.3}) |"),
                Some((share, None)) => write!(text, " {share:.3} |"),
                None => write!(text, " – |"),
            };
        }
        text.push('\n');
    }
    text + &refusals(tables)
}
