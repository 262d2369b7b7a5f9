//! Reads litmus files. Whatever the bytes are, the answer is a test or an error that names the
//! file, the line, what is wrong, and what would be right.

use super::language::{Column, Expectation, Instruction, Litmus, Place, Register, Verdict};
use super::outcome::{Outcome, Value, number};
use std::collections::BTreeSet;

/// The most bytes that a file may have.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// The most threads of a test.
pub const THREADS_MAX: usize = 4;
/// The most instructions of a thread.
pub const THREAD_STEPS_MAX: usize = 24;
/// The most instructions of all threads together.
pub const STEPS_MAX: usize = 48;
/// The most lines of memory that a test may name.
pub const LINES_MAX: usize = 12;
/// The most columns of an outcome.
pub const COLUMNS_MAX: usize = 12;
/// The most wide stores of a test: each doubles the programs that it stands for.
pub const WIDE_MAX: usize = 4;

const KEYS: &str = "title, source, note, thread, memory, question";
const INSTRUCTIONS: &str = "W x v, W2 x.a x.b v, NT x v, M64 x v, R x r, \
                            FAA x n [r], CAS x old new r, \
                            CO x, CF x, SF, MF, PB, DF, NS, JS, IF r v";

/// Why a litmus file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct BadLitmus {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and the remedy.
    pub what: String,
}

/// A `key: value` with its line; continuation lines are joined on.
struct Entry {
    line: usize,
    key: String,
    value: String,
}

/// Reads the test in `text`; `file` is for messages, `id` and `family` say where it stands and
/// `models` are the names of models that may be expected something of.
pub(super) fn parse(
    file: &str,
    (family, id): (&str, &str),
    text: &[u8],
    models: &[&str],
) -> Result<Litmus, BadLitmus> {
    let bad = |line: usize, what: String| BadLitmus { file: file.into(), line, what };
    if text.len() > FILE_BYTES_MAX {
        return Err(bad(1, format!("the file is larger than {FILE_BYTES_MAX} bytes; shorten it")));
    }
    let text = std::str::from_utf8(text).map_err(|error| {
        let before = &text[..error.valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        bad(line, "not UTF-8 text; litmus files are plain text".into())
    })?;
    let entries = entries(text).map_err(|(line, what)| bad(line, what))?;
    let last = text.lines().count().max(1);
    let mut reader = Reader::new(id, family, models);
    for entry in &entries {
        reader.head(entry).map_err(|what| bad(entry.line, what))?;
    }
    if reader.test.threads.is_empty() {
        return Err(bad(last, "no `thread:` line; give one for each thread".into()));
    }
    reader.columns(&entries).map_err(|(line, what)| bad(line, what))?;
    for entry in &entries {
        reader.expectation(entry).map_err(|what| bad(entry.line, what))?;
    }
    Ok(reader.test)
}

fn entries(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries: Vec<Entry> = Vec::new();
    for (at, raw) in text.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or_default();
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            let Some(entry) = entries.last_mut() else {
                let what = "an indented line continues the one before, and there is none";
                return Err((at + 1, format!("{what}; begin it at the margin")));
            };
            entry.value.push(' ');
            entry.value.push_str(line.trim());
            continue;
        }
        let Some((key, value)) = line.split_once(':') else {
            let what = format!("`{}` has no colon; a line is `key: value`", shown(line));
            return Err((at + 1, what));
        };
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        entries.push(Entry { line: at + 1, key, value });
    }
    Ok(entries)
}

/// At most a few words of the user's text, for a message.
fn shown(text: &str) -> String {
    let text = text.trim();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short}..") } else { short }
}

/// A test as far as it was read.
struct Reader<'a> {
    test: Litmus,
    models: &'a [&'a str],
    /// The thread that each register belongs to.
    owners: Vec<usize>,
    /// Words that the program may store to, in order of first use.
    stored: Vec<Place>,
}

