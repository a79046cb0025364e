//! The loss curve as a PNG.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Once;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;
use plotters::style::register_font;

use super::log::Record;

const SIZE: (u32, u32) = (1200, 700);
const TRAINING: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const HELD_OUT: RGBColor = RGBColor(0xd6, 0x27, 0x28);
const BIGRAM: RGBColor = RGBColor(0x55, 0x55, 0x55);

/// Draws the curve beside `path`, then renames over it.
pub fn save(path: &Path, records: &[Record], bigram_loss: f64) -> Result<()> {
    let aside = path.with_extension("tmp.png");
    draw(records, bigram_loss)
        .and_then(|pixels| encode(&pixels, &aside))
        .and_then(|()| Ok(fs::rename(&aside, path)?))
        .with_context(|| format!("drawing the loss curve {}", path.display()))
}

/// Three bytes a pixel.
fn encode(pixels: &[u8], path: &Path) -> Result<()> {
    let mut encoder = png::Encoder::new(File::create(path)?, SIZE.0, SIZE.1);
    encoder.set_color(png::ColorType::Rgb);
    let mut picture = encoder.write_header()?;
    picture.write_image_data(pixels)?;
    Ok(picture.finish()?)
}

fn draw(records: &[Record], bigram_loss: f64) -> Result<Vec<u8>> {
    static FONT: Once = Once::new();
    FONT.call_once(|| {
        // The font is part of the binary; were it unreadable, the first text would say so.
        let _ = register_font("sans-serif", FontStyle::Normal, dejavu::sans::regular());
    });
    let training: Vec<(f64, f64)> = points(records, |record| Some(record.loss));
    let held_out = points(records, |record| record.held_out_loss);
    let last = records.last().map_or(1, |record| record.step.max(1)) as f64;
    let (low, high) = range(training.iter().chain(&held_out).map(|point| point.1), bigram_loss);

    let mut pixels = vec![0; 3 * SIZE.0 as usize * SIZE.1 as usize];
    let root = BitMapBackend::with_buffer(&mut pixels, SIZE).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow!("{error}");
    root.fill(&WHITE).map_err(|error| failed(&error))?;
    let mut chart = ChartBuilder::on(&root)
        .caption("Loss of the mixture-of-experts byte language model", ("sans-serif", 26))
        .margin(20)
        .x_label_area_size(50)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..last, low..high)
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("nats per byte")
        .x_label_formatter(&|step| format!("{step:.0}"))
        .y_label_formatter(&|loss| format!("{loss:.1}"))
        .label_style(("sans-serif", 18))
        .axis_desc_style(("sans-serif", 20))
        .light_line_style(WHITE)
        .draw()
        .map_err(|error| failed(&error))?;

    let bigram = DashedLineSeries::new(
        [(0.0, bigram_loss), (last, bigram_loss)],
        8,
        6,
        BIGRAM.stroke_width(2),
    );
    let key = |color: RGBColor| {
        move |(x, y)| PathElement::new([(x, y), (x + 28, y)], color.stroke_width(3))
    };
    chart
        .draw_series(bigram)
        .map_err(|error| failed(&error))?
        .label(format!("byte bigram model, held-out text: {bigram_loss:.3}"))
        .legend(key(BIGRAM));
    let curves = [("training text", &training, TRAINING), ("held-out text", &held_out, HELD_OUT)];
    for (name, points, color) in curves {
        if let Some((_, end)) = points.last() {
            let line = LineSeries::new(points.iter().copied(), color.stroke_width(3));
            chart
                .draw_series(line)
                .map_err(|error| failed(&error))?
                .label(format!("{name}: {end:.3}"))
                .legend(key(color));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .margin(16)
        .legend_area_size(38)
        .label_font(("sans-serif", 20))
        .background_style(WHITE.mix(0.9))
        .border_style(BIGRAM)
        .draw()
        .map_err(|error| failed(&error))?;
    root.present().map_err(|error| failed(&error))?;
    drop((chart, root));
    Ok(pixels)
}

fn points(records: &[Record], loss: impl Fn(&Record) -> Option<f64>) -> Vec<(f64, f64)> {
    records
        .iter()
        .filter_map(|record| Some((record.step as f64, loss(record)?)))
        .filter(|point| point.1.is_finite())
        .collect()
}

/// A little more than what is drawn, and never empty.
fn range(losses: impl Iterator<Item = f64>, bigram_loss: f64) -> (f64, f64) {
    let (low, high) = losses
        .fold((bigram_loss, bigram_loss), |(low, high), loss| (low.min(loss), high.max(loss)));
    ((low - 0.2).max(0.0), high + 0.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_drawn_for_any_number_of_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loss.png");
        let record = |step: usize| Record {
            step,
            loss: 5.0 / step as f64,
            balance: 1.0,
            learning_rate: 0.1,
            gradient_norm: 1.0,
            tokens_per_second: 1.0,
            least_load: 1.0,
            held_out_loss: step.is_multiple_of(2).then_some(f64::NAN),
        };
        for count in [0, 1, 7] {
            let records: Vec<_> = (1..=count).map(record).collect();
            save(&path, &records, 2.5).unwrap();
            assert_eq!(&fs::read(&path).unwrap()[1..4], b"PNG");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
