//! How a machine is named: one of those that come with seawall, or a file, and numbers of it that
//! are other ones, as in `micro15:core.count=8:cold=true`.

use super::{MACHINES, Machine, MachineError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// An earlier name of a machine, and its present one.
const OLD_NAME: (&str, &str) = ("s1-i7", "memsys17-i7");

/// What a machine is called with other numbers.
const FORM: &str = "NAME:KEY=VALUE:..";

impl Machine {
    /// Loads the built-in machine or the file of this name, and changes what `:KEY=VALUE` after it
    /// says ([`with`](Machine::with)).
    ///
    /// # Errors
    /// An unknown name, an unreadable file, unknown keys, impossible values.
    pub fn load(name: &str) -> Result<Machine, MachineError> {
        let (base, settings) = split(name);
        let machine = base_machine(base)?;
        match settings {
            Some(settings) => machine.with(name, &parse_settings(name, settings)?),
            None => Ok(machine),
        }
    }

    /// The name or path in `name`, without the numbers that are other ones.
    pub fn base(name: &str) -> &str {
        split(name).0
    }

    /// Parses a machine; `name` appears in messages.
    ///
    /// # Errors
    /// See [`load`](Machine::load).
    pub fn parse(name: &str, text: &str) -> Result<Machine, MachineError> {
        let machine: Machine = toml::from_str(text).map_err(|error| MachineError::Parse {
            name: name.into(),
            what: toml_in_words(&error),
        })?;
        machine.check().map_err(|what| MachineError::Invalid { name: name.into(), what })?;
        Ok(machine)
    }

    /// The numbers that can be other ones, as in `core.count`.
    pub fn numbers(&self) -> Vec<String> {
        let mut numbers = Vec::new();
        collect_numbers(&toml::Table::try_from(self).unwrap_or_default(), "", &mut numbers);
        let has_table = |path: &&str| {
            path.rsplit_once('.').is_some_and(|(table, _)| {
                numbers.iter().any(|number| number.starts_with(&format!("{table}.")))
            })
        };
        let missing = OPTIONAL.iter().copied().filter(has_table).map(str::to_owned);
        let all: BTreeSet<String> = missing.chain(numbers.iter().cloned()).collect();
        all.into_iter().collect()
    }

    /// Returns the machine with the `settings` changed, each a key with its table as in
    /// `core.count` or `memory.nvm.write`. If the number of cores changes and the rows of the mesh
    /// do not, the mesh becomes as square as the number permits (one row stays one row). `name`
    /// appears in messages.
    ///
    /// # Errors
    /// A key that a machine does not have, a value of the wrong type, or an invalid machine.
    pub fn with(
        &self,
        name: &str,
        settings: &[(String, toml::Value)],
    ) -> Result<Machine, MachineError> {
        let invalid = |what: String| MachineError::Invalid { name: name.into(), what };
        let mut table = toml::Table::try_from(self).map_err(|error| invalid(error.to_string()))?;
        for (path, value) in settings {
            set(&mut table, path, value).map_err(|wrong| match wrong {
                Wrong::Key { key, known } => {
                    MachineError::NoNumber { name: name.into(), path: path.clone(), key, known }
                }
                Wrong::Value(what) => invalid(what),
            })?;
        }
        let mut machine: Machine = table.try_into().map_err(|error| MachineError::Parse {
            name: name.into(),
            what: toml_in_words(&error),
        })?;
        let is_one_row = self.mesh.rows == 1 && rows_of_a_square(self.core.count) > 1;
        let keeps_mesh = is_one_row || settings.iter().any(|(path, _)| path == "mesh.rows");
        if machine.core.count != self.core.count && !keeps_mesh {
            machine.mesh.rows = rows_of_a_square(machine.core.count);
        }
        machine.check().map_err(invalid)?;
        Ok(machine)
    }
}

/// A name or path, and the settings behind it: from the first colon that a `KEY=` follows.
fn split(name: &str) -> (&str, Option<&str>) {
    let is_key = |text: &str| text.split(':').next().is_some_and(|first| first.contains('='));
    let mut parts = name.match_indices(':').map(|(at, _)| (&name[..at], &name[at + 1..]));
    parts.find(|(_, rest)| is_key(rest)).map_or((name, None), |(base, rest)| (base, Some(rest)))
}

/// The machine of this name without settings.
fn base_machine(name: &str) -> Result<Machine, MachineError> {
    let name = if name == OLD_NAME.0 { OLD_NAME.1 } else { name };
    if let Some((_, text)) = MACHINES.iter().find(|(known, _)| *known == name) {
        return Machine::parse(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|end| end != "toml") {
        let known: Vec<&str> = MACHINES.iter().map(|(known, _)| *known).collect();
        return Err(MachineError::Unknown { name: name.into(), known: known.join(", ") });
    }
    let text = read_description(path)
        .map_err(|source| MachineError::Read { path: name.into(), source })?;
    Machine::parse(name, &text)
}

/// The most bytes of a file that describes a machine or an experiment.
const DESCRIPTION_BYTES_MAX: u64 = 16 << 20;

/// Reads a file that describes a machine or an experiment, and waits for no other end of it.
///
/// # Errors
/// That of the system, no ordinary file, or one of more than 16 MiB.
pub fn read_description(path: &Path) -> io::Result<String> {
    let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    if !std::fs::metadata(path)?.is_file() {
        return wrong("it is no ordinary file; give one of text".into());
    }
    let mut text = String::new();
    File::open(path)?.take(DESCRIPTION_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > DESCRIPTION_BYTES_MAX {
        return wrong(format!(
            "it has more than {DESCRIPTION_BYTES_MAX} bytes; give a shorter one"
        ));
    }
    Ok(text)
}

/// The settings of `KEY=VALUE:..`.
fn parse_settings(name: &str, text: &str) -> Result<Vec<(String, toml::Value)>, MachineError> {
    let invalid = |what| MachineError::Invalid { name: name.into(), what };
    let mut settings: Vec<(String, toml::Value)> = Vec::new();
    for setting in text.split(':') {
        let parsed = setting.split_once('=').filter(|(_, value)| !value.is_empty());
        let parsed = parsed.and_then(|(key, value)| Some((key.to_owned(), read(value)?)));
        let (key, value) = parsed.ok_or_else(|| {
            invalid(format!("'{setting}' is no KEY=VALUE; give {FORM}, as in core.count=8"))
        })?;
        if settings.iter().any(|(known, _)| *known == key) {
            return Err(invalid(format!("{key} is given twice; give it once")));
        }
        settings.push((key, value));
    }
    Ok(settings)
}

/// What TOML's parser says, with the key first and words for the types of Rust and serde.
pub fn toml_in_words(error: &toml::de::Error) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("invalid type: ", ""),
        ("invalid value: ", ""),
        ("sequence", "list"),
        ("a map", "a table"),
        ("map,", "a table,"),
        ("expected usize", "expected a whole number from 0"),
        ("expected u64", "expected a whole number from 0"),
        ("expected u32", "expected a whole number from 0"),
        ("expected f64", "expected a number"),
    ];
    let text = error.to_string();
    let said = WORDS.iter().fold(text.trim_end().to_owned(), |text, (of, to)| text.replace(of, to));
    match said.rsplit_once("\nin `") {
        Some((what, key)) => format!("{}: {what}", key.trim_end_matches('`')),
        None => said,
    }
}

/// Numbers that a machine file can omit.
const OPTIONAL: [&str; 6] = [
    "core.parallelism",
    "core.stores_in_flight",
    "core.flushes",
    "memory.bank_cycles",
    "memory.nvm.write_line_cycles",
    "memory.dram.write_line_cycles",
];

/// A value as TOML has it, or a word.
fn read(value: &str) -> Option<toml::Value> {
    if value.contains(['\n', '\r']) {
        return None;
    }
    match toml::from_str::<toml::Table>(&format!("value = {value}")) {
        Ok(mut table) => table.remove("value"),
        // More digits than a number can have.
        Err(_) if value.bytes().all(|digit| digit.is_ascii_digit()) => Some(i64::MAX.into()),
        Err(_) => Some(value.into()),
    }
}

fn collect_numbers(table: &toml::Table, before: &str, numbers: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{before}{key}");
        match value {
            toml::Value::Table(inner) => collect_numbers(inner, &format!("{path}."), numbers),
            toml::Value::String(_) => {}
            _ => numbers.push(path),
        }
    }
}

