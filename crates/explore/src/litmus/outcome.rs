//! Outcomes, and sets of them, as a file writes them.
//!
//! An outcome has one value for each column. If all are below 10 it is written as their digits
//! (`011`), else with commas (`0,12,1`). `-` stands for a register that was not read.

use std::fmt;

/// A value of a litmus test; the greatest is [`VALUE_MAX`].
pub type Value = u32;

/// The greatest value that a file may name.
pub const VALUE_MAX: Value = 9999;

/// What a crash left: a value for each column of the test; `None` for a register not read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Outcome(pub Vec<Option<Value>>);

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.iter().all(|value| value.is_none_or(|value| value < 10));
        for (at, value) in self.0.iter().enumerate() {
            if at > 0 && !digits {
                f.write_str(",")?;
            }
            match value {
                Some(value) => write!(f, "{value}")?,
                None => f.write_str("-")?,
            }
        }
        Ok(())
    }
}

impl serde::Serialize for Outcome {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Outcome {
    /// Reads an outcome of `columns` columns; the error says what it should look like.
    pub(super) fn parse(text: &str, columns: usize) -> Result<Outcome, String> {
        let parts: Vec<String> = match text.contains(',') || columns == 1 {
            true => text.split(',').map(str::to_owned).collect(),
            false => text.chars().map(String::from).collect(),
        };
        if parts.len() != columns {
            let found = parts.len();
            return Err(format!(
                "outcome `{text}` has {found} values, `memory:` names {columns}; write one digit \
                 for each (or `{}` with commas for values above 9)",
                vec!["0"; columns].join(",")
            ));
        }
        let value = |part: &String| match part.as_str() {
            "-" => Ok(None),
            digits => number(digits).map(Some),
        };
        parts.iter().map(value).collect::<Result<_, _>>().map(Outcome)
    }
}

/// Reads a value.
pub(super) fn number(text: &str) -> Result<Value, String> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = text.parse().ok().filter(|value| all_digits && *value <= VALUE_MAX);
    value.ok_or_else(|| format!("`{text}` is no value; give a number from 0 to {VALUE_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reads_as_it_is_written() {
        for values in [vec![Some(0), Some(1)], vec![None, Some(9)], vec![Some(12), None, Some(3)]] {
            let outcome = Outcome(values);
            assert_eq!(Outcome::parse(&outcome.to_string(), outcome.0.len()), Ok(outcome));
        }
        let single = Outcome(vec![Some(12)]);
        assert_eq!(Outcome::parse(&single.to_string(), 1), Ok(single));
    }

    #[test]
    fn an_outcome_of_the_wrong_length_names_the_columns() {
        let error = Outcome::parse("011", 2).unwrap_err();
        assert!(error.contains("3 values") && error.contains("names 2"), "{error}");
        assert!(Outcome::parse("0x", 2).unwrap_err().contains("`x` is no value"));
    }
}
