//! Constant expressions (PTX ISA, "Constant Expressions"): C's operators on integers of 64 bits.

use super::{Parser, literal};
use crate::error::{ParseError, Reason};
use crate::lexer::{Token, TokenKind};
use crate::module::Immediate;

/// How deep operands may nest.
const DEPTH: u64 = 64;

/// The binary operators by precedence, the loosest first; an operator that another one starts with
/// comes after it.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Parser<'_> {
    /// Whether a constant expression starts here that does not start with a parenthesis.
    pub(super) fn at_constant(&self) -> bool {
        let starts =
            |token: Token<'_>| is_number(token) || matches!(token.text, "-" | "+" | "~" | "(");
        let token = self.peek();
        match token.text {
            "(" => false,
            "!" => starts(self.ahead(1)) || self.ahead(1).text == "!",
            _ => starts(token),
        }
    }

    /// Whether a parenthesis starts here that belongs to a constant expression.
    pub(super) fn at_parenthesis(&self) -> bool {
        let ahead = (0..=DEPTH as usize).map(|count| self.ahead(count));
        let mut first = ahead.skip_while(|token| matches!(token.text, "(" | "-" | "+" | "~" | "!"));
        let is_constant = |token: Token<'_>| {
            token.kind == TokenKind::Number || matches!(token.text, ".s64" | ".u64")
        };
        self.at("(") && first.next().is_none_or(is_constant)
    }

    /// A constant expression; a floating-point literal, perhaps behind signs, is one too.
    pub(super) fn constant(&mut self) -> Result<Immediate, ParseError> {
        self.choice(DEPTH)
    }

    fn choice(&mut self, depth: u64) -> Result<Immediate, ParseError> {
        let condition = self.binary(0, depth)?;
        let token = self.peek();
        if !self.take("?") {
            return Ok(condition);
        }
        let Some(depth) = depth.checked_sub(1) else { return Err(self.too_deep(token)) };
        let holds = self.bits(condition, token)? != 0;
        let first = self.choice(depth)?;
        self.expect(":")?;
        let second = self.choice(depth)?;
        Ok(if holds { first } else { second })
    }

    fn binary(&mut self, level: usize, depth: u64) -> Result<Immediate, ParseError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary(depth) };
        let mut value = self.binary(level + 1, depth)?;
        while let Some(operator) = operators.iter().find(|operator| self.at_operator(operator)) {
            let token = self.peek();
            self.position += operator.len();
            let other = self.binary(level + 1, depth)?;
            let operands = [self.bits(value, token)?, self.bits(other, token)?];
            let unsigned = |own: Immediate| matches!(own, Immediate::Unsigned(_));
            // The type of a shift is that of its left operand.
            let shifts = matches!(*operator, "<<" | ">>");
            let unsigned = unsigned(value) || !shifts && unsigned(other);
            value = combine(operator, operands, unsigned)
                .map_err(|problem| self.wrong(token, problem))?;
        }
        Ok(value)
    }

    /// Whether the next characters are this operator and no longer one.
    fn at_operator(&self, operator: &str) -> bool {
        let joined = |count: usize| {
            (1..count).all(|index| self.ahead(index).offset == self.ahead(index - 1).end())
        };
        let is = |text: &str| {
            let mut characters = text.char_indices();
            joined(text.len())
                && characters.all(|(at, _)| {
                    let token = self.ahead(at);
                    token.kind == TokenKind::Punctuation && token.text == &text[at..=at]
                })
        };
        let mut longer = LEVELS.iter().copied().flatten().filter(|own| own.len() > operator.len());
        is(operator) && !longer.any(|own| own.starts_with(operator) && is(own))
    }

    fn unary(&mut self, depth: u64) -> Result<Immediate, ParseError> {
        let token = self.peek();
        let Some(depth) = depth.checked_sub(1) else { return Err(self.too_deep(token)) };
        if is_number(token) {
            self.advance();
            return literal::literal(token.text).map_err(|problem| self.wrong(token, problem));
        }
        let operator = token.text;
        match operator {
            "(" => {
                self.advance();
                return self.parenthesis(depth);
            }
            "+" | "-" | "!" | "~" => self.advance(),
            _ => return Err(self.unexpected("a literal")),
        };
        let place = self.peek();
        let value = self.unary(depth)?;
        match (operator, value) {
            ("+", _) => Ok(value),
            ("-", Immediate::Signed(value)) => Ok(Immediate::Signed(value.wrapping_neg())),
            ("-", Immediate::Unsigned(value)) if place.kind != TokenKind::Number => {
                Ok(Immediate::Unsigned(value.wrapping_neg()))
            }
            ("-", _) => literal::negative(value).map_err(|problem| self.wrong(place, problem)),
            ("!", _) => Ok(Immediate::Signed((self.bits(value, token)? == 0).into())),
            _ => Ok(Immediate::Unsigned(!self.bits(value, token)?)),
        }
    }

    /// What follows an opening parenthesis: a cast and its operand, or an expression.
    fn parenthesis(&mut self, depth: u64) -> Result<Immediate, ParseError> {
        let token = self.peek();
        let cast = matches!(token.text, ".s64" | ".u64");
        if !cast {
            let value = self.choice(depth)?;
            self.expect(")")?;
            return Ok(value);
        }
        self.advance();
        self.expect(")")?;
        let value = self.unary(depth)?;
        let bits = self.bits(value, token)?;
        Ok(match token.text {
            ".s64" => Immediate::Signed(bits as i64),
            _ => Immediate::Unsigned(bits),
        })
    }

    fn bits(&self, value: Immediate, token: Token<'_>) -> Result<u64, ParseError> {
        match value {
            Immediate::Signed(value) => Ok(value as u64),
            Immediate::Unsigned(value) => Ok(value),
            Immediate::Single(_) | Immediate::Double(_) => {
                Err(self.wrong(token, "constant expressions are of integers"))
            }
        }
    }

    /// The error that a token has no value.
    pub(super) fn wrong(&self, token: Token<'_>, problem: &'static str) -> ParseError {
        self.error(token.offset, Reason::Literal { text: token.text.to_owned(), problem })
    }

    fn too_deep(&self, token: Token<'_>) -> ParseError {
        self.error(token.offset, Reason::Limit { what: "nested operators", limit: DEPTH })
    }
}