impl<'a> Reader<'a> {
    fn new(id: &str, family: &str, models: &'a [&'a str]) -> Reader<'a> {
        let test = Litmus {
            id: id.into(),
            family: family.into(),
            title: String::new(),
            source: String::new(),
            note: String::new(),
            threads: Vec::new(),
            columns: Vec::new(),
            question: Vec::new(),
            expected: Vec::new(),
            lines: Vec::new(),
            registers: Vec::new(),
        };
        Reader { test, models, owners: Vec::new(), stored: Vec::new() }
    }

    fn head(&mut self, entry: &Entry) -> Result<(), String> {
        let value = entry.value.as_str();
        let once = |text: &mut String| {
            if !text.is_empty() {
                return Err(format!("a second `{}:`; a test has one", entry.key));
            }
            *text = value.to_owned();
            Ok(())
        };
        match entry.key.as_str() {
            "title" => once(&mut self.test.title),
            "source" => once(&mut self.test.source),
            "note" => once(&mut self.test.note),
            "thread" => self.thread(value),
            "memory" | "question" => Ok(()),
            key if self.models.contains(&key) => Ok(()),
            key => Err(format!(
                "unknown key `{}`; the keys are {KEYS} and the models {}",
                shown(key),
                self.models.join(", ")
            )),
        }
    }

    fn thread(&mut self, text: &str) -> Result<(), String> {
        if self.test.threads.len() == THREADS_MAX {
            return Err(format!("more than {THREADS_MAX} threads; leave some out"));
        }
        let mut code = Vec::new();
        self.test.threads.push(Vec::new());
        for part in text.split(';') {
            code.push(self.instruction(part)?);
        }
        let wide = |step: &&Instruction| matches!(step, Instruction::Wide(..));
        let (before, wides) = (self.test.threads.iter().flatten(), code.iter().filter(wide));
        if before.clone().filter(wide).count() + wides.count() > WIDE_MAX {
            return Err(format!("more than {WIDE_MAX} wide stores; leave some out"));
        }
        if code.len() > THREAD_STEPS_MAX || before.count() + code.len() > STEPS_MAX {
            return Err(format!(
                "too many instructions; a thread has at most {THREAD_STEPS_MAX}, a test at most \
                 {STEPS_MAX}"
            ));
        }
        *self.test.threads.last_mut().expect("pushed above") = code;
        Ok(())
    }

    fn instruction(&mut self, text: &str) -> Result<Instruction, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let step = match words.as_slice() {
            [] => {
                return Err("an empty instruction; remove the `;` beside it".into());
            }
            ["W", at, value] => Instruction::Write(self.store(at)?, number(value)?),
            ["W2", first, second, value] => {
                let both = [self.store(first)?, self.store(second)?];
                if both[0] == both[1] {
                    return Err(format!("W2 names {first} twice; name two words"));
                }
                Instruction::Wide(both, number(value)?)
            }
            ["NT", at, value] => Instruction::Stream(self.store(at)?, number(value)?),
            ["M64", line, value] => {
                if line.contains('.') {
                    let line = shown(line);
                    return Err(format!("M64 writes a whole line; name the line of {line} only"));
                }
                let first = self.place(line)?;
                for at in first.words_of_line() {
                    self.note_stored(at);
                }
                Instruction::Line(first, number(value)?)
            }
            ["R", at, into] => Instruction::Read(self.place(at)?, self.set(into)?),
            ["FAA", at, by] => Instruction::Add(self.store(at)?, number(by)?, None),
            ["FAA", at, by, into] => {
                Instruction::Add(self.store(at)?, number(by)?, Some(self.set(into)?))
            }
            ["CAS", at, old, new, into] => Instruction::Exchange {
                at: self.store(at)?,
                old: number(old)?,
                new: number(new)?,
                into: self.set(into)?,
            },
            ["CO", at] => Instruction::WriteBack(self.place(at)?),
            ["CF", at] => Instruction::Flush(self.place(at)?),
            ["SF"] => Instruction::StoreFence,
            ["MF"] => Instruction::Fence,
            ["PB"] => Instruction::Barrier,
            ["DF"] => Instruction::Drain,
            ["NS"] => Instruction::Strand,
            ["JS"] => Instruction::Join,
            ["IF", register, value] => {
                let register = self.known_register(register, "IF")?;
                if self.owners[usize::from(register.0)] + 1 != self.test.threads.len() {
                    let name = self.test.register_name(register);
                    return Err(format!(
                        "IF asks for {name}, which another thread reads; use a register of its own"
                    ));
                }
                Instruction::If(register, number(value)?)
            }
            [name, ..] => {
                let is_it = |known: &&str| known.split(' ').next() == Some(*name);
                return Err(match INSTRUCTIONS.split(", ").find(is_it) {
                    Some(usage) => format!("cannot read `{}`; write `{usage}`", shown(text)),
                    None => format!(
                        "unknown instruction `{}`; the instructions are {INSTRUCTIONS}",
                        shown(name)
                    ),
                });
            }
        };
        Ok(step)
    }

    /// The word of that name; a new line gets the next number.
    fn place(&mut self, name: &str) -> Result<Place, String> {
        let (line, part) = name.split_once('.').unwrap_or((name, "a"));
        let word = match part.as_bytes() {
            [part @ b'a'..=b'h'] => part - b'a',
            _ => {
                let name = shown(name);
                return Err(format!("`{name}`: the words of a line are .a to .h; choose one"));
            }
        };
        let mut letters = line.chars();
        let good = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && letters.all(|other| other.is_ascii_alphanumeric() || other == '_')
            && line.len() <= 16
            && !is_register(line);
        if !good {
            return Err(format!(
                "`{}` is no location; give a letter and then letters or digits (r1, r2, .. are \
                 registers), with .a to .h for a word of the line",
                shown(name)
            ));
        }
        let known = self.test.lines.iter().position(|known| known == line);
        if known.is_none() && self.test.lines.len() == LINES_MAX {
            return Err(format!("more than {LINES_MAX} lines of memory; use fewer"));
        }
        let line = known.unwrap_or_else(|| {
            self.test.lines.push(line.into());
            self.test.lines.len() - 1
        });
        Ok(Place { line: line as u8, word })
    }

    fn store(&mut self, name: &str) -> Result<Place, String> {
        let place = self.place(name)?;
        self.note_stored(place);
        Ok(place)
    }

    fn note_stored(&mut self, place: Place) {
        if !self.stored.contains(&place) {
            self.stored.push(place);
        }
    }

    /// The register that the current thread reads into.
    fn set(&mut self, name: &str) -> Result<Register, String> {
        if !is_register(name) {
            return Err(format!("`{}` is no register; write r and a number", shown(name)));
        }
        let thread = self.test.threads.len() - 1;
        if let Some(at) = self.test.registers.iter().position(|known| known == name) {
            if self.owners[at] != thread {
                return Err(format!(
                    "{name} is a register of thread {}; give this thread one of its own",
                    self.owners[at] + 1
                ));
            }
            return Ok(Register(at as u8));
        }
        self.test.registers.push(name.into());
        self.owners.push(thread);
        Ok(Register(self.owners.len() as u8 - 1))
    }

    fn known_register(&self, name: &str, who: &str) -> Result<Register, String> {
        let found = self.test.registers.iter().position(|known| known == name);
        found.map(|at| Register(at as u8)).ok_or_else(|| {
            format!("{who} asks for `{}`, which nothing was read into; read it first", shown(name))
        })
    }

    /// The values of an outcome, and what the question asks of them.
    fn columns(&mut self, entries: &[Entry]) -> Result<(), (usize, String)> {
        let only = |key: &str| {
            let mut found = entries.iter().filter(|entry| entry.key == key);
            match (found.next(), found.next()) {
                (_, Some(second)) => Err((second.line, format!("a second `{key}:`; keep one"))),
                (first, None) => Ok(first),
            }
        };
        let (memory, question) = (only("memory")?, only("question")?);
        let terms = match question {
            Some(entry) => terms(&entry.value).map_err(|what| (entry.line, what))?,
            None => Vec::new(),
        };
        if let Some(entry) = memory {
            for name in entry.value.split_whitespace() {
                let column = self.column(name).map_err(|what| (entry.line, what))?;
                self.add_column(column, name).map_err(|what| (entry.line, what))?;
            }
            if self.test.columns.is_empty() {
                return Err((entry.line, "an empty `memory:`; name locations".into()));
            }
        } else {
            self.test.columns = self.stored.iter().map(|at| Column::Memory(*at)).collect();
            for (name, _) in &terms {
                let line = question.map_or(1, |entry| entry.line);
                let column = self.column(name).map_err(|what| (line, what))?;
                if !self.test.columns.contains(&column) {
                    self.test.columns.push(column);
                }
            }
            if self.test.columns.is_empty() || self.test.columns.len() > COLUMNS_MAX {
                let what = format!("add a `memory:` line that names 1 to {COLUMNS_MAX} locations");
                return Err((1, what));
            }
        }
        for (name, value) in terms {
            let line = question.map_or(1, |entry| entry.line);
            let column = self.column(&name).map_err(|what| (line, what))?;
            let Some(at) = self.test.columns.iter().position(|known| *known == column) else {
                return Err((line, format!("{name} is not in `memory:`; add it there")));
            };
            self.test.question.push((at, value));
        }
        Ok(())
    }

    fn column(&mut self, name: &str) -> Result<Column, String> {
        if is_register(name) {
            return self.known_register(name, "the test").map(Column::Register);
        }
        let place = self.place(name)?;
        let used = self.test.threads.iter().flatten().any(|step| step.places().contains(&place));
        match used {
            true => Ok(Column::Memory(place)),
            false => Err(format!("no thread uses {}; name what the program uses", shown(name))),
        }
    }

    fn add_column(&mut self, column: Column, name: &str) -> Result<(), String> {
        if self.test.columns.contains(&column) {
            return Err(format!("{} stands twice in `memory:`; name it once", shown(name)));
        }
        if self.test.columns.len() == COLUMNS_MAX {
            return Err(format!("more than {COLUMNS_MAX} names in `memory:`; leave some out"));
        }
        self.test.columns.push(column);
        Ok(())
    }

    fn expectation(&mut self, entry: &Entry) -> Result<(), String> {
        let model = entry.key.as_str();
        if !self.models.contains(&model) {
            return Ok(());
        }
        if self.test.expectation(model).is_some() {
            return Err(format!("a second `{model}:`; keep one"));
        }
        if self.test.question.is_empty() {
            return Err(format!("`{model}:` answers a question; add a `question:` line"));
        }
        let (word, set) = entry.value.split_once(';').unwrap_or((&entry.value, ""));
        let verdict = match word.trim() {
            "allowed" => Verdict::Allowed,
            "forbidden" => Verdict::Forbidden,
            other => {
                return Err(format!(
                    "`{}` is no verdict; write `allowed` or `forbidden`, then `;` and the outcomes",
                    shown(other)
                ));
            }
        };
        let mut outcomes = BTreeSet::new();
        for text in set.split_whitespace() {
            let outcome = Outcome::parse(text, self.test.columns.len())?;
            if !outcomes.insert(outcome) {
                return Err(format!("outcome {} stands twice; keep one", shown(text)));
            }
        }
        let outcomes = (!outcomes.is_empty()).then_some(outcomes);
        if let Some(outcomes) = &outcomes
            && self.test.verdict(outcomes) != verdict
        {
            return Err(format!(
                "`{verdict}` does not agree with the outcomes beside it and the question `{}`; \
                 correct one of them",
                self.test.question_text()
            ));
        }
        self.test.expected.push(Expectation { model: model.into(), verdict, outcomes });
        Ok(())
    }
}

fn is_register(name: &str) -> bool {
    let digits = name.strip_prefix('r').unwrap_or_default();
    (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The `name=value` of a question.
fn terms(text: &str) -> Result<Vec<(String, Value)>, String> {
    let term = |part: &str| {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            let part = shown(part);
            format!("`{part}` is no condition; write `name=value`, joined by `&`")
        })?;
        Ok((name.trim().to_owned(), number(value.trim())?))
    };
    text.split('&').map(term).collect()
}
