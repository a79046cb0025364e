//! Quantizations in graphs, under a flag on the device that changes between replays.

use grouped_linear::functional::{Accumulate, DbiasSink, QuantizeArgs, QuantizeSource, quantize};
use grouped_linear::recipe::{
    BlockScaling, CurrentScaling, DelayedScaling, Format, Mxfp8Scaling, Nvfp4Scaling, Recipe, Role,
};
use grouped_linear::{
    DType, DelayedState, Device, Form, GroupedTensor, QuantizedSpec, QuantizedTensor, RandomState,
    Result, SourceShape, Stream, Tensor,
};

use crate::device::{Inputs, Layout, grouped_bits};
use crate::host::{Host, Sizes};
use crate::{Check, Outcome};

const SIZES: Sizes = Sizes { groups: 3, rows: 200, k: 96, n: 160, dtype: DType::Bf16 };

/// Splits of successive replays, and the flag: every second one skips, and then two in a row.
const REPLAYS: [([usize; 3], i32); 7] = [
    ([65, 0, 130], 0),
    ([0, 200, 0], 1),
    ([1, 63, 64], 0),
    ([65, 0, 130], i32::MIN),
    ([200, 0, 0], 1),
    ([0, 0, 0], 0),
    ([100, 50, 50], 0),
];

pub fn checks() -> Vec<Check> {
    let delayed = DelayedScaling { history_len: 2, ..DelayedScaling::default() };
    let recipes = [
        ("current", Recipe::Current(CurrentScaling::default())),
        ("delayed", Recipe::Delayed(delayed)),
        ("block", Recipe::Block(BlockScaling::default())),
        ("mxfp8", Recipe::Mxfp8(Mxfp8Scaling::default())),
        ("nvfp4", Recipe::Nvfp4(Nvfp4Scaling::default())),
    ];
    let check = |(name, recipe)| {
        let name = format!("flag: a graph whose replays skip a quantization, {name}");
        Check::new(name, move |device: &Device| graph(device, recipe)).emulated_if(true)
    };
    recipes.into_iter().map(check).collect()
}

/// What a quantization of output gradients writes.
struct Written {
    quantized: QuantizedTensor,
    delayed: Option<DelayedState>,
    random: Option<RandomState>,
    db: GroupedTensor,
}

impl Written {
    fn new(stream: &Stream, recipe: &Recipe) -> Result<Self> {
        let Sizes { groups, rows, n, .. } = SIZES;
        let format = recipe.format(Role::GradOutput);
        let form = match format {
            Format::Mxfp8 { .. } | Format::Nvfp4(_) => Form::Exact,
            _ => Form::Codes,
        };
        let quantized = QuantizedTensor::empty(
            stream,
            QuantizedSpec {
                groups,
                source: SourceShape::Tokens { rows, features: n },
                format,
                rowwise: Some(form),
                columnwise: Some(form),
            },
        )?;
        let delayed = match recipe {
            Recipe::Delayed(own) => Some(DelayedState::new(stream, *own, groups, format.dtype())?),
            _ => None,
        };
        let stochastic = recipe.is_stochastic(Role::GradOutput);
        let random = stochastic.then(|| RandomState::new(stream, 3)).transpose()?;
        let db = Tensor::from_slice(stream, &[groups, n], &vec![0.25f32; groups * n])?;
        // What neither writes is the same in both.
        for copy in quantized.directions().filter_map(|own| quantized.copy(own)) {
            let parts = [Some(&copy.data), Some(&copy.scale_inv), copy.amax.as_ref()];
            for part in parts.into_iter().flatten() {
                part.clone().fill_zero(stream)?;
            }
        }
        Ok(Self { quantized, delayed, random, db: GroupedTensor::packed(db)? })
    }

