//! What is said of the machine and the time.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    utc(since.as_secs())
}

fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from the first of March, 0000, so that the day of a leap year is the last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_795_348_800, "2026-11-22T12:00:00Z"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }
}
