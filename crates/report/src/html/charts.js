// The charts: for each kind a specification of Vega-Lite, drawn once for each panel, anew when the
// rows, the colours or the width change. A click on a mark shows its row.
"use strict";

const CURVE_COLOURS = {
  light: ["#332288", "#cc6677", "#117733", "#0072b2", "#d55e00", "#882255", "#44aa99", "#999933",
    "#aa4499", "#555555", "#661100", "#6699cc"],
  dark: ["#88ccee", "#ee8899", "#5fc47f", "#e69f00", "#b8a3ff", "#44d0b8", "#ddcc77", "#ff9d5c",
    "#d990d0", "#bbbbbb", "#e0805f", "#9db8e8"],
};
const DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3]];
const isDark = matchMedia("(prefers-color-scheme: dark)");

/** What all charts share: no ground, the colours of the page, and numbers that fit. */
function themed() {
  const [ink, faint, rule] = ["ink", "faint", "rule"].map(colour);
  const font = "system-ui, sans-serif";
  return {
    background: "transparent",
    font,
    view: { stroke: null },
    axis: {
      labelColor: ink, titleColor: faint, gridColor: rule, domainColor: rule, tickColor: rule,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 190,
    },
    text: { color: ink, fontSize: 11 },
    rule: { color: faint },
  };
}

const fateScale = () => ({
  domain: ["good", "bad", "unjudged"],
  range: ["good", "bad", "unjudged"].map(colour),
});

const listed = (field, title) => ({ field, type: "nominal", sort: null, title: title ?? null });

/** The longest label that leaves half of the panel to the marks. */
const labelled = (width) =>
  ({ labelLimit: Math.max(70, Math.min(220, width * 0.4)), ticks: false });

/** How many bars there are, or lines of points. */
const bars = (data, field) => new Set(data.map((datum) => datum[field])).size;

