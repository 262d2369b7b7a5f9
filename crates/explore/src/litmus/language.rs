//! What a litmus test says: threads of instructions, what is looked at, and what is expected.

use super::outcome::{Outcome, Value};
use std::collections::BTreeSet;
use std::fmt;

/// A word: part `word` (0 is `.a`) of line `line`, both counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line, in order of first use in the file.
    pub line: u8,
    /// The 8-byte word of the line, 0 to 7.
    pub word: u8,
}

impl Place {
    /// All words of its line.
    pub fn words_of_line(self) -> impl Iterator<Item = Place> {
        (0..8).map(move |word| Place { word, ..self })
    }
}

/// A register, numbered in order of first use in the file. It belongs to one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register(pub u8);

/// One instruction of a thread. The head of [`litmus`](super) defines each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `W x v`
    Write(Place, Value),
    /// `W2 x.a x.b v`
    Wide([Place; 2], Value),
    /// `NT x v`
    Stream(Place, Value),
    /// `M64 x v`: all words of the line, of which the place is the first.
    Line(Place, Value),
    /// `R x r`
    Read(Place, Register),
    /// `FAA x n` or `FAA x n r`; what was there goes to the register.
    Add(Place, Value, Option<Register>),
    /// `CAS x old new r`; what was there goes to the register.
    Exchange {
        /// The word.
        at: Place,
        /// Stores only if this is there.
        old: Value,
        /// What it stores.
        new: Value,
        /// Gets what was there.
        into: Register,
    },
    /// `CO x`: clflushopt, clwb.
    WriteBack(Place),
    /// `CF x`: clflush.
    Flush(Place),
    /// `SF`: sfence.
    StoreFence,
    /// `MF`: mfence.
    Fence,
    /// `PB`: persist barrier, ofence.
    Barrier,
    /// `DF`: dfence.
    Drain,
    /// `NS`: a new strand.
    Strand,
    /// `JS`: joins the strands.
    Join,
    /// `IF r v`: the thread ends here unless the register holds the value.
    If(Register, Value),
}

/// A value that an outcome contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// A word of memory after the crash.
    Memory(Place),
    /// A register, as last read before the crash.
    Register(Register),
}

/// Whether the question's outcome may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Some crash may leave it.
    Allowed,
    /// No crash leaves it.
    Forbidden,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Verdict::Allowed { "allowed" } else { "forbidden" })
    }
}

/// What a file says of one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The model's name.
    pub model: String,
    /// The answer to the question.
    pub verdict: Verdict,
    /// All outcomes that a crash may leave, and no others; `None` if the file has only a verdict.
    pub outcomes: Option<BTreeSet<Outcome>>,
}

/// The instructions of each thread.
pub type Threads = Vec<Vec<Instruction>>;

/// A litmus test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Litmus {
    /// The file's name without its ending.
    pub id: String,
    /// The folder of the file; empty for a user's own.
    pub family: String,
    /// One line on what it shows.
    pub title: String,
    /// Where the shape comes from.
    pub source: String,
    /// A remark; may be empty.
    pub note: String,
    /// The program.
    pub threads: Threads,
    /// The values of an outcome, in this order.
    pub columns: Vec<Column>,
    /// The outcome asked for: columns (by number) with values; all must hold.
    pub question: Vec<(usize, Value)>,
    /// What the models are expected to allow, in the order of the file.
    pub expected: Vec<Expectation>,
    pub(super) lines: Vec<String>,
    pub(super) registers: Vec<String>,
}

impl Litmus {
    /// Lines of memory that the program names.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Registers that the program names.
    pub fn register_count(&self) -> usize {
        self.registers.len()
    }

    /// The expectation for a model, if the file has one.
    pub fn expectation(&self, model: &str) -> Option<&Expectation> {
        self.expected.iter().find(|expected| expected.model == model)
    }

    /// True if the outcome is what the question asks for.
    pub fn matches(&self, outcome: &Outcome) -> bool {
        self.question.iter().all(|(column, value)| outcome.0[*column] == Some(*value))
    }

    /// The answer of a set of outcomes to the question.
    pub fn verdict(&self, outcomes: &BTreeSet<Outcome>) -> Verdict {
        match outcomes.iter().any(|outcome| self.matches(outcome)) {
            true => Verdict::Allowed,
            false => Verdict::Forbidden,
        }
    }

