//! The plots of `docs/gallery.md`, made by the commands that the page shows.
//!
//! A command is a line `seawall ..` of the page. It runs in a folder with the experiments of
//! `docs/gallery`, where it leaves plots; the page shows each of them, and no others.

use crate::docs::built;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Plots by their names.
type Plots = BTreeMap<String, Vec<u8>>;

/// Draws all plots anew.
pub(crate) fn write() -> Result<()> {
    let (root, seawall) = built()?;
    let folder = root.join("docs/gallery");
    let plots = drawn(&root, &seawall)?;
    for name in kept(&folder)?.into_keys().filter(|name| !plots.contains_key(name)) {
        fs::remove_file(folder.join(name))?;
    }
    for (name, plot) in &plots {
        fs::write(folder.join(name), plot)?;
        println!("docs/gallery/{name}: {} bytes", plot.len());
    }
    Ok(())
}

/// Whether the commands draw what is in the folder, and the page shows it.
pub(crate) fn check(root: &Path, seawall: &Path) -> Result<bool> {
    let page = fs::read_to_string(root.join("docs/gallery.md"))?;
    let (drawn, kept) = (drawn(root, seawall)?, kept(&root.join("docs/gallery"))?);
    let complaints = differences(&page, &drawn, &kept);
    complaints.iter().for_each(|complaint| println!("docs/gallery.md: {complaint}"));
    Ok(complaints.is_empty())
}

/// What does not fit together, in words.
fn differences(page: &str, drawn: &Plots, kept: &Plots) -> Vec<String> {
    let mut all = Vec::new();
    for (name, plot) in drawn {
        if kept.get(name) != Some(plot) {
            all.push(format!(
                "{name} is not what its command draws: `xtask gallery` draws it anew"
            ));
        }
        if !page.contains(&format!("](gallery/{name})")) {
            all.push(format!("{name} is not shown"));
        }
    }
    let lonely = kept.keys().filter(|name| !drawn.contains_key(*name));
    all.extend(lonely.map(|name| format!("{name} is drawn by no command")));
    all
}

/// The plots of the folder.
fn kept(folder: &Path) -> Result<Plots> {
    let mut plots = Plots::new();
    for entry in fs::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.extension().is_some_and(|ending| ending == "svg") {
            plots.insert(name.to_string_lossy().into_owned(), fs::read(path)?);
        }
    }
    Ok(plots)
}

/// Runs the commands of the page in a folder of their own; the plots that they leave there.
fn drawn(root: &Path, seawall: &Path) -> Result<Plots> {
    let folder = std::env::temp_dir().join(format!("seawall-gallery-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let drawn = drawn_in(&folder, root, seawall);
    fs::remove_dir_all(&folder)?;
    drawn
}

fn drawn_in(folder: &Path, root: &Path, seawall: &Path) -> Result<Plots> {
    for entry in fs::read_dir(root.join("docs/gallery"))? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|ending| ending == "toml") {
            fs::copy(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    for command in commands(&fs::read_to_string(root.join("docs/gallery.md"))?) {
        println!("== seawall {command}");
        let output = Command::new(seawall)
            .args(command.split_whitespace())
            .current_dir(folder)
            .output()
            .with_context(|| format!("cannot run {}", seawall.display()))?;
        if output.status.code().is_none_or(|code| code > 1) {
            bail!("seawall {command}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    kept(folder)
}

/// What is behind `seawall` in the commands of the page.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("seawall ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_that_differ_are_not_shown_or_have_no_command_are_named() {
        let plots = |all: &[(&str, &str)]| -> Plots {
            all.iter().map(|(name, text)| ((*name).into(), text.as_bytes().to_vec())).collect()
        };
        let page = "![a](gallery/a.svg)\n![b](gallery/b.svg)\n";
        let drawn = plots(&[("a.svg", "1"), ("b.svg", "2")]);
        assert!(differences(page, &drawn, &drawn).is_empty());
        let said =
            differences("![a](gallery/a.svg)", &drawn, &plots(&[("a.svg", "0"), ("c.svg", "")]));
        let wanted =
            ["a.svg is not what", "b.svg is not what", "b.svg is not shown", "c.svg is drawn"];
        assert_eq!(said.len(), wanted.len(), "{said:?}");
        for (said, wanted) in said.iter().zip(wanted) {
            assert!(said.starts_with(wanted), "{said}");
        }
    }

    #[test]
    fn every_plot_of_the_page_is_there_and_has_a_command() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let page = fs::read_to_string(root.join("docs/gallery.md")).unwrap();
        let kept = kept(&root.join("docs/gallery")).unwrap();
        assert_eq!(page.matches("](gallery/").count() - 1, kept.len(), "one link is an experiment");
        assert_eq!(commands(&page).len(), kept.len());
        for name in kept.keys() {
            assert!(page.contains(&format!("](gallery/{name})")), "{name}");
        }
    }
}