const MAKERS = {
  bars(chart, rows, { all, width }) {
    const values = all.map((row) => row.values[chart.value]).filter((it) => it !== null);
    const most = Math.max(...values, chart.reference ?? 0);
    const edge = chart.cut && most > chart.cut ? chart.cut : most;
    const data = rows.map((row) => {
      const value = row.values[chart.value];
      return {
        row: row.number, bar: row.values[chart.bar], value, fate: row.fate,
        shown: value === null ? null : Math.min(value, edge),
        label: value === null ? "-" : value.toFixed(2), hint: hintOf(row, chart.value),
      };
    });
    const y = { ...listed("bar"), axis: labelled(width) };
    const x = {
      field: "shown", type: "quantitative", title: null,
      scale: { domain: [0, edge * 1.14], nice: false }, axis: { tickCount: 4 },
    };
    const layer = [
      {
        mark: { type: "bar", height: { band: 0.78 }, cursor: "pointer", cornerRadiusEnd: 1 },
        encoding: {
          y, x, tooltip: { field: "hint" },
          color: { field: "fate", scale: fateScale(), legend: null },
        },
      },
      {
        mark: { type: "text", align: "left", dx: 3, cursor: "pointer" },
        encoding: { y, x: { ...x }, text: { field: "label" }, tooltip: { field: "hint" } },
      },
    ];
    if (chart.reference !== null && chart.reference <= edge) {
      layer.push({
        data: { values: [{ at: chart.reference }] },
        mark: { type: "rule", strokeDash: [3, 3] },
        encoding: { x: { field: "at", type: "quantitative" } },
      });
    }
    return { data: { values: data }, height: 18 * bars(data, "bar"), layer };
  },

  parts(chart, rows, { hidden, width }) {
    const parts = page.parts.filter((part) => !hidden.has(part.name));
    const data = rows.flatMap((row) => parts.map((part) => {
      const share = row.shares[page.parts.indexOf(part)] ?? null;
      return {
        row: row.number, bar: row.values[chart.bar], part: part.name, share,
        hint: share === null ? "not run" :
          `${nameOf(row)}: ${part.name} ${(100 * share).toFixed(1)} % of the time`,
      };
    }));
    return {
      data: { values: data },
      height: 18 * bars(data, "bar"),
      mark: { type: "bar", height: { band: 0.78 }, cursor: "pointer" },
      encoding: {
        y: { ...listed("bar"), axis: labelled(width) },
        x: {
          field: "share", type: "quantitative", stack: "zero", title: null,
          scale: { domain: [0, 1], clamp: true, nice: false }, axis: { format: "%", tickCount: 4 },
        },
        color: {
          field: "part", legend: null,
          scale: { domain: parts.map((it) => it.name), range: parts.map((it) => it.colour) },
        },
        order: { field: "at" },
        tooltip: { field: "hint" },
      },
      transform: [{
        calculate: `indexof(${JSON.stringify(parts.map((it) => it.name))}, datum.part)`, as: "at",
      }],
    };
  },

  lines(chart, rows, { hidden, curves }) {
    const shown = curves.filter((curve) => !hidden.has(curve));
    const names = [...new Set(rows.map((row) => row.values[chart.x]))];
    const data = rows
      .filter((row) => !hidden.has(row.values[chart.curve]) && row.values[chart.value] !== null)
      .map((row) => ({
        row: row.number, x: row.values[chart.x], value: row.values[chart.value],
        curve: row.values[chart.curve], hint: hintOf(row, chart.value),
      }));
    const at = (curve) => curves.indexOf(curve);
    const domain = shown;
    const encoding = {
      x: {
        field: "x", type: "ordinal", title: null, scale: { domain: names },
        axis: { labelAngle: 0, labelOverlap: true },
      },
      y: {
        field: "value", type: "quantitative", title: null,
        scale: { type: "log", nice: true }, axis: { format: "~g", tickCount: 6 },
      },
      color: {
        field: "curve", legend: null,
        scale: { domain, range: shown.map((curve) => curveColour(at(curve))) },
      },
      strokeDash: {
        field: "curve", legend: null,
        scale: { domain, range: shown.map((curve) => DASHES[at(curve) % DASHES.length]) },
      },
    };
    return {
      data: { values: data },
      height: 240,
      encoding,
      layer: [
        { mark: { type: "line", strokeWidth: 2 } },
        {
          mark: { type: "point", filled: true, size: 60, cursor: "pointer", strokeDash: [1, 0] },
          encoding: { tooltip: { field: "hint" }, strokeDash: { value: [1, 0] } },
        },
      ],
    };
  },

  dots(chart, rows, { width }) {
    const isNarrow = width < NARROW;
    const data = rows.map((row) => {
      const { paper, tolerance, ours, stand_in: standIn, least, most } = row.values;
      return {
        row: row.number, name: row.values[chart.name], paper, ours, least, most, standIn,
        low: paper - tolerance, high: paper + tolerance, fate: row.fate, hint: hintOf(row),
      };
    });
    const y = {
      ...listed("name"),
      axis: isNarrow ? null : { ...labelled(width), labelLimit: 300, grid: true },
    };
    const x = (field) => ({
      field, type: "quantitative", title: null, scale: { zero: true }, axis: { tickCount: 8 },
    });
    const with_ = (mark, field, more = {}) => ({
      mark: { cursor: "pointer", ...mark },
      encoding: { y, x: x(field), tooltip: { field: "hint" }, ...more },
    });
    const fate = { color: { field: "fate", scale: fateScale(), legend: null } };
    const has = (field) => data.some((datum) => typeof datum[field] === "number");
    const layer = [
      with_({ type: "bar", height: 10, color: colour("rule") }, "low", { x2: { field: "high" } }),
      has("least") && with_({ type: "rule", strokeWidth: 1 }, "least", { x2: { field: "most" } }),
      with_({ type: "tick", thickness: 3, size: 14, color: colour("ink") }, "paper"),
      has("standIn") &&
        with_({ type: "point", shape: "diamond", size: 36, color: colour("faint") }, "standIn"),
      with_({ type: "point", filled: true, size: 70, opacity: 1 }, "ours", {
        ...fate,
        shape: {
          field: "fate", legend: null,
          scale: { domain: ["good", "bad", "unjudged"], range: ["circle", "cross", "circle"] },
        },
      }),
    ];
    if (isNarrow) {
      // Names take a line of their own, above their points.
      layer.push({
        mark: { type: "text", align: "left", baseline: "bottom", dy: -7, limit: width - 30 },
        encoding: { y, x: { value: 0 }, text: { field: "name" } },
      });
    }
    const height = (isNarrow ? 36 : 22) * bars(data, "name");
    return { data: { values: data }, height, layer: layer.filter(Boolean) };
  },

  timeline(chart, rows, { width }) {
    const states = ["kept", "lost", "other"];
    const inks = [colour("kept-ink"), colour("lost-ink"), colour("faint")];
    const data = rows.map((row) => ({ row: row.number, ...row.values, hint: hintOf(row) }));
    const y = { ...listed("lane"), axis: { ...labelled(width), grid: true } };
    return {
      data: { values: data },
      height: 34 * bars(data, "lane"),
      layer: [
        {
          mark: { type: "point", filled: true, size: 90, opacity: 0.9, cursor: "pointer" },
          encoding: {
            y,
            x: {
              field: "event", type: "quantitative", title: "event of the run",
              scale: { zero: false, padding: 24, nice: false },
              axis: { format: "d", tickMinStep: 1 },
            },
            color: { field: "state", legend: null, scale: { domain: states, range: inks } },
            shape: {
              field: "state", legend: null,
              scale: { domain: states, range: ["square", "cross", "circle"] },
            },
            tooltip: { field: "hint" },
          },
        },
        {
          data: { values: [{ at: chart.crash - 0.5, text: "power fails" }] },
          mark: { type: "rule", strokeWidth: 2, color: colour("bad") },
          encoding: { x: { field: "at", type: "quantitative" }, tooltip: { field: "text" } },
        },
      ],
    };
  },
};