    /// Quantizes, sums the columns, and ends the step.
    fn run(
        &mut self,
        stream: &Stream,
        recipe: &Recipe,
        inputs: &Inputs,
        flag: Option<&Tensor>,
    ) -> Result<()> {
        let args = QuantizeArgs {
            scale: recipe.scale_rule(),
            delayed: self.delayed.as_ref(),
            skip: flag,
            dbias: Some(DbiasSink { db: &mut self.db, accumulate: Accumulate::Add }),
            random: self.random.as_ref(),
            ..QuantizeArgs::new(QuantizeSource::Tokens(&inputs.dy, &inputs.splits))
        };
        quantize(stream, args, &mut self.quantized)?;
        match (&mut self.delayed, flag) {
            (Some(state), Some(flag)) => state.update_unless(stream, flag),
            (Some(state), None) => state.update(stream),
            (None, _) => Ok(()),
        }
    }

    fn tensors(&self) -> Vec<(&'static str, &Tensor)> {
        let mut tensors = Vec::new();
        for direction in self.quantized.directions() {
            let Some(copy) = self.quantized.copy(direction) else { continue };
            tensors.extend([("data", &copy.data), ("scale_inv", &copy.scale_inv)]);
            tensors.extend(copy.amax.as_ref().map(|amax| ("amax", amax)));
        }
        let states = self.delayed.iter();
        tensors.extend(states.flat_map(|own| [("history", own.history()), ("next", own.scale())]));
        tensors.extend(self.random.iter().map(|random| ("random state", random.tensor())));
        tensors
    }

    /// Names and contents.
    fn read(&self, stream: &Stream) -> Result<Vec<(&'static str, Vec<u64>)>> {
        let mut all = Vec::new();
        for (name, tensor) in self.tensors() {
            all.push((name, bits(stream, tensor)?));
        }
        let db = grouped_bits(stream, &self.db)?;
        all.push(("db", db.into_iter().map(u64::from).collect()));
        Ok(all)
    }
}

fn bits(stream: &Stream, tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        DType::U8 => tensor.to_vec::<u8>(stream)?.into_iter().map(u64::from).collect(),
        DType::I64 => tensor.to_vec::<i64>(stream)?.into_iter().map(i64::cast_unsigned).collect(),
        _ => tensor.to_f32(stream)?.into_iter().map(|value| u64::from(value.to_bits())).collect(),
    })
}

/// Beside it runs what no flag governs, in the turns that the flag does not skip.
fn graph(device: &Device, recipe: Recipe) -> Outcome {
    let stream = device.stream()?;
    let mut inputs = Inputs::new(&stream, SIZES, Layout::Packed, DType::I64)?;
    let mut flag = Tensor::zeros(&stream, &[1], DType::I32)?;
    let (mut recorded, mut plain) =
        (Written::new(&stream, &recipe)?, Written::new(&stream, &recipe)?);
    inputs.write(&stream, &Host::real(SIZES, &[100, 50, 50], 70))?;
    recorded.run(&stream, &recipe, &inputs, Some(&flag))?;
    plain.run(&stream, &recipe, &inputs, None)?;
    let graph = stream.capture(|stream| recorded.run(stream, &recipe, &inputs, Some(&flag)))?;
    for (turn, (splits, skip)) in REPLAYS.into_iter().enumerate() {
        let before = recorded.read(&stream)?;
        inputs.write(&stream, &Host::real(SIZES, &splits, 71 + turn as u64))?;
        flag.write(&stream, &[skip])?;
        graph.launch(&stream)?;
        if skip == 0 {
            plain.run(&stream, &recipe, &inputs, None)?;
        }
        let (got, want) = (recorded.read(&stream)?, plain.read(&stream)?);
        for ((name, got), (_, want)) in got.iter().zip(&want) {
            if got != want {
                return Err(format!("replay {turn} with {splits:?}, flag {skip}: {name}").into());
            }
        }
        let wrote = got != before;
        let writes = skip == 0 && splits != [0; 3];
        if (writes && !wrote) || (skip != 0 && wrote) {
            return Err(format!("replay {turn} with {splits:?}, flag {skip}: wrote {wrote}").into());
        }
    }
    Ok(())
}
