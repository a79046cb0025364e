//! Products against index formulas written out element by element.

mod model;
mod place;
mod products;
mod refusals;
mod special;
mod speed;
mod values;
