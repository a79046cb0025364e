//! Products against index formulas written out element by element.

mod model;
mod place;
mod products;
mod refusals;
mod speed;
mod values;
