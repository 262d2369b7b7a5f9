//! Manual pages of section 3, made of the comments of a header: so they say what it says.
//!
//! A line `/* ---- title --- */` begins a page, which goes to the next. In it a comment describes
//! the declarations behind it, up to an empty line or the next comment.

use std::fmt::Write;

/// A page, or a name that leads to one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ManualPage {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A part of the header that begins with a title.
#[derive(Default)]
struct Section {
    title: String,
    /// Comments, and the code behind each.
    parts: Vec<(Vec<String>, Vec<String>)>,
}

/// The pages for the functions of a header.
pub(crate) fn pages(header: &str, source: &str) -> Vec<ManualPage> {
    let mut pages = Vec::new();
    for section in sections(header) {
        let names = section.names();
        let Some(first) = names.first() else { continue };
        pages.push(ManualPage { name: first.clone(), text: section.page(&names, source) });
        for name in &names[1..] {
            pages.push(ManualPage { name: name.clone(), text: format!(".so man3/{first}.3\n") });
        }
    }
    pages
}

fn title(line: &str) -> Option<&str> {
    let inside = line.strip_prefix("/* --")?.strip_suffix("--- */")?;
    Some(inside.trim_matches(['-', ' ']))
}

fn sections(header: &str) -> Vec<Section> {
    let mut sections = vec![Section { title: "errors".into(), parts: Vec::new() }];
    let mut is_comment = false;
    for line in header.lines().filter(|line| !line.starts_with('#')) {
        if let Some(title) = title(line) {
            sections.push(Section { title: title.into(), parts: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else { break };
        if !is_comment && line.starts_with("/*") {
            is_comment = true;
            section.parts.push(Default::default());
        }
        let Some((comment, code)) = section.parts.last_mut() else { continue };
        if is_comment {
            is_comment = !line.ends_with("*/");
            let text = line.trim_start_matches("/*").trim_end_matches("*/");
            comment.push(text.trim_start_matches(" *").trim().to_owned());
        } else if !line.starts_with("extern") && line != "}" {
            code.push(line.to_owned());
        }
    }
    // The head of the file is about all of it.
    sections[0].parts.remove(0);
    sections
}

impl Section {
    /// The functions, in order.
    fn names(&self) -> Vec<String> {
        let lines = self.parts.iter().flat_map(|(_, code)| code);
        let before = lines.filter_map(|line| line.split_once('(').map(|(before, _)| before));
        let names = before.map(|before| before.rsplit([' ', '*']).next().unwrap_or_default());
        names.filter(|name| name.starts_with("sw_")).map(str::to_owned).collect()
    }

    fn page(&self, names: &[String], source: &str) -> String {
        let mut text = format!(
            ".\\\" Made from libseawall.h.\n.TH {} 3 \"\" \"{source}\" \"seawall\"\n\
             .SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.nf\n.B #include <libseawall.h>\n.PP\n",
            names[0].to_uppercase(),
            names.join(", "),
            self.title
        );
        for (_, code) in &self.parts {
            code.iter().for_each(|line| code_line(&mut text, line));
        }
        text += ".fi\n.SH DESCRIPTION\n";
        for (comment, code) in &self.parts {
            let here = Section { parts: vec![(Vec::new(), code.clone())], ..Section::default() };
            let names = here.names();
            if !names.is_empty() {
                let _ = writeln!(text, ".SS {}", names.join(", "));
            }
            let is_text = |line: &&String| !line.is_empty();
            let first = comment.iter().position(|line| is_text(&line)).unwrap_or(0);
            let end = comment.iter().rposition(|line| is_text(&line)).map_or(0, |last| last + 1);
            comment[first..end.max(first)].iter().for_each(|line| prose_line(&mut text, line));
            text += ".PP\n";
        }
        text += ".SH RETURN VALUE\nCalls that give an int give a status of\n\
                 .BR \"enum sw_status\" ;\nwhat it means is in\n.BR libseawall (7).\n\
                 .SH SEE ALSO\n.BR libseawall (7)\n";
        text
    }
}

fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

fn code_line(text: &mut String, line: &str) {
    let _ = match line.is_empty() {
        true => writeln!(text, ".sp"),
        false => writeln!(text, "\\fB{}\\fR", escaped(line)),
    };
}

fn prose_line(text: &mut String, line: &str) {
    let _ = match line.is_empty() {
        true => writeln!(text, ".PP"),
        false => writeln!(text, "{}", escaped(line)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/*\n * about all\n */\n#define X 1\n\n/* An error. */\n\
                          int sw_error(int);\n\n/* ------ things --- */\n\n\
                          /*\n * Makes a thing,\n * well.\n */\n\
                          void *sw_make(int a,\n              int b);\nint sw_undo(void);\n";

    #[test]
    fn each_section_is_a_page_and_each_further_name_leads_to_it() {
        let pages = pages(HEADER, "lib 1");
        let names: Vec<&str> = pages.iter().map(|page| page.name.as_str()).collect();
        assert_eq!(names, ["sw_error", "sw_make", "sw_undo"]);
        assert_eq!(pages[2].text, ".so man3/sw_make.3\n");
        let text = &pages[1].text;
        assert!(text.contains("sw_make, sw_undo \\- things\n"), "{text}");
        assert!(text.contains("\\fBvoid *sw_make(int a,\\fR\n"), "{text}");
        assert!(text.contains(".SS sw_make, sw_undo\nMakes a thing,\nwell.\n"), "{text}");
        assert!(!text.contains("about all"), "{text}");
    }
}
