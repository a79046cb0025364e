//! What is said of the machine and the time.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::SystemTime;

/// What `nvidia-smi` is asked for.
const SENSORS: [&str; 9] = [
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
    "clocks_event_reasons.active",
];

/// What `nvidia-smi` says of the first GPU, by its own names; where it says nothing, why.
pub fn sensors() -> BTreeMap<String, String> {
    let mut command = Command::new("nvidia-smi");
    command.args(["--id=0", "--format=csv,noheader"]);
    command.arg(format!("--query-gpu={}", SENSORS.join(",")));
    match command.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let values = text.lines().next().unwrap_or_default().split(',');
            let named = SENSORS.iter().zip(values);
            named.map(|(name, value)| ((*name).to_owned(), value.trim().to_owned())).collect()
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            missing(format!("nvidia-smi ended with {}: {said}", output.status))
        }
        Err(error) => missing(format!("nvidia-smi could not be started: {error}")),
    }
}

fn missing(reason: String) -> BTreeMap<String, String> {
    BTreeMap::from([("missing".to_owned(), reason)])
}

/// The system clock's time in UTC, as ISO 8601 writes it.
pub fn now() -> String {
    utc(SystemTime::now())
}

/// Whole seconds.
fn utc(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (milliseconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_000, "2024-02-29T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (1_795_348_800_000, "2026-11-22T12:00:00Z"),
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
            assert_eq!(utc(time), date);
        }
    }
}
