//! The quantizers that are measured, with their names and the bytes that count.

use grouped_linear::recipe::{BlockShape, Blocks, Format, Nvfp4Format, Transform};
use grouped_linear::{DType, Form};

use super::super::choices::RecipeChoice;
use super::super::model::quantize::Copies;
use super::super::suite::Shape;

/// What is quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Tokens.
    X,
    /// Weights.
    W,
    /// Output gradients.
    Dy,
}

/// What scales belong to, and how numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// FP8, a scale per group.
    Group,
    /// FP8, a scale for every 128 neighbours.
    Vector,
    /// FP8, a scale for every 128 × 128.
    Square,
    /// MXFP8.
    Mxfp8(Form),
    /// NVFP4: tokens in lines, weights in squares.
    Nvfp4(Form),
    /// NVFP4 with the columnwise copy transformed; output gradients are rounded at random.
    Hadamard(Form),
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantizer {
    /// What it makes.
    pub kind: Kind,
    /// Of what.
    pub source: Source,
    /// In which orders.
    pub copies: Copies,
    /// Whether the magnitudes of groups are known beforehand, so that no read is spent on them.
    pub given: bool,
}

/// All that are measured.
pub fn all() -> impl Iterator<Item = Quantizer> {
    use Copies::{Both, Column, Row};
    let of = |kind, source, copies: &'static [Copies]| {
        copies.iter().map(move |&copies| Quantizer { kind, source, copies, given: false })
    };
    let given = |own: Quantizer| Quantizer { given: true, ..own };
    let every: &[Copies] = &[Row, Column, Both];
    let fp8 = of(Kind::Group, Source::X, every)
        .chain(of(Kind::Group, Source::X, every).map(given))
        .chain(of(Kind::Vector, Source::X, every))
        // The other tensors of a layer, both copies as it makes them.
        .chain(of(Kind::Group, Source::W, &[Both]))
        .chain(of(Kind::Group, Source::Dy, &[Both]))
        .chain(of(Kind::Square, Source::W, &[Both]))
        .chain(of(Kind::Vector, Source::Dy, &[Both]));
    let micro = [Form::Codes, Form::Exact].into_iter().flat_map(move |form| {
        of(Kind::Mxfp8(form), Source::X, every)
            .chain(of(Kind::Nvfp4(form), Source::X, every))
            .chain(of(Kind::Nvfp4(form), Source::X, every).map(given))
            // Its rowwise copy is that of NVFP4.
            .chain(of(Kind::Hadamard(form), Source::X, &[Column, Both]))
            .chain(of(Kind::Hadamard(form), Source::Dy, every))
    });
    // As layers on Hopper have them.
    let weights = of(Kind::Nvfp4(Form::Exact), Source::W, &[Both]);
    fp8.chain(micro).chain(weights)
}

impl Quantizer {
    /// As tables have it: X unless the name ends with another tensor.
    pub fn name(self) -> String {
        let form = |form| if form == Form::Exact { "-exact" } else { "" };
        let kind = match self.kind {
            Kind::Group => "group".to_owned(),
            Kind::Vector => "vector".to_owned(),
            Kind::Square => "square".to_owned(),
            Kind::Mxfp8(own) => format!("mxfp8{}", form(own)),
            Kind::Nvfp4(own) => format!("nvfp4{}", form(own)),
            Kind::Hadamard(own) => format!("hadamard{}", form(own)),
        };
        let copies = match self.copies {
            Copies::Row => "row",
            Copies::Column => "column",
            Copies::Both => "both",
        };
        let source = match (self.source, self.kind) {
            (Source::X, _) | (_, Kind::Square) => "",
            (Source::W, _) => ".w",
            (Source::Dy, _) => ".dy",
        };
        let given = if self.given { "-given" } else { "" };
        format!("{kind}{given}.{copies}{source}")
    }

    /// The recipes that quantize so.
    pub fn recipes(self) -> &'static [RecipeChoice] {
        match self.kind {
            Kind::Group => &[RecipeChoice::Fp8Fast, RecipeChoice::Fp8Tensor],
            Kind::Vector | Kind::Square => &[RecipeChoice::Fp8Block],
            Kind::Mxfp8(_) => &[RecipeChoice::Mxfp8],
            Kind::Nvfp4(_) | Kind::Hadamard(_) => &[RecipeChoice::Nvfp4],
        }
    }

    /// Number format; output gradients with a scale per group are E5M2, as in the recipe.
    pub fn format(self) -> Format {
        let dtype = match (self.kind, self.source) {
            (Kind::Group, Source::Dy) => DType::E5m2,
            _ => DType::E4m3,
        };
        match self.kind {
            Kind::Group => Format::fp8(dtype, Blocks::Tensor),
            Kind::Vector => Format::fp8(dtype, Blocks::Vector),
            Kind::Square => Format::fp8(dtype, Blocks::Square),
            Kind::Mxfp8(_) => Format::Mxfp8 { dtype, blocks: BlockShape::Line },
            Kind::Nvfp4(_) if self.source == Source::W => {
                Format::Nvfp4(Nvfp4Format { blocks: BlockShape::Square, ..Nvfp4Format::LINES })
            }
            Kind::Nvfp4(_) => Format::Nvfp4(Nvfp4Format::LINES),
            Kind::Hadamard(_) => {
                Format::Nvfp4(Nvfp4Format { transform: Transform::Hadamard, ..Nvfp4Format::LINES })
            }
        }
    }

    /// Whether numbers are rounded at random.
    pub fn is_random(self) -> bool {
        matches!((self.kind, self.source), (Kind::Hadamard(_), Source::Dy))
    }

    /// How the copies are stored.
    pub fn form(self) -> Form {
        match self.kind {
            Kind::Group | Kind::Vector | Kind::Square => Form::Codes,
            Kind::Mxfp8(form) | Kind::Nvfp4(form) | Kind::Hadamard(form) => form,
        }
    }

    /// Bytes that count: one read of the source in BF16, and what is written, with the scales of
    /// small blocks. A second read, for magnitudes, does not count.
    pub fn bytes(self, shape: &Shape) -> f64 {
        let elements = match self.source {
            Source::X => shape.rows() * shape.k,
            Source::Dy => shape.rows() * shape.n,
            Source::W => shape.groups() * shape.n * shape.k,
        };
        let copy = match (self.kind, self.form()) {
            (Kind::Group | Kind::Vector | Kind::Square, _) => 1.0,
            (_, Form::Exact) => 2.0,
            (Kind::Mxfp8(_), _) => 1.0 + 1.0 / 32.0,
            (Kind::Nvfp4(_) | Kind::Hadamard(_), _) => 0.5 + 1.0 / 16.0,
        };
        // Exact numbers of squares are both copies at once.
        let is_shared = matches!(self.kind, Kind::Nvfp4(Form::Exact)) && self.source == Source::W;
        let copies = if self.copies == Copies::Both && !is_shared { 2.0 } else { 1.0 };
        elements as f64 * (2.0 + copies * copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_quantizers_apart() {
        let names: Vec<String> = all().map(Quantizer::name).collect();
        let mut unique = names.clone();
        unique.sort();
        unique.dedup();
        assert_eq!((names.len(), unique.len()), (42, 42), "{names:?}");
        for name in [
            "group.row",
            "square.both",
            "vector.both.dy",
            "hadamard-exact.row.dy",
            "nvfp4-given.both",
        ] {
            assert!(names.iter().any(|own| own == name), "{name}");
        }
    }
}
