//! Declarations of variables and parameters.

use super::{Name, Parser};
use crate::error::{ParseError, Reason};
use crate::lexer::TokenKind;
use crate::module::{
    Immediate, Initialiser, Linkage, Pointee, ScalarType, StateSpace, Variable, VectorLength,
};

/// How deep the braces of an initialiser may nest.
const DEPTH: u64 = 16;
/// How many dimensions an array may have.
const DIMENSIONS: usize = 16;

impl<'a> Parser<'a> {
    /// `.align N`, if it stands here.
    fn align(&mut self) -> Result<Option<u32>, ParseError> {
        if !self.take(".align") {
            return Ok(None);
        }
        let token = self.peek();
        let align = self.small("an alignment")?;
        if !align.is_power_of_two() {
            let (text, problem) = (token.text.to_owned(), "an alignment is a power of two");
            return Err(self.error(token.offset, Reason::Literal { text, problem }));
        }
        Ok(Some(align))
    }

    /// A variable from its state space up to its initialiser. The declaration may go on with
    /// `, other[4]`, which [`Self::variables`] reads.
    fn variable(
        &mut self,
        linkage: Option<Linkage>,
        parameter: bool,
    ) -> Result<Variable<Name<'a>>, ParseError> {
        let in_register = parameter && self.at(".reg");
        let space = match StateSpace::from_word(self.peek().text) {
            _ if in_register => StateSpace::Param,
            Some(space) if !parameter || space == StateSpace::Param => space,
            _ if parameter => return Err(self.unexpected("`.param`")),
            _ => return Err(self.unexpected("a state space")),
        };
        self.advance();
        let managed = self.take(".attribute");
        if managed {
            for text in ["(", ".managed", ")"] {
                self.expect(text)?;
            }
        }
        let mut align = self.align()?;
        let vector = VectorLength::from_word(self.peek().text);
        self.position += usize::from(vector.is_some());
        // Narrower registers and vectors are not handed over.
        let least = if in_register { 4 } else { 1 };
        let scalar = ScalarType::from_word(self.peek().text)
            .filter(|scalar| scalar.bytes().is_some_and(|bytes| bytes >= least))
            .filter(|_| !in_register || vector.is_none())
            .ok_or_else(|| self.unexpected("a type such as `.b32`"))?;
        self.advance();
        let mut pointee = None;
        if parameter && self.take(".ptr") {
            let space = StateSpace::from_word(self.peek().text);
            self.position += usize::from(space.is_some());
            pointee = Some(Pointee { space, align: self.align()? });
        }
        if align.is_none() {
            align = self.align()?;
        }
        let name = String::new();
        let lengths = Vec::new();
        let mut variable = Variable {
            linkage,
            space,
            align,
            vector,
            scalar,
            pointee,
            managed,
            register: in_register.then_some(0),
            name,
            lengths,
            initialiser: None,
        };
        self.declarator(&mut variable, parameter)?;
        Ok(variable)
    }

    /// The name and the lengths of an array.
    fn declarator(
        &mut self,
        variable: &mut Variable<Name<'a>>,
        parameter: bool,
    ) -> Result<(), ParseError> {
        let expected = "a name";
        let name = if parameter { self.word(expected)? } else { self.name(expected)? };
        variable.name = name.text.to_owned();
        variable.lengths = Vec::new();
        while self.at("[") && variable.register.is_none() {
            if variable.lengths.len() == DIMENSIONS {
                let reason = Reason::Limit { what: "dimensions", limit: DIMENSIONS as u64 };
                return Err(self.error(self.peek().offset, reason));
            }
            self.advance();
            let length = if self.at("]") { None } else { Some(self.length()?) };
            self.expect("]")?;
            variable.lengths.push(length);
        }
        Ok(())
    }

    /// The length of a dimension.
    fn length(&mut self) -> Result<u64, ParseError> {
        let token = self.peek();
        let expected = "a length or `]`";
        if token.kind != TokenKind::Number && token.text != "(" {
            return Err(self.unexpected(expected));
        }
        let before = self.position;
        match self.constant()? {
            Immediate::Signed(value @ 0..) => Ok(value as u64),
            Immediate::Unsigned(value) => Ok(value),
            _ => {
                self.position = before;
                Err(self.unexpected(expected))
            }
        }
    }

    /// A declaration up to and with its semicolon, each variable with the place of its name.
    pub(super) fn variables(
        &mut self,
        linkage: Option<Linkage>,
    ) -> Result<Vec<(usize, Variable<Name<'a>>)>, ParseError> {
        let mut variables = Vec::new();
        let start = self.peek().offset;
        let mut next = (start, self.variable(linkage, false)?);
        loop {
            let mut template = next.1.clone();
            template.initialiser = None;
            if self.take("=") {
                next.1.initialiser = Some(self.initialiser(DEPTH)?);
            }
            variables.push(next);
            if !self.take(",") {
                break;
            }
            let offset = self.peek().offset;
            self.declarator(&mut template, false)?;
            next = (offset, template);
        }
        if !self.at(";") {
            return Err(self.unexpected("`=`, `,` or `;`"));
        }
        self.advance();
        Ok(variables)
    }

    /// `(…)` with parameters; an absent list is an empty one.
    pub(super) fn parameters(&mut self) -> Result<Vec<(usize, Variable)>, ParseError> {
        let mut parameters = Vec::new();
        if !self.take("(") || self.take(")") {
            return Ok(parameters);
        }
        loop {
            let offset = self.peek().offset;
            let raw = self.variable(None, true)?;
            // A parameter has no initialiser, so there is no name to replace.
            let parameter = raw.replace_names(&mut |name: Name<'_>| {
                let reason = Reason::Duplicate(name.text.to_owned());
                Err(ParseError::at(self.text, name.offset, reason))
            })?;
            parameters.push((offset, parameter));
            if self.take(")") {
                return Ok(parameters);
            }
            if !self.take(",") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
    }

    fn initialiser(&mut self, depth: u64) -> Result<Initialiser<Name<'a>>, ParseError> {
        let token = self.peek();
        if self.take("{") {
            if depth == 0 {
                let reason = Reason::Limit { what: "nested braces", limit: DEPTH };
                return Err(self.error(token.offset, reason));
            }
            let mut values = Vec::new();
            if self.take("}") {
                return Ok(Initialiser::List(values));
            }
            loop {
                values.push(self.initialiser(depth - 1)?);
                if self.take("}") {
                    return Ok(Initialiser::List(values));
                }
                if !self.take(",") {
                    return Err(self.unexpected("`,` or `}`"));
                }
            }
        }
        if token.kind == TokenKind::Number && self.ahead(1).text == "(" {
            let mask = self.unsigned("a mask")?;
            self.expect("(")?;
            let value = self.symbol(Some(mask))?;
            self.expect(")")?;
            return Ok(value);
        }
        match token.kind {
            TokenKind::Word => self.symbol(None),
            _ if self.at_constant() || token.text == "(" => {
                self.constant().map(Initialiser::Immediate)
            }
            _ => Err(self.unexpected("a literal, a symbol or `{`")),
        }
    }

    /// `symbol`, `generic(symbol)`, and either with `+offset`.
    fn symbol(&mut self, mask: Option<u64>) -> Result<Initialiser<Name<'a>>, ParseError> {
        let generic = self.at("generic") && self.ahead(1).text == "(";
        if generic {
            self.position += 2;
        }
        let name = self.name("a symbol")?;
        if generic {
            self.expect(")")?;
        }
        Ok(Initialiser::Symbol { name, generic, offset: self.offset()?, mask })
    }
}
