// What all of the page uses: its data, elements, values as text, and files to save.
"use strict";

const dataOf = (id) => JSON.parse(document.getElementById(id).textContent);
const page = dataOf("page");
const records = dataOf("records");

// Phones have room for fewer labels.
const NARROW = 460;

/** An element with properties, or attributes where there is no such property, and children. */
function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** A value as a column of that form shows it. */
function written(value, form) {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value !== "number") return String(value);
  if (form === "percent") return (100 * value).toFixed(value && value < 0.1 ? 1 : 0);
  if (form && form.number !== undefined) return value.toFixed(form.number);
  return String(value);
}

const isNumeric = (form) => form === "percent" || (form && form.number !== undefined);

/** A number with few digits, for labels and hints. */
function brief(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(+value.toPrecision(3));
}

/** A colour of the style, as it is now. */
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const notesOf = (notes) =>
  notes.map((note) => make("p", { className: note.is_bad ? "bad" : "" }, note.text));

const factsOf = (facts) =>
  facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));

/** A button that copies `text`. */
function copyButton(text) {
  const button = make("button", { type: "button" }, "Copy");
  button.addEventListener("click", () => copy(button, text));
  return button;
}

const commandBox = (text) =>
  make("div", { className: "command" },
    make("pre", { tabIndex: 0 }, make("code", {}, text)), copyButton(text));

async function copy(button, text) {
  const before = "Copy";
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Pages from files may not write to the clipboard in some browsers: select it instead.
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

function save(name, text, type) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** The visible rows as comma-separated values. */
function csvOf(columns, rows) {
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => quoted(column.title)).join(",")];
  for (const row of rows) {
    lines.push(columns.map((column) => quoted(row.values[column.field])).join(","));
  }
  return lines.join("\n") + "\n";
}

/** Lines of a source with what is to be seen of them. */
function excerptOf(excerpt) {
  const list = make("ol");
  excerpt.lines.forEach((line, at) => {
    const number = excerpt.first + at;
    const marks = excerpt.marks.filter((mark) => mark.line === number);
    const kind = marks.length ? marks[0].kind : "";
    list.append(make("li", { className: kind }, make("b", {}, String(number)), line || " "));
    for (const mark of marks.filter((mark) => mark.text)) {
      const said = make("span", { className: mark.kind }, mark.text);
      list.append(make("p", { className: mark.kind }, said));
    }
  });
  const head = make("header", { className: "code" }, excerpt.file);
  return make("div", { className: "excerpt", tabIndex: 0 }, head, list);
}
