// A section: its filters, its table, and its charts over the rows that are visible.
"use strict";

/** The values that tell a row from others of its section. */
function nameOf({ section, values }) {
  const words = section.keys.map((field) => values[field])
    .filter((value) => value !== undefined && value !== null && value !== "");
  return words.join(section.keys[1] === "design" ? " under " : ", ");
}

/** What is said of a row where the pointer is. */
function hintOf(row, field) {
  const column = row.section.columns.find((column) => column.field === field);
  const value = column ? `: ${column.title} ${brief(row.values[field])}` : "";
  return row.values.hint ?? nameOf(row) + value;
}

class SectionOf {
  constructor(data, number) {
    Object.assign(this, data, { number, sorted: null });
    this.keys = this.columns.filter((column) => !isNumeric(column.form)).slice(0, 2)
      .map((column) => column.field);
    this.rows.forEach((row, at) => {
      row.section = this;
      row.number = at;
      row.text = Object.values(row.values).join(" ").toLowerCase();
    });
    this.chosen = new Map();
    this.words = [];
    this.charts = this.charts.map((chart) => new ChartOf(this, chart));
    this.count = make("span", { className: "faint", role: "status" });
    this.body = make("tbody");
    this.element = make("section", { id: `section-${number}` },
      this.heading ? make("h2", {}, this.heading) : null,
      notesOf(this.notes), this.facts.length ? make("dl", {}, factsOf(this.facts)) : null,
      this.commands.map(commandBox),
      this.rows.length > 3 ? this.controls() : null,
      this.charts.map((chart) => chart.element),
      this.excerpts.map(excerptOf),
      this.rows.length ? this.table() : null);
  }

  controls() {
    const input = make("input", { type: "search", placeholder: "words of a row",
      "aria-label": "show rows with these words" });
    input.addEventListener("input", () => {
      this.words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      this.change();
    });
    const choices = this.filters.map((field) => this.choice(field));
    const csv = make("button", { type: "button" }, "Save as CSV");
    csv.addEventListener("click", () => {
      const name = `${fileName(this.heading ?? page.title)}.csv`;
      save(name, csvOf(this.columns, this.visible()), "text/csv");
    });
    return make("div", { className: "controls" }, make("label", {}, "Filter ", input), choices, csv,
      this.count);
  }

  choice(field) {
    const title = this.columns.find((column) => column.field === field)?.title ?? field;
    const values = [...new Set(this.rows.map((row) => row.values[field]))];
    if (values.length < 2) return null;
    const select = make("select", {}, make("option", { value: "" }, "all"),
      values.map((value) => make("option", { value: String(value) }, String(value))));
    select.addEventListener("change", () => {
      if (select.value) this.chosen.set(field, select.value);
      else this.chosen.delete(field);
      this.change();
    });
    return make("label", {}, `${title} `, select);
  }

  /** The rows that the filters leave, in the order of the table. */
  visible() {
    const chosen = [...this.chosen];
    const rows = this.rows.filter((row) =>
      this.words.every((word) => row.text.includes(word)) &&
      chosen.every(([field, value]) => String(row.values[field]) === value));
    return this.sorted ? rows.sort((one, other) => this.compare(one, other)) : rows;
  }

  compare(one, other) {
    const { field, isDown } = this.sorted;
    const [a, b] = [one.values[field] ?? "", other.values[field] ?? ""];
    if (a === "" || b === "") return (a === "") - (b === "");
    const order = typeof a === "number" && typeof b === "number" ? a - b :
      String(a).localeCompare(String(b), "en", { numeric: true });
    return isDown ? -order : order;
  }

  table() {
    const heads = this.columns.map((column) => {
      const title = column.form === "percent" ? `${column.title} %` : column.title;
      const button = make("button", { type: "button", title: column.about }, title);
      const className = isNumeric(column.form) ? "number" : "";
      const head = make("th", { scope: "col", className }, button);
      button.addEventListener("click", () => this.sort(column, head));
      return head;
    });
    const open = (event) => {
      const line = event.target.closest("tr");
      if (line?.dataset.row && (event.type === "click" || event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        showRow(this, this.rows[line.dataset.row]);
      }
    };
    this.body.addEventListener("click", (event) => getSelection().isCollapsed && open(event));
    this.body.addEventListener("keydown", open);
    return make("div", { className: "table" },
      make("table", {}, make("thead", {}, make("tr", {}, heads)), this.body));
  }

  sort(column, head) {
    const isOther = this.sorted?.field !== column.field;
    // Numbers first from the top, then from the bottom, then in the order of the run.
    const first = isNumeric(column.form);
    if (isOther) this.sorted = { field: column.field, isDown: first };
    else if (this.sorted.isDown === first) this.sorted.isDown = !first;
    else this.sorted = null;
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    if (this.sorted) {
      head.setAttribute("aria-sort", this.sorted.isDown ? "descending" : "ascending");
    }
    this.fill();
  }

  fill() {
    const rows = this.visible();
    this.count.textContent = rows.length === this.rows.length ? `${rows.length} rows` :
      `${rows.length} of ${this.rows.length} rows`;
    const none = make("tr", { className: "none" }, make("td", { colSpan: this.columns.length },
      "No row fits the filters."));
    this.body.replaceChildren(...(rows.length ? rows.map((row) => this.line(row)) : [none]));
    return rows;
  }

  line(row) {
    const cells = this.columns.map((column) => {
      const value = row.values[column.field];
      const text = value === undefined ? "" : written(value, column.form);
      const isLong = text.length > 60;
      const kinds = [isNumeric(column.form) && "number", column.form === "code" && "code",
        isLong && "wrap", row.values.state && column.form === "code" && row.values.state,
        row.fate === "bad" && column.field === "outcome" && "bad"];
      return make("td", { className: kinds.filter(Boolean).join(" ") }, text);
    });
    // Means stand among rows that have records.
    const isMean = !row.records.length && this.rows.some((it) => it.records.length);
    const className = isMean ? "summary" : "";
    return make("tr", { tabIndex: 0, className, "data-row": row.number }, cells);
  }

  change() {
    this.fill();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.draw(), 120);
  }

  draw() {
    const isThere = new Set(this.visible());
    // Charts keep the order of the run, whatever the table is sorted by.
    const rows = this.rows.filter((row) => isThere.has(row));
    return Promise.all(this.charts.map((chart) => chart.draw(rows)));
  }
}