/// Whether a token is a number; `.5` is one where no modifier can be.
fn is_number(token: Token<'_>) -> bool {
    let digit = token.text.as_bytes().get(1).is_some_and(u8::is_ascii_digit);
    token.kind == TokenKind::Number || token.kind == TokenKind::Dotted && digit
}

/// Applies an operator to two numbers of 64 bits, of which one or both may be unsigned.
fn combine(operator: &str, [a, b]: [u64; 2], unsigned: bool) -> Result<Immediate, &'static str> {
    let (x, y) = (a as i64, b as i64);
    let truth = |holds: bool| Ok(Immediate::Signed(holds.into()));
    let number = |bits: u64| {
        Ok(if unsigned { Immediate::Unsigned(bits) } else { Immediate::Signed(bits as i64) })
    };
    let zero = "a constant is divided by zero";
    let less = if unsigned { a < b } else { x < y };
    match operator {
        "||" => truth(a != 0 || b != 0),
        "&&" => truth(a != 0 && b != 0),
        "==" => truth(a == b),
        "!=" => truth(a != b),
        "<" => truth(less),
        ">=" => truth(!less),
        ">" => truth(!less && a != b),
        "<=" => truth(less || a == b),
        "|" => number(a | b),
        "^" => number(a ^ b),
        "&" => number(a & b),
        "+" => number(a.wrapping_add(b)),
        "-" => number(a.wrapping_sub(b)),
        "*" => number(a.wrapping_mul(b)),
        "/" if unsigned => number(a.checked_div(b).ok_or(zero)?),
        "%" if unsigned => number(a.checked_rem(b).ok_or(zero)?),
        "/" | "%" if b == 0 => Err(zero),
        "/" => number(x.wrapping_div(y) as u64),
        "%" => number(x.wrapping_rem(y) as u64),
        // Counts of 64 and more shift everything out.
        "<<" => number(if b < 64 { a << b } else { 0 }),
        _ if unsigned => number(if b < 64 { a >> b } else { 0 }),
        _ => number((x >> b.min(63)) as u64),
    }
}