/// Why a setting cannot be made.
enum Wrong {
    /// There is no such key; these are known.
    Key { key: String, known: String },
    /// What is wrong with the value.
    Value(String),
}

/// Replaces the value at `path`, which must be present or be an optional one.
fn set(table: &mut toml::Table, path: &str, value: &toml::Value) -> Result<(), Wrong> {
    let (mut table, mut rest) = (table, path);
    loop {
        let (key, inner) = rest.split_once('.').map_or((rest, None), |(k, rest)| (k, Some(rest)));
        let (is_optional, before) = (OPTIONAL.contains(&path), &path[..path.len() - rest.len()]);
        let optional = OPTIONAL.iter().filter_map(|path| path.strip_prefix(before));
        let optional = optional.filter(|key| !key.contains('.') && !table.contains_key(*key));
        let known: Vec<String> =
            table.keys().map(String::as_str).chain(optional).map(String::from).collect();
        if is_optional && inner.is_none() {
            check_kind(path, value, table.get(key).unwrap_or(&toml::Value::Integer(0)))?;
            table.insert(key.to_owned(), value.clone());
            return Ok(());
        }
        match (table.get_mut(key), inner) {
            (Some(toml::Value::Table(next)), Some(inner)) => (table, rest) = (next, inner),
            (Some(toml::Value::Table(inner)), None) => {
                let numbers: Vec<String> =
                    inner.keys().map(|key| format!("{path}.{key}")).collect();
                let numbers = numbers.join(", ");
                return Err(Wrong::Value(format!(
                    "{path} has several numbers; name one: {numbers}"
                )));
            }
            (Some(found), None) => {
                check_kind(path, value, found)?;
                *found = value.clone();
                return Ok(());
            }
            _ => return Err(Wrong::Key { key: key.to_owned(), known: known.join(", ") }),
        }
    }
}

