//! AdamW with a warm-up, a cosine schedule and a limit on the gradient's norm.

use rayon::prelude::*;

use super::args::Config;
use super::parameter::{Decay, Parameter};

const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.99;
const EPSILON: f32 = 1e-8;
const LARGEST_NORM: f64 = 1.0;

/// Elements that one thread takes at a time; sums are made per chunk, so that they do not depend on
/// the number of threads.
const CHUNK: usize = 1 << 14;

/// The learning rate of step `step`, counted from 0.
pub fn learning_rate(config: &Config, step: usize) -> f32 {
    let peak = config.peak_learning_rate() as f32;
    let warm_up = (config.steps / 20).clamp(1, 200);
    if step < warm_up {
        return peak * (step + 1) as f32 / warm_up as f32;
    }
    let progress = (step - warm_up) as f32 / (config.steps - warm_up).max(1) as f32;
    let cosine = 0.5 * (1.0 + (std::f32::consts::PI * progress.min(1.0)).cos());
    peak * (0.05 + 0.95 * cosine)
}

/// Euclidean norm of all gradients together.
pub fn gradient_norm(parameters: &[&mut Parameter]) -> f64 {
    let square: f64 = parameters.iter().map(|parameter| sum_of_squares(&parameter.gradient)).sum();
    square.sqrt()
}

fn sum_of_squares(values: &[f32]) -> f64 {
    let chunks: Vec<f64> = values
        .par_chunks(CHUNK)
        .map(|chunk| chunk.iter().map(|&value| f64::from(value) * f64::from(value)).sum())
        .collect();
    chunks.iter().sum()
}

/// One step, number `step` counted from 0; `norm` is that of all gradients.
pub fn update(parameters: &mut [&mut Parameter], config: &Config, step: usize, norm: f64) {
    let scale = if norm > LARGEST_NORM { (LARGEST_NORM / norm) as f32 } else { 1.0 };
    let count = i32::try_from(step + 1).unwrap_or(i32::MAX);
    let first_correction = 1.0 / (1.0 - FIRST_DECAY.powi(count));
    let second_correction = 1.0 / (1.0 - SECOND_DECAY.powi(count));
    let rate = learning_rate(config, step);
    for parameter in parameters {
        let decay = match parameter.decay {
            Decay::Yes => config.weight_decay as f32,
            Decay::No => 0.0,
        };
        parameter
            .values
            .par_chunks_mut(CHUNK)
            .zip(parameter.gradient.par_chunks(CHUNK))
            .zip(parameter.first_moment.par_chunks_mut(CHUNK))
            .zip(parameter.second_moment.par_chunks_mut(CHUNK))
            .for_each(|(((values, gradient), first), second)| {
                for index in 0..values.len() {
                    let slope = scale * gradient[index];
                    first[index] = FIRST_DECAY * first[index] + (1.0 - FIRST_DECAY) * slope;
                    second[index] =
                        SECOND_DECAY * second[index] + (1.0 - SECOND_DECAY) * slope * slope;
                    let mean = first[index] * first_correction;
                    let deviation = (second[index] * second_correction).sqrt() + EPSILON;
                    values[index] -= rate * (mean / deviation + decay * values[index]);
                }
            });
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::parse;
    use super::*;

    #[test]
    fn the_rate_rises_then_falls() {
        let config = parse(&["--steps", "100", "--learning-rate", "1"]).config;
        let rates: Vec<f32> = (0..100).map(|step| learning_rate(&config, step)).collect();
        assert_eq!(rates[4], 1.0);
        assert!(rates[..5].is_sorted() && rates[5..].iter().rev().is_sorted());
        assert!(rates[99] > 0.04 && rates[99] < 0.06);
    }

    #[test]
    fn a_parabola_is_descended() {
        let config = parse(&["--steps", "300", "--learning-rate", "0.1", "--weight-decay", "0"]);
        let mut parameter = Parameter::constant("x".into(), &[2], Decay::Yes, 3.0);
        for step in 0..300 {
            parameter.gradient = parameter.values.iter().map(|x| 2.0 * (x - 1.0)).collect();
            update(&mut [&mut parameter], &config.config, step, 1.0);
        }
        assert!(parameter.values.iter().all(|x| (x - 1.0).abs() < 0.02), "{:?}", parameter.values);
    }

    #[test]
    fn a_giant_gradient_is_limited() {
        let config = parse(&[]).config;
        let mut small = Parameter::constant("x".into(), &[1], Decay::No, 0.0);
        let mut giant = Parameter::constant("x".into(), &[1], Decay::No, 0.0);
        small.gradient = vec![1.0];
        giant.gradient = vec![1e20];
        for parameter in [&mut small, &mut giant] {
            let norm = gradient_norm(&[&mut *parameter]);
            assert_eq!(norm, f64::from(parameter.gradient[0]));
            update(&mut [parameter], &config, 0, norm);
        }
        assert!((small.values[0] - giant.values[0]).abs() < 1e-6);
    }
}
