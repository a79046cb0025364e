//! The top level of a module, still with names as text.

use super::body::RawStatement;
use super::{Name, Parser};
use crate::error::{ParseError, Reason};
use crate::lexer::TokenKind;
use crate::module::{
    Directive, Function, FunctionKind, Linkage, SourceFile, StateSpace, Variable, Version,
};

/// The directives between parameters and body: word, least and greatest count of numbers.
const DIRECTIVES: [(&str, usize, usize); 10] = [
    (".maxntid", 1, 3),
    (".reqntid", 1, 3),
    (".minnctapersm", 1, 1),
    (".maxnctapersm", 1, 1),
    (".maxnreg", 1, 1),
    (".reqnctapercluster", 1, 3),
    (".maxclusterrank", 1, 1),
    (".explicitcluster", 0, 0),
    (".blocksareclusters", 0, 0),
    (".noreturn", 0, 0),
];

/// Something at the top level before names are resolved.
pub(super) enum RawItem<'a> {
    Variable(usize, Variable<Name<'a>>),
    Function(Box<RawFunction<'a>>),
    File(SourceFile),
    Pragma(&'a str),
}

/// A function before names are resolved.
pub(super) struct RawFunction<'a> {
    /// Everything but the body.
    pub header: Function,
    pub name: Name<'a>,
    /// Where the return values and parameters stand.
    pub offsets: [Vec<usize>; 2],
    pub body: Option<Vec<RawStatement<'a>>>,
}

/// A module before names are resolved.
pub(super) struct RawModule<'a> {
    pub version: Version,
    pub target: Vec<String>,
    pub address_size: Option<u32>,
    pub items: Vec<RawItem<'a>>,
}

