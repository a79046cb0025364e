//! What stands between the braces of a function, still with names as text.

use super::{Name, Parser};
use crate::error::{ParseError, Reason};
use crate::lexer::TokenKind;
use crate::module::{
    Inlined, Instruction, Location, Prototype, RegisterGroup, ScalarType, StateSpace, Variable,
    VectorLength,
};

/// How deep blocks may nest.
const DEPTH: u64 = 64;

/// A statement before names are resolved. Blocks are a flat list with marks, so that nothing that
/// reads them recurses.
pub(super) enum RawStatement<'a> {
    Instruction(Box<Instruction<Name<'a>>>),
    Label(Name<'a>),
    Registers(Name<'a>, RegisterGroup),
    Variable(usize, Box<Variable<Name<'a>>>),
    Location(Location),
    BranchTargets(Name<'a>, Vec<Name<'a>>),
    CallTargets(Name<'a>, Vec<Name<'a>>),
    Prototype(Name<'a>, Prototype),
    Pragma(&'a str),
    Open,
    Close,
}

impl<'a> Parser<'a> {
    /// A body with its braces; the outermost ones are not among the statements.
    pub(super) fn body(&mut self) -> Result<Vec<RawStatement<'a>>, ParseError> {
        self.expect("{")?;
        let mut statements = Vec::new();
        let mut depth = 0;
        let mut locations = 0;
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::Punctuation if token.text == "{" => {
                    if depth == DEPTH {
                        let reason = Reason::Limit { what: "nested blocks", limit: DEPTH };
                        return Err(self.error(token.offset, reason));
                    }
                    depth += 1;
                    self.advance();
                    statements.push(RawStatement::Open);
                }
                TokenKind::Punctuation if token.text == "}" => {
                    self.advance();
                    if depth == 0 {
                        return Ok(statements);
                    }
                    depth -= 1;
                    statements.push(RawStatement::Close);
                }
                TokenKind::Dotted => self.directive(&mut statements, &mut locations)?,
                TokenKind::Word if self.ahead(1).text == ":" => {
                    let statement = self.labelled()?;
                    statements.push(statement);
                }
                _ => {
                    let location = usize::checked_sub(locations, 1);
                    let instruction = self.instruction(location)?;
                    statements.push(RawStatement::Instruction(Box::new(instruction)));
                }
            }
        }
    }

    /// A label, with the directive that needs one if it follows.
    fn labelled(&mut self) -> Result<RawStatement<'a>, ParseError> {
        let name = self.name("a label")?;
        self.expect(":")?;
        if self.take(".branchtargets") {
            Ok(RawStatement::BranchTargets(name, self.targets("a label")?))
        } else if self.take(".calltargets") {
            Ok(RawStatement::CallTargets(name, self.targets("a function")?))
        } else if self.take(".callprototype") {
            let plain =
                |list: Vec<(usize, Variable)>| list.into_iter().map(|(_, own)| own).collect();
            let returns = plain(self.parameters()?);
            self.expect("_")?;
            let parameters = plain(self.parameters()?);
            let noreturn = self.take(".noreturn");
            self.expect(";")?;
            let prototype = Prototype { name: name.text.to_owned(), returns, parameters, noreturn };
            Ok(RawStatement::Prototype(name, prototype))
        } else {
            Ok(RawStatement::Label(name))
        }
    }

    /// Names with commas, up to and with the semicolon.
    fn targets(&mut self, expected: &str) -> Result<Vec<Name<'a>>, ParseError> {
        let mut names = vec![self.name(expected)?];
        while self.take(",") {
            names.push(self.name(expected)?);
        }
        if !self.at(";") {
            return Err(self.unexpected("`,` or `;`"));
        }
        self.advance();
        Ok(names)
    }

    fn directive(
        &mut self,
        statements: &mut Vec<RawStatement<'a>>,
        locations: &mut usize,
    ) -> Result<(), ParseError> {
        let word = self.peek().text;
        match word {
            ".reg" => self.registers(statements)?,
            ".pragma" => {
                statements.extend(self.pragma()?.into_iter().map(RawStatement::Pragma));
            }
            ".loc" => {
                statements.push(RawStatement::Location(self.location()?));
                *locations += 1;
            }
            _ if StateSpace::from_word(word).is_some() => {
                for (offset, variable) in self.variables(None)? {
                    statements.push(RawStatement::Variable(offset, Box::new(variable)));
                }
            }
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                return Err(self.unexpected("a label and `:` before this directive"));
            }
            _ => return Err(self.unknown_directive()),
        }
        Ok(())
    }

    /// `.reg .b32 %r<5>, x;`
    fn registers(&mut self, statements: &mut Vec<RawStatement<'a>>) -> Result<(), ParseError> {
        self.expect(".reg")?;
        let vector = VectorLength::from_word(self.peek().text);
        self.position += usize::from(vector.is_some());
        let scalar = ScalarType::from_word(self.peek().text)
            .ok_or_else(|| self.unexpected("a type such as `.b32`"))?;
        self.advance();
        loop {
            let name = self.name("a register name")?;
            let mut count = None;
            if self.take("<") {
                count = Some(self.small("a count")?);
                self.expect(">")?;
            }
            // The dense index is known when names are resolved.
            let group =
                RegisterGroup { name: name.text.to_owned(), count, first: 0, vector, scalar };
            statements.push(RawStatement::Registers(name, group));
            if self.take(";") {
                return Ok(());
            }
            if !self.take(",") {
                return Err(self.unexpected("`<`, `,` or `;`"));
            }
        }
    }

    /// `.loc 1 2 3`, perhaps with `, function_name label+4, inlined_at 1 2 3`.
    fn location(&mut self) -> Result<Location, ParseError> {
        self.expect(".loc")?;
        let file = self.small("the number of a file")?;
        let line = self.small("a line")?;
        let column = self.small("a column")?;
        let mut inlined_at = None;
        if self.take(",") {
            self.expect("function_name")?;
            let name_label = self.name("a label")?.text.to_owned();
            let name_offset = if self.take("+") { self.small("an offset")? } else { 0 };
            self.expect(",")?;
            self.expect("inlined_at")?;
            inlined_at = Some(Inlined {
                name_label,
                name_offset,
                file: self.small("the number of a file")?,
                line: self.small("a line")?,
                column: self.small("a column")?,
            });
        }
        Ok(Location { file, line, column, inlined_at })
    }
}
