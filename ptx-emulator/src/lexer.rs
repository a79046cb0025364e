//! Text to tokens.
//!
//! PTX needs no context to be cut into tokens, if a dotted word (`.shared::cta`, `.2d`, `.x`) is
//! one token and a number keeps its text until somebody knows what it is for: `8.6` is a version
//! after `.version` and a float elsewhere.

use crate::error::{ParseError, Reason};

/// The kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An identifier, with its leading `%`, `$` or `_`; `_` alone too.
    Word,
    /// A dot and what follows it; the text starts with the dot.
    Dotted,
    /// Anything that starts with a digit.
    Number,
    /// A string; the text includes the quotes.
    String,
    /// One character of punctuation.
    Punctuation,
    /// The end of the text.
    End,
}

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    /// Where the token starts, in bytes.
    pub offset: usize,
    /// The line it starts on, from 1.
    pub line: u32,
}

impl Token<'_> {
    /// Where the token ends, in bytes; a dotted word that starts there is attached to it.
    pub fn end(&self) -> usize {
        self.offset + self.text.len()
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'%')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$')
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Cuts a text into tokens; the last one is [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), offset: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == TokenKind::End {
            return Ok(tokens);
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    offset: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.offset + ahead).copied()
    }

    fn error(&self, offset: usize, reason: Reason) -> ParseError {
        ParseError::at(self.text, offset, reason)
    }

    /// The end of the run of bytes from `start` that satisfy `accept`.
    fn run(&self, start: usize, accept: fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(start..).unwrap_or_default();
        start + rest.iter().take_while(|&&byte| accept(byte)).count()
    }

    fn next(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_blank()?;
        let start = self.offset;
        let line = self.line;
        let Some(first) = self.peek(0) else {
            return Ok(Token { kind: TokenKind::End, text: "", offset: start, line });
        };
        let (kind, end) = match first {
            b'.' => (TokenKind::Dotted, self.dotted_end(start)?),
            b'"' => (TokenKind::String, self.string_end(start)?),
            b'0'..=b'9' => (TokenKind::Number, self.number_end(start)),
            _ if is_word_start(first) => {
                let end = self.run(start + 1, is_word);
                if end == start + 1 && first == b'%' {
                    return Ok(self.punctuation(start, line));
                }
                if end == start + 1 && first == b'$' {
                    let expected = "a name after the sign".into();
                    return Err(self.error(
                        start,
                        Reason::Unexpected { expected, found: (first as char).into() },
                    ));
                }
                (TokenKind::Word, end)
            }
            b',' | b';' | b':' | b'(' | b')' | b'{' | b'}' | b'[' | b']' | b'<' | b'>' | b'@'
            | b'!' | b'|' | b'+' | b'-' | b'=' | b'*' | b'/' | b'&' | b'^' | b'~' | b'?' => {
                return Ok(self.punctuation(start, line));
            }
            _ => {
                let found = self.text[start..].chars().next().unwrap_or_default();
                return Err(self.error(start, Reason::Character(found)));
            }
        };
        self.offset = end;
        Ok(Token { kind, text: &self.text[start..end], offset: start, line })
    }

    fn punctuation(&mut self, start: usize, line: u32) -> Token<'a> {
        self.offset = start + 1;
        Token { kind: TokenKind::Punctuation, text: &self.text[start..=start], offset: start, line }
    }

    /// Skips white space and comments, and counts lines.
    fn skip_blank(&mut self) -> Result<(), ParseError> {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\n' => {
                    self.line = self.line.saturating_add(1);
                    self.offset += 1;
                }
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.offset += 1,
                b'/' if self.peek(1) == Some(b'/') => {
                    self.offset = self.run(self.offset, |byte| byte != b'\n');
                }
                b'/' if self.peek(1) == Some(b'*') => {
                    let Some(length) = self.text[self.offset + 2..].find("*/") else {
                        return Err(self.error(self.offset, Reason::Unterminated("comment")));
                    };
                    let end = self.offset + 2 + length + 2;
                    let skipped = &self.bytes[self.offset..end];
                    let lines = skipped.iter().filter(|&&byte| byte == b'\n').count();
                    self.line = self.line.saturating_add(lines as u32);
                    self.offset = end;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// A dot, a word, and any number of `::word`.
    fn dotted_end(&self, start: usize) -> Result<usize, ParseError> {
        let mut end = start + 1;
        loop {
            let next = self.run(end, is_plain);
            if next == end {
                return Err(self.error(end, Reason::Modifier));
            }
            end = next;
            if self.bytes.get(end..end + 2) != Some(b"::") {
                return Ok(self.exponent_end(start + 1, end));
            }
            end += 2;
        }
    }

    /// The end of a fraction such as `.5e-3`, which begins with a dot; else the same end.
    fn exponent_end(&self, start: usize, end: usize) -> usize {
        let digits = self.run(start, |byte| byte.is_ascii_digit());
        let exponent = digits > start && matches!(&self.bytes[digits..end], b"e" | b"E");
        match self.bytes.get(end) {
            Some(b'+' | b'-') if exponent => self.run(end + 1, is_plain),
            _ => end,
        }
    }

    /// PTX strings have no escapes and stay on their line.
    fn string_end(&self, start: usize) -> Result<usize, ParseError> {
        let end = self.run(start + 1, |byte| byte != b'"' && byte != b'\n');
        match self.bytes.get(end) {
            Some(b'"') => Ok(end + 1),
            _ => Err(self.error(start, Reason::Unterminated("string"))),
        }
    }

    /// A run of letters and digits; if it is decimal, also a fraction and a signed exponent.
    fn number_end(&self, start: usize) -> usize {
        let mut end = self.run(start, is_plain);
        let decimal = |end: usize| {
            self.bytes[start..end].iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        };
        if decimal(end) && self.bytes.get(end) == Some(&b'.') {
            end = self.run(end + 1, is_plain);
        }
        let exponent = matches!(self.bytes[end - 1], b'e' | b'E') && decimal(end - 1);
        if exponent && matches!(self.bytes.get(end), Some(b'+' | b'-')) {
            end = self.run(end + 1, is_plain);
        }
        end
    }
}