const curveColour = (at) => {
  const all = CURVE_COLOURS[isDark.matches ? "dark" : "light"];
  return all[at % all.length];
};

const FATES = {
  good: "crashes left nothing broken", bad: "BROKEN", unjudged: "nothing promised, or a mean",
};

const STATES = { "kept-ink": "store in the image", "lost-ink": "lost store", faint: "no store" };

/** A colour and what it means. */
function meaning([name, text]) {
  const patch = make("i");
  patch.style.background = colour(name);
  return make("span", {}, patch, text);
}

/** What the colours of bars mean, of those that are there. */
function fatesOf(rows, { cut, value }) {
  const there = Object.entries(FATES).filter(([fate]) => rows.some((row) => row.fate === fate));
  const isCut = cut !== null && rows.some((row) => row.values[value] > cut);
  const said = isCut ? make("span", {}, `bars end at ${brief(cut)}, labels say more`) : null;
  return make("div", { className: "legend" }, there.map(meaning), said);
}

/** A legend whose entries hide what they stand for. */
function legendOf(entries, hidden, change) {
  const entry = ([name, ink]) => {
    const patch = make("i");
    patch.style.background = ink;
    const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(name)) },
      patch, name);
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      change();
    });
    return button;
  };
  return make("div", { className: "legend", role: "group", "aria-label": "legend" },
    entries.map(entry));
}

/** A chart of a section: its panels, drawn from the rows that are visible. */
class ChartOf {
  constructor(section, chart) {
    Object.assign(this, { section, chart, hidden: new Set(), views: [], drawing: 0 });
    this.panels = make("div", { className: "panels" });
    const isWide = ["timeline", "dots"].includes(chart.kind);
    if (isWide) this.panels.style.setProperty("--panel", "60rem");
    this.curves = chart.kind === "lines" ?
      [...new Set(section.rows.map((row) => row.values[chart.curve]))] : [];
    this.isOnly = this.panelsOf(section.rows).length < 2;
    this.head = make("div");
    this.element = make("section", { className: "chart" }, make("h3", {}, chart.title), this.head,
      this.panels);
  }

  panelOf(row) {
    return row.values[this.chart.panel] ?? "";
  }

  /** The panels of rows; those without any time have none where that is shown. */
  panelsOf(rows) {
    const isTimed = (row) => this.chart.kind !== "parts" || row.shares.length > 0;
    return [...new Set(rows.filter(isTimed).map((row) => this.panelOf(row)))];
  }

  legend() {
    if (this.chart.kind === "bars") return [fatesOf(this.section.rows, this.chart)];
    if (this.chart.kind === "timeline") {
      const all = [...Object.entries(STATES), ["bad", "power fails"]];
      return [make("div", { className: "legend" }, all.map(meaning))];
    }
    const entries = {
      parts: () => page.parts
        .filter((_, at) => this.section.rows.some((row) => row.shares[at] > 0.0005))
        .map((part) => [part.name, part.colour]),
      lines: () => this.curves.map((curve, at) => [curve, curveColour(at)]),
    }[this.chart.kind];
    return entries ? [legendOf(entries(), this.hidden, () => this.draw(this.rows))] : [];
  }

  async draw(rows) {
    this.rows = rows;
    const mine = ++this.drawing;
    this.head.replaceChildren(...this.legend());
    const names = this.panelsOf(rows);
    const holders = names.map(() => make("div", { className: "drawn" }));
    const titled = (name, at) =>
      make("div", { className: "panel" }, this.isOnly ? null : make("h4", {}, name), holders[at]);
    const old = this.views;
    this.views = [];
    const none = make("p", { className: "faint" }, "No row fits the filters.");
    this.panels.replaceChildren(...(rows.length ? names.map(titled) : [none]));
    old.forEach((view) => view.finalize());
    for (const [at, name] of names.entries()) {
      const of = rows.filter((row) => this.panelOf(row) === name);
      await this.drawPanel(holders[at], of, name);
      if (mine !== this.drawing) return;
    }
    this.panels.dataset.drawn = String(names.length);
  }

  async drawPanel(holder, rows, name) {
    const width = holder.clientWidth;
    const around = { all: this.section.rows, hidden: this.hidden, curves: this.curves, width };
    const spec = {
      description: `${[this.chart.title, name].filter(Boolean).join(", ")}: ${rows.length} rows, ` +
        "which are also in the table",
      width: "container",
      autosize: { type: "fit-x", contains: "padding" },
      config: themed(),
      ...MAKERS[this.chart.kind](this.chart, rows, around),
    };
    const result = await vegaEmbed(holder, spec, {
      mode: "vega-lite",
      renderer: "svg",
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: fileName(`${page.title} ${this.chart.title} ${name}`),
      tooltip: { theme: isDark.matches ? "dark" : "light" },
    });
    result.view.addEventListener("click", (_, item) => {
      const row = item?.datum?.row;
      if (row !== undefined) showRow(this.section, this.section.rows[row]);
    });
    this.views.push(result);
  }
}

const fileName = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
