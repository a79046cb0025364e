//! What names mean inside nested blocks.

use std::collections::HashMap;

use super::Name;
use crate::error::{ParseError, Reason};
use crate::module::Reference;

/// The names one block declares.
#[derive(Default)]
pub(super) struct Scope<'a> {
    names: HashMap<&'a str, Reference>,
    /// `%r<5>` by `%r`: the first dense index and the count. The group stays a group, so that a
    /// short text with a huge count costs nothing.
    groups: HashMap<&'a str, (u32, u32)>,
}

impl<'a> Scope<'a> {
    /// Declares a name.
    pub fn declare(
        &mut self,
        text: &str,
        name: Name<'a>,
        reference: Reference,
    ) -> Result<(), ParseError> {
        // A group `a<5>` does not have the name `a` itself.
        if self.find(name.text).is_some() {
            return Err(duplicate(text, name));
        }
        self.names.insert(name.text, reference);
        Ok(())
    }

    /// Declares `name<count>`, whose registers have dense indices from `first`.
    pub fn declare_group(
        &mut self,
        text: &str,
        name: Name<'a>,
        first: u32,
        count: u32,
    ) -> Result<(), ParseError> {
        if self.groups.contains_key(name.text) {
            return Err(duplicate(text, name));
        }
        self.groups.insert(name.text, (first, count));
        Ok(())
    }

    /// What a name means in this block alone.
    pub fn find(&self, name: &str) -> Option<Reference> {
        if let Some(reference) = self.names.get(name) {
            return Some(*reference);
        }
        // `a10` is register 0 of `a1<…>` or register 10 of `a<…>`. More than ten digits are no
        // number of a register, so a long name costs no more than a short one.
        let digits = name.bytes().rev().take(10).take_while(u8::is_ascii_digit).count();
        (1..=digits).find_map(|length| {
            let (prefix, number) = name.split_at(name.len() - length);
            let (first, count) = *self.groups.get(prefix)?;
            let canonical = length == 1 || !number.starts_with('0');
            let number: u32 = number.parse().ok()?;
            (canonical && number < count).then(|| Reference::Register(first + number))
        })
    }
}

pub(super) fn duplicate(text: &str, name: Name<'_>) -> ParseError {
    ParseError::at(text, name.offset, Reason::Duplicate(name.text.to_owned()))
}
