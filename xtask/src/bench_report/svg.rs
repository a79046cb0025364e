//! Pictures as text: a few shapes are all that charts here need, so they are written by hand.

use std::fmt::Write;

/// Colours of series, told apart by those who do not see red and green, too.
pub const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

/// Where a text is fixed to its point.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// A picture under way.
pub struct Picture {
    size: (f64, f64),
    body: String,
}

impl Picture {
    /// White, so that it can be read on a dark page.
    pub fn new(width: f64, height: f64) -> Self {
        let mut picture = Self { size: (width, height), body: String::new() };
        picture.bar((0.0, 0.0), (width, height), "white");
        picture
    }

    /// A filled rectangle.
    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
        );
    }

    /// A line.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#
        );
    }

    /// A point that says what it is where the pointer rests on it.
    pub fn point(&mut self, (x, y): (f64, f64), colour: &str, title: &str) {
        let _ = writeln!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{colour}" fill-opacity="0.75"><title>{}</title></circle>"#,
            escaped(title)
        );
    }

    /// A line of text.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: u32, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            r##"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}" fill="#222222">{}</text>"##,
            escaped(text)
        );
    }

    /// The file.
    pub fn finish(self) -> String {
        let (width, height) = self.size;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\">\n{}</svg>\n",
            self.body
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
