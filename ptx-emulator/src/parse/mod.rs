//! Tokens to a module, in two steps: syntax with names as text, then names to references.
//!
//! Two steps because a label may be used before it stands, and a function before it is defined.

mod body;
mod constant;
mod literal;
mod operand;
mod resolve;
mod scope;
mod special;
mod top;
mod variable;

use crate::error::{ParseError, Reason};
use crate::lexer::{Token, TokenKind, tokens};
use crate::module::{Immediate, Module};

/// A name that still is text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub text: &'a str,
    /// Where it stands, in bytes.
    pub offset: usize,
}

impl Module {
    /// Parses the text of a module.
    ///
    /// # Errors
    ///
    /// The first thing in the text that is not PTX as this crate knows it.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { text, tokens: tokens(text)?, position: 0 };
        let raw = parser.module()?;
        resolve::module(text, raw)
    }
}

/// A place among the tokens.
struct Parser<'a> {
    text: &'a str,
    /// Never empty: the last one is [`TokenKind::End`].
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn ahead(&self, count: usize) -> Token<'a> {
        self.tokens[(self.position + count).min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> Token<'a> {
        self.ahead(0)
    }

    fn advance(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn at(&self, text: &str) -> bool {
        let token = self.peek();
        token.text == text && token.kind != TokenKind::String
    }

    /// Takes a token if it is the one given.
    fn take(&mut self, text: &str) -> bool {
        let found = self.at(text);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, text: &str) -> Result<Token<'a>, ParseError> {
        if self.at(text) { Ok(self.advance()) } else { Err(self.unexpected(&format!("`{text}`"))) }
    }

    fn error(&self, offset: usize, reason: Reason) -> ParseError {
        ParseError::at(self.text, offset, reason)
    }

    /// The error that the next token is not what the grammar wants.
    fn unexpected(&self, expected: &str) -> ParseError {
        let token = self.peek();
        let found = match token.kind {
            TokenKind::End => "the end of the text".to_owned(),
            _ => format!("`{}`", token.text),
        };
        self.error(token.offset, Reason::Unexpected { expected: expected.to_owned(), found })
    }

    fn unknown_directive(&self) -> ParseError {
        let token = self.peek();
        self.error(token.offset, Reason::Directive(token.text.to_owned()))
    }

    /// Any identifier, `_` included.
    fn word(&mut self, expected: &str) -> Result<Name<'a>, ParseError> {
        if self.peek().kind != TokenKind::Word {
            return Err(self.unexpected(expected));
        }
        let token = self.advance();
        Ok(Name { text: token.text, offset: token.offset })
    }

    /// An identifier that can be referred to.
    fn name(&mut self, expected: &str) -> Result<Name<'a>, ParseError> {
        if self.at("_") { Err(self.unexpected(expected)) } else { self.word(expected) }
    }

    fn string(&mut self) -> Result<&'a str, ParseError> {
        if self.peek().kind != TokenKind::String {
            return Err(self.unexpected("a string"));
        }
        let text = self.advance().text;
        Ok(&text[1..text.len() - 1])
    }

    /// An integer that is not negative.
    fn unsigned(&mut self, expected: &str) -> Result<u64, ParseError> {
        let token = self.peek();
        if token.kind == TokenKind::Number {
            match literal::literal(token.text).map_err(|problem| self.wrong(token, problem))? {
                Immediate::Signed(value) => {
                    self.advance();
                    return Ok(value.unsigned_abs());
                }
                Immediate::Unsigned(value) => {
                    self.advance();
                    return Ok(value);
                }
                Immediate::Single(_) | Immediate::Double(_) => {}
            }
        }
        Err(self.unexpected(expected))
    }

    /// An integer of at most 32 bits that is not negative.
    fn small(&mut self, expected: &str) -> Result<u32, ParseError> {
        let token = self.peek();
        let value = self.unsigned(expected)?;
        u32::try_from(value).map_err(|_| {
            let (text, problem) = (token.text.to_owned(), "it does not fit 32 bits");
            self.error(token.offset, Reason::Literal { text, problem })
        })
    }

    /// `+4`, `-4` or `+-4`; nothing is zero.
    fn offset(&mut self) -> Result<i64, ParseError> {
        if !self.take("+") && !self.at("-") {
            return Ok(0);
        }
        let token = self.peek();
        match self.constant()? {
            Immediate::Signed(value) => Ok(value),
            // Addresses wrap at 64 bits, so the two's complement reading is the same offset.
            Immediate::Unsigned(value) => Ok(value as i64),
            Immediate::Single(_) | Immediate::Double(_) => {
                let (text, problem) = (token.text.to_owned(), "an offset is an integer");
                Err(self.error(token.offset, Reason::Literal { text, problem }))
            }
        }
    }
}
