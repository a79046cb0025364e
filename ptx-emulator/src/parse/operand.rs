//! Instructions and operands.

use super::{Name, Parser};
use crate::error::ParseError;
use crate::lexer::TokenKind;
use crate::module::{Address, Base, Component, Guard, Instruction, Opcode, Operand};

impl<'a> Parser<'a> {
    /// A guard, an opcode and operands, up to and with the semicolon.
    pub(super) fn instruction(
        &mut self,
        location: Option<usize>,
    ) -> Result<Instruction<Name<'a>>, ParseError> {
        let line = self.peek().line;
        let guard = if self.take("@") {
            let negated = self.take("!");
            Some(Guard { predicate: self.name("a predicate register")?, negated })
        } else {
            None
        };
        let opcode = self.opcode()?;
        let mut operands = Vec::new();
        if self.at("}") {
            return Err(self.unexpected("an operand or `;`"));
        }
        if !self.at(";") {
            loop {
                // Only `call` has lists in parentheses.
                if opcode.mnemonic != "call" && self.at_parenthesis() {
                    operands.push(Operand::Immediate(self.constant()?));
                } else {
                    operands.push(self.operand()?);
                }
                if !self.take(",") {
                    break;
                }
            }
        }
        if !self.at(";") {
            return Err(self.unexpected("`,` or `;`"));
        }
        self.advance();
        Ok(Instruction { guard, opcode, operands, line, location })
    }

    fn opcode(&mut self) -> Result<Opcode, ParseError> {
        let expected = "an instruction, a label, a directive or `}`";
        let mnemonic = self.peek();
        if !mnemonic.text.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return Err(self.unexpected(expected));
        }
        let mnemonic = self.word(expected)?;
        let mut modifiers = Vec::new();
        while self.peek().kind == TokenKind::Dotted {
            modifiers.push(self.advance().text[1..].to_owned());
        }
        Ok(Opcode { mnemonic: mnemonic.text.to_owned(), modifiers })
    }

    fn operand(&mut self) -> Result<Operand<Name<'a>>, ParseError> {
        match self.peek().text {
            "[" => self.address().map(Operand::Address),
            "{" => self.vector(),
            "(" => {
                self.advance();
                Ok(Operand::Arguments(self.simple_list(")")?))
            }
            _ => {
                let first = self.simple()?;
                if !self.at("|") {
                    return Ok(first);
                }
                let paired =
                    |operand: &Operand<_>| matches!(operand, Operand::Name(_) | Operand::Sink);
                if !paired(&first) {
                    return Err(self.unexpected("`,` or `;`"));
                }
                self.advance();
                if self.peek().kind != TokenKind::Word {
                    return Err(self.unexpected("a register or `_`"));
                }
                let second = self.simple()?;
                if !paired(&second) {
                    self.position -= 1;
                    return Err(self.unexpected("`,` or `;`"));
                }
                Ok(Operand::Pair(Box::new([first, second])))
            }
        }
    }

    fn vector(&mut self) -> Result<Operand<Name<'a>>, ParseError> {
        self.expect("{")?;
        if self.at("}") {
            return Err(self.unexpected("an operand"));
        }
        Ok(Operand::Vector(self.simple_list("}")?))
    }

    /// Operands without brackets, up to and with the closing one.
    fn simple_list(&mut self, close: &str) -> Result<Vec<Operand<Name<'a>>>, ParseError> {
        let mut operands = Vec::new();
        if self.take(close) {
            return Ok(operands);
        }
        loop {
            operands.push(self.simple()?);
            if self.take(close) {
                return Ok(operands);
            }
            if !self.take(",") {
                return Err(self.unexpected(&format!("`,` or `{close}`")));
            }
        }
    }

    /// An operand without brackets.
    fn simple(&mut self) -> Result<Operand<Name<'a>>, ParseError> {
        let token = self.peek();
        if self.at_constant() {
            return self.constant().map(Operand::Immediate);
        }
        if self.take("!") {
            return self.name("a predicate register").map(Operand::Not);
        }
        if self.take("_") {
            return Ok(Operand::Sink);
        }
        let name = self.name("an operand")?;
        let dotted = self.peek();
        if dotted.kind == TokenKind::Dotted {
            let component = Component::from_word(dotted.text)
                .filter(|_| dotted.offset == token.end())
                .ok_or_else(|| self.unexpected("`,`, `;` or one of `.x`, `.y`, `.z` and `.w`"))?;
            self.advance();
            return Ok(Operand::Component(name, component));
        }
        Ok(match self.at("+") || self.at("-") {
            true => Operand::Offset(name, self.offset()?),
            false => Operand::Name(name),
        })
    }

    fn address(&mut self) -> Result<Address<Name<'a>>, ParseError> {
        self.expect("[")?;
        let (base, offset) = match self.peek().kind {
            TokenKind::Number => (Base::Immediate(self.unsigned("an address")?), 0),
            _ => (Base::Name(self.name("a register, a symbol or a number")?), self.offset()?),
        };
        let mut coordinates = Vec::new();
        while self.take(",") {
            coordinates.push(if self.at("{") { self.vector()? } else { self.simple()? });
        }
        if !self.at("]") {
            return Err(self.unexpected("`+`, `,` or `]`"));
        }
        self.advance();
        Ok(Address { base, offset, coordinates })
    }
}