/// No number of a machine can be greater.
const NUMBER_MAX: i64 = u32::MAX as i64;

/// Refuses a value that is not of the kind of the present one.
fn check_kind(path: &str, value: &toml::Value, present: &toml::Value) -> Result<(), Wrong> {
    use toml::Value::{Boolean, Float, Integer, String};
    let remedy = match (present, value) {
        (Integer(_), Integer(0..=NUMBER_MAX)) => return Ok(()),
        (Float(_), Float(_) | Integer(_)) => return Ok(()),
        (Boolean(_), Boolean(_)) | (String(_), String(_)) => return Ok(()),
        (Integer(_), Integer(0..)) => "a smaller number",
        (Integer(_), Integer(_)) => "a whole number that is not negative",
        (Integer(_), _) => "a whole number",
        (Float(_), _) => "a number",
        (Boolean(_), _) => "true or false",
        _ => "a text",
    };
    let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Err(Wrong::Value(format!("{path} = {shown}; give {remedy}")))
}

/// The rows of the most square mesh of `tiles` tiles that is not higher than wide.
fn rows_of_a_square(tiles: usize) -> usize {
    (1..=tiles)
        .take_while(|rows| rows * rows <= tiles)
        .filter(|n| tiles.is_multiple_of(*n))
        .last()
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_with_other_numbers() {
        let machine = Machine::load("micro15:core.count=8:cold=true:ghz=2.5").unwrap();
        assert_eq!((machine.core.count, machine.cold, machine.ghz), (8, true, 2.5));
        let same = Machine::load("micro15").unwrap();
        assert!(!same.cold);
        let settings = [("core.count".to_owned(), 8.into()), ("ghz".to_owned(), 2.5.into())];
        let settings = [settings.as_slice(), &[("cold".to_owned(), true.into())]].concat();
        assert_eq!(same.with("same", &settings).unwrap(), machine);
        assert_eq!(Machine::base("a:b/c.toml:core.count=8"), "a:b/c.toml");
        assert_eq!(Machine::base("micro15"), "micro15");
    }

    #[test]
    fn every_number_of_a_machine_can_be_another_one() {
        for (name, _) in MACHINES {
            let machine = Machine::load(name).unwrap();
            let numbers = machine.numbers();
            assert!(numbers.iter().any(|number| number == "core.parallelism"), "{name}");
            assert!(!numbers.iter().any(|number| number == "about"), "{name}");
            for number in numbers {
                let wrong = Machine::load(&format!("{name}:{number}=x")).unwrap_err().to_string();
                assert!(wrong.contains(&format!("{number} = x; give ")), "{wrong}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_other_numbers_is_said() {
        let error = |name: &str| Machine::load(name).unwrap_err().to_string();
        for (name, said) in [
            ("micro15:core.count=8:x", "'x' is no KEY=VALUE"),
            ("micro15:core.count=", "'core.count=' is no KEY=VALUE"),
            ("micro15:core.count=1\nvalue=2", "is no KEY=VALUE"),
            ("micro15:core.counts=8", "no number core.counts"),
            ("micro15:core.count=8:core.count=9", "core.count is given twice"),
            ("micro15:core.count=65", "give 1 to 64"),
            ("micro15:cold=3", "cold = 3; give true or false"),
            ("micro15:llc.banks=x", "llc.banks = x; give a whole number"),
            ("micro15:llc.banks=2.5", "llc.banks = 2.5; give a whole number"),
            ("micro15:llc.banks=-1", "llc.banks = -1; give a whole number that is not negative"),
            ("micro15:core.width=4294967296", "core.width = 4294967296; give a smaller number"),
            ("micro15:llc.banks=1000000000000000000000", "give a smaller number"),
            ("micro15:core.parallelism=x", "core.parallelism = x; give a whole number"),
            ("micro15:ghz='x'", "ghz = x; give a number"),
            ("desktop:llc=3", "llc has several numbers; name one: llc.banks, "),
            ("micro16:cold=true", "no machine 'micro16'"),
            ("micro15:cold", "no machine 'micro15:cold'"),
            ("/nowhere.toml:cold=true", "cannot read machine file /nowhere.toml"),
        ] {
            let message = error(name);
            assert!(message.contains(said), "{name}: {message}");
        }
    }

    #[test]
    fn a_machine_with_other_numbers_is_one_and_its_mesh_is_as_square_as_can_be() {
        let machine = Machine::load("micro15").unwrap();
        let with = |path: &str, value: i64| machine.with("test", &[(path.into(), value.into())]);
        for (cores, rows) in [(1, 1), (2, 1), (7, 1), (8, 2), (16, 4), (32, 4), (64, 8)] {
            let other = with("core.count", cores).unwrap();
            assert_eq!((other.core.count as i64, other.mesh.rows), (cores, rows));
        }
        for (name, _) in MACHINES {
            let machine = Machine::load(name).unwrap();
            assert_eq!(machine.with(name, &[]).unwrap(), machine);
            let cores = |count: i64| [("core.count".to_owned(), count.into())];
            let (rows, count) = (machine.mesh.rows, machine.core.count as i64);
            let back = machine.with(name, &cores(6)).unwrap().with(name, &cores(count)).unwrap();
            assert_eq!(back.mesh.rows, rows, "{name}");
        }
        assert_eq!(with("memory.nvm.write", 7).unwrap().memory.nvm.write, 7);
        assert_eq!(machine.core.parallelism, None);
        let narrow = with("core.parallelism", 1500).unwrap();
        assert_eq!(narrow.core.parallelism, Some(1500));
        let again = narrow.with("test", &[("core.parallelism".into(), 900.into())]).unwrap();
        assert_eq!(again.core.parallelism, Some(900));
        let error = |path: &str, value: i64| with(path, value).unwrap_err().to_string();
        assert!(error("core.counts", 1).contains("count, "), "{}", error("core.counts", 1));
        assert!(error("core.counts", 1).contains("parallelism"));
        assert!(error("core.parallelism", 1).contains("give 50 to 16000"));
        assert!(error("core.parallelism.x", 1).contains("core.parallelism.x"));
        assert!(error("core", 1).contains("core has several numbers; name one: "));
        assert!(error("cores.count", 1).contains("core, "));
        assert!(error("core.count", 65).contains("give 1 to 64"));
        assert!(error("llc.banks", -1).contains("-1"));
    }
}