    /// The programs that the test stands for: every wide store as its two halves, in both orders.
    /// No [`Wide`](Instruction::Wide) is left in them.
    pub fn variants(&self) -> Vec<Threads> {
        let wide = |threads: &Threads| {
            threads.iter().enumerate().find_map(|(thread, code)| {
                let is_wide = |step: &Instruction| matches!(step, Instruction::Wide(..));
                Some((thread, code.iter().position(is_wide)?))
            })
        };
        let mut open = vec![self.threads.clone()];
        let mut done = Vec::new();
        while let Some(threads) = open.pop() {
            let Some((thread, at)) = wide(&threads) else {
                done.push(threads);
                continue;
            };
            let Instruction::Wide([first, second], value) = threads[thread][at] else {
                unreachable!("it was found as a wide store")
            };
            for halves in [[second, first], [first, second]] {
                let mut variant = threads.clone();
                variant[thread].splice(at..=at, halves.map(|at| Instruction::Write(at, value)));
                open.push(variant);
            }
        }
        done
    }

    /// The name of a word as a file writes it.
    pub fn place_name(&self, at: Place) -> String {
        let has_parts = self.places().iter().any(|place| place.line == at.line && place.word > 0);
        let line = &self.lines[usize::from(at.line)];
        let part = char::from(b'a' + at.word);
        if has_parts { format!("{line}.{part}") } else { line.clone() }
    }

    /// The name of a register.
    pub fn register_name(&self, register: Register) -> &str {
        &self.registers[usize::from(register.0)]
    }

    /// The name of a column.
    pub fn column_name(&self, column: Column) -> String {
        match column {
            Column::Memory(at) => self.place_name(at),
            Column::Register(register) => self.register_name(register).into(),
        }
    }

    fn places(&self) -> BTreeSet<Place> {
        let code = self.threads.iter().flatten().flat_map(|step| step.places());
        let seen = self.columns.iter().filter_map(|column| match column {
            Column::Memory(at) => Some(*at),
            Column::Register(_) => None,
        });
        code.chain(seen).collect()
    }

    /// An instruction as a file writes it.
    pub fn instruction(&self, step: &Instruction) -> String {
        let place = |at: &Place| self.place_name(*at);
        let name = |register: &Register| self.register_name(*register);
        match step {
            Instruction::Write(at, value) => format!("W {} {value}", place(at)),
            Instruction::Wide([first, second], value) => {
                format!("W2 {} {} {value}", place(first), place(second))
            }
            Instruction::Stream(at, value) => format!("NT {} {value}", place(at)),
            Instruction::Line(at, value) => {
                format!("M64 {} {value}", self.lines[usize::from(at.line)])
            }
            Instruction::Read(at, into) => format!("R {} {}", place(at), name(into)),
            Instruction::Add(at, by, None) => format!("FAA {} {by}", place(at)),
            Instruction::Add(at, by, Some(into)) => {
                format!("FAA {} {by} {}", place(at), name(into))
            }
            Instruction::Exchange { at, old, new, into } => {
                format!("CAS {} {old} {new} {}", place(at), name(into))
            }
            Instruction::WriteBack(at) => format!("CO {}", place(at)),
            Instruction::Flush(at) => format!("CF {}", place(at)),
            Instruction::StoreFence => "SF".into(),
            Instruction::Fence => "MF".into(),
            Instruction::Barrier => "PB".into(),
            Instruction::Drain => "DF".into(),
            Instruction::Strand => "NS".into(),
            Instruction::Join => "JS".into(),
            Instruction::If(register, value) => format!("IF {} {value}", name(register)),
        }
    }

    /// A thread as a file writes it.
    pub fn thread(&self, code: &[Instruction]) -> String {
        let steps: Vec<String> = code.iter().map(|step| self.instruction(step)).collect();
        steps.join(" ; ")
    }

    /// The program in one line, threads separated by `|`.
    pub fn program(&self) -> String {
        let threads: Vec<String> = self.threads.iter().map(|code| self.thread(code)).collect();
        threads.join(" | ")
    }

    /// The question as a file writes it.
    pub fn question_text(&self) -> String {
        let term = |(column, value): &(usize, Value)| {
            format!("{}={value}", self.column_name(self.columns[*column]))
        };
        self.question.iter().map(term).collect::<Vec<String>>().join(" & ")
    }
}

impl Instruction {
    /// The words that it names.
    pub fn places(&self) -> Vec<Place> {
        match *self {
            Instruction::Write(at, _)
            | Instruction::Stream(at, _)
            | Instruction::Read(at, _)
            | Instruction::Add(at, ..)
            | Instruction::Exchange { at, .. }
            | Instruction::WriteBack(at)
            | Instruction::Flush(at) => vec![at],
            Instruction::Wide(both, _) => both.to_vec(),
            Instruction::Line(at, _) => at.words_of_line().collect(),
            _ => Vec::new(),
        }
    }
}