impl<'a> Parser<'a> {
    pub(super) fn module(&mut self) -> Result<RawModule<'a>, ParseError> {
        self.expect(".version")?;
        let version = self.version()?;
        self.expect(".target")?;
        let mut target = vec![self.name("an architecture such as `sm_90a`")?.text.to_owned()];
        while self.take(",") {
            target.push(self.name("a target option")?.text.to_owned());
        }
        let mut address_size = None;
        if self.take(".address_size") {
            let token = self.peek();
            address_size = Some(self.small("32 or 64")?);
            if !matches!(address_size, Some(32 | 64)) {
                let (text, problem) = (token.text.to_owned(), "an address has 32 or 64 bits");
                return Err(self.error(token.offset, Reason::Literal { text, problem }));
            }
        }
        let mut items = Vec::new();
        while self.peek().kind != TokenKind::End {
            self.item(&mut items)?;
        }
        Ok(RawModule { version, target, address_size, items })
    }

    fn version(&mut self) -> Result<Version, ParseError> {
        let expected = "a version such as `8.6`";
        let text = self.peek().text;
        let parts = text.split_once('.').and_then(|(major, minor)| {
            Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()? })
        });
        let version = parts.filter(|_| self.peek().kind == TokenKind::Number);
        let version = version.ok_or_else(|| self.unexpected(expected))?;
        self.advance();
        Ok(version)
    }

    fn item(&mut self, items: &mut Vec<RawItem<'a>>) -> Result<(), ParseError> {
        match self.peek().text {
            ".file" => {
                items.push(RawItem::File(self.file()?));
                return Ok(());
            }
            ".section" => return self.section(),
            ".pragma" => {
                items.extend(self.pragma()?.into_iter().map(RawItem::Pragma));
                return Ok(());
            }
            _ => {}
        }
        let linkage = Linkage::from_word(self.peek().text);
        self.position += usize::from(linkage.is_some());
        let word = self.peek();
        match word.text {
            ".entry" => items
                .push(RawItem::Function(Box::new(self.function(linkage, FunctionKind::Entry)?))),
            ".func" => items
                .push(RawItem::Function(Box::new(self.function(linkage, FunctionKind::Device)?))),
            text if StateSpace::from_word(text)
                .is_some_and(|space| !matches!(space, StateSpace::Param | StateSpace::Local)) =>
            {
                let variables = self.variables(linkage)?;
                items.extend(variables.into_iter().map(|(at, own)| RawItem::Variable(at, own)));
            }
            _ if linkage.is_some() => {
                return Err(self.unexpected("`.entry`, `.func` or a state space"));
            }
            _ if word.kind == TokenKind::Dotted => return Err(self.unknown_directive()),
            _ => return Err(self.unexpected("a directive")),
        }
        Ok(())
    }

    /// `.file 1 "name"`, perhaps with a time stamp and a size.
    fn file(&mut self) -> Result<SourceFile, ParseError> {
        self.expect(".file")?;
        let number = self.small("the number of a file")?;
        let path = self.string()?.to_owned();
        let mut stamp = None;
        if self.take(",") {
            let time = self.unsigned("a time stamp")?;
            self.expect(",")?;
            stamp = Some((time, self.unsigned("a size")?));
        }
        Ok(SourceFile { number, path, stamp })
    }

    /// Debug sections are skipped: what a checker needs of them, `.loc` and `.file` say too.
    fn section(&mut self) -> Result<(), ParseError> {
        self.expect(".section")?;
        if self.peek().kind != TokenKind::Dotted {
            return Err(self.unexpected("the name of a section"));
        }
        self.advance();
        self.expect("{")?;
        let mut depth = 1_usize;
        while depth > 0 {
            if self.peek().kind == TokenKind::End {
                return Err(self.unexpected("`}`"));
            }
            let token = self.advance();
            match token.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    fn function(
        &mut self,
        linkage: Option<Linkage>,
        kind: FunctionKind,
    ) -> Result<RawFunction<'a>, ParseError> {
        self.advance();
        let returns = match kind {
            FunctionKind::Entry => Vec::new(),
            FunctionKind::Device => self.parameters()?,
        };
        let line = self.peek().line;
        let name = self.name("the name of a function")?;
        let parameters = self.parameters()?;
        let in_register = |own: &&(usize, Variable)| own.1.register.is_some();
        if kind == FunctionKind::Entry
            && let Some((offset, own)) = parameters.iter().find(in_register)
        {
            let (name, wanted) =
                (own.name.clone(), "a parameter of an entry, which needs `.param`");
            return Err(self.error(*offset, Reason::Kind { name, wanted }));
        }
        if returns.len() > 1
            && let Some((offset, own)) = returns.iter().find(|own| !in_register(own))
        {
            let (name, wanted) = (own.name.clone(), "one of several results, which need `.reg`");
            return Err(self.error(*offset, Reason::Kind { name, wanted }));
        }
        let (directives, pragmas) = self.function_directives(kind)?;
        let body = if self.take(";") {
            None
        } else if self.at("{") {
            Some(self.body()?)
        } else if self.peek().kind == TokenKind::Dotted {
            return Err(self.unknown_directive());
        } else {
            return Err(self.unexpected("`;`, `{` or a directive"));
        };
        let (return_offsets, returns) = returns.into_iter().unzip();
        let (parameter_offsets, parameters) = parameters.into_iter().unzip();
        let name_text = name.text.to_owned();
        let header = Function {
            linkage,
            kind,
            name: name_text,
            returns,
            parameters,
            directives,
            pragmas,
            body: None,
            line,
        };
        Ok(RawFunction { header, name, offsets: [return_offsets, parameter_offsets], body })
    }

    /// `.pragma "…", "…";`
    pub(super) fn pragma(&mut self) -> Result<Vec<&'a str>, ParseError> {
        self.expect(".pragma")?;
        let mut pragmas = vec![self.string()?];
        while self.take(",") {
            pragmas.push(self.string()?);
        }
        self.expect(";")?;
        Ok(pragmas)
    }

    /// What stands between parameters and body; only entries have pragmas there.
    fn function_directives(
        &mut self,
        kind: FunctionKind,
    ) -> Result<(Vec<Directive>, Vec<String>), ParseError> {
        let (mut directives, mut pragmas) = (Vec::new(), Vec::new());
        let known = |word: &str| DIRECTIVES.into_iter().find(|(own, _, _)| *own == word);
        loop {
            if kind == FunctionKind::Entry && self.at(".pragma") {
                pragmas.extend(self.pragma()?.into_iter().map(str::to_owned));
                continue;
            }
            let Some((word, least, most)) = known(self.peek().text) else { break };
            self.advance();
            let mut values = Vec::new();
            while values.len() < most {
                if values.len() >= least && (values.is_empty() || !self.at(",")) {
                    break;
                }
                if !values.is_empty() {
                    self.expect(",")?;
                }
                values.push(self.small("a number")?);
            }
            directives.push(Directive { word, values });
        }
        Ok((directives, pragmas))
    }
}
