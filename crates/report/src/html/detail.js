// What is behind a row: the time, the crashes, the commands, the counters and the records.
"use strict";

const detail = document.getElementById("detail");

/** Where the time went, as bars. */
function sharesOf(pairs) {
  const most = Math.max(...pairs.map(([, share]) => share), 1e-9);
  const line = ([name, share, ink]) => {
    const bar = make("i");
    bar.style.width = `${(100 * share) / most}%`;
    bar.style.background = ink;
    return make("tr", {}, make("td", {}, name),
      make("td", { className: "number" }, `${(100 * share).toFixed(1)} %`),
      make("td", { className: "bar" }, bar));
  };
  return make("table", { className: "shares" }, make("tbody", {}, pairs.map(line)));
}

/**
 * The shares of a record by reason, the largest first, of the time until each thread ended, as in
 * the table; sweeps write cycles instead of shares, and figures also those of each workload.
 */
function reasonsOf(record, workload) {
  const { idle, ...counts } =
    record.stalls_of?.[workload] ?? record.stalls ?? record.stall_cycles ?? {};
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0) || 1;
  const partOf = (reason) => page.parts.find((part) => part.reasons.includes(reason));
  const named = (reason, part) =>
    part?.reasons.length === 1 ? part.name : reason.replaceAll("_", " ");
  return Object.entries(counts).filter(([, count]) => count > 0)
    .map(([reason, count]) => [named(reason, partOf(reason)), count / all,
      partOf(reason)?.colour ?? "var(--unjudged)"])
    .sort((one, other) => other[1] - one[1]);
}

/** Elements under a heading, if there are any. */
const titled = (title, elements) => elements.length ? [make("h3", {}, title), ...elements] : [];

/** Names and values, whatever they are. */
function fieldsOf(value) {
  const cell = (it) => it !== null && typeof it === "object" ?
    make("td", {}, fieldsOf(it)) : make("td", { className: "code" }, String(it));
  const line = ([name, it]) => make("tr", {}, make("td", { className: "code" }, name), cell(it));
  return make("table", { className: "fields" }, make("tbody", {}, Object.entries(value).map(line)));
}

/** A part that is closed at first, and filled when it is opened. */
function closed(title, fill) {
  const details = make("details", {}, make("summary", {}, title));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length < 2) {
      details.append(make("div", { className: "scroll" }, fill()));
    }
  });
  return details;
}

function countersOf(counters) {
  const line = ([name, count]) => make("tr", { title: page.glossary[name] },
    make("td", { className: "code" }, name), make("td", { className: "number" }, brief(count)),
    make("td", { className: "wrap faint" }, page.glossary[name] ?? ""));
  return make("table", { className: "fields" },
    make("tbody", {}, Object.entries(counters).filter(([, count]) => count).map(line)));
}

/** What the crashes of a record came to. */
function crashesOf(record) {
  const crashes = record.crashes ?? record.judged;
  if (crashes === undefined) return [];
  const said = crashes === null ? "The design promises nothing that crashes could be held to." :
    `${crashes} ${crashes === 1 ? "crash" : "crashes"} injected, ${record.broken || "none"} broke it.`;
  const failures = (record.failures ?? []).map((failure) => typeof failure === "string" ? failure :
    `${failure.cycle === undefined ? "" : `cycle ${failure.cycle}: `}${failure.what}`);
  const listed = failures.map((text) => make("li", { className: "bad" }, text));
  return [make("h3", {}, "Crashes"), make("p", { className: record.broken ? "bad" : "" }, said),
    listed.length ? make("ul", {}, listed) : null];
}

/** Of several workloads the time is a mean, and that of each can be opened. */
function timeOf(record, workload) {
  const of = record.stalls_of ?? {};
  const isMean = Object.keys(of).length > 1 && !of[workload];
  const reasons = reasonsOf(record, workload);
  const title = isMean ? "Where the time went, mean over the workloads" : "Where the time went";
  const each = isMean ? Object.keys(of).map((name) =>
    closed(`of ${name}`, () => sharesOf(reasonsOf(record, name)))) : [];
  return titled(title, reasons.length ? [sharesOf(reasons), ...each] : []);
}

function recordOf(record, repeats, workload) {
  const command = record.command ?? repeats;
  return make("section", {},
    timeOf(record, workload),
    crashesOf(record),
    titled("Again", command ? [commandBox(command)] : []),
    record.counters ? closed("Counters", () => countersOf(record.counters)) : null,
    closed("All of the record", () => fieldsOf(record)));
}

/** Shows all that is known of a row. */
function showRow(section, row) {
  const step = (by) => {
    const rows = section.visible();
    return rows[rows.indexOf(row) + by];
  };
  const to = (text, by) => {
    const button = make("button", { type: "button", disabled: !step(by) }, text);
    button.addEventListener("click", () => showRow(section, step(by)));
    return button;
  };
  const close = make("button", { type: "button" }, "Close");
  close.addEventListener("click", () => detail.close());
  const isToShow = ({ field }) => !section.keys.includes(field) && row.values[field] !== undefined;
  const facts = section.columns.filter(isToShow)
    .map((column) => [column.title, written(row.values[column.field], column.form) +
      (column.form === "percent" && row.values[column.field] !== null ? " %" : "")]);
  const mine = row.records.map((at) => records[at]);
  // Several records have a command each, or one for all.
  const isOfRecords = row.commands.length === mine.length;
  const repeats = (at) => isOfRecords ? row.commands[at] : undefined;
  const label = (record) => [record.kernel ?? record.series ?? record.program, record.point,
    record.design].filter(Boolean).join(", ");
  const source = Object.values(row.values).map((value) => page.sources[value]).find(Boolean);
  const parts = row.shares.map((share, at) => [page.parts[at].name, share, page.parts[at].colour])
    .filter(([, share]) => share > 0.0005);
  detail.replaceChildren(
    make("nav", {}, to("Previous", -1), to("Next", 1), close),
    make("h2", { id: "detail-title" }, nameOf(row)),
    make("dl", {}, factsOf(facts)),
    ...(source ? [excerptOf(source)] : []),
    ...titled("Where the time went", parts.length && mine.length !== 1 ? [sharesOf(parts)] : []),
    ...titled("Again", isOfRecords ? [] : row.commands.map(commandBox)),
    ...(mine.length === 1 ? [recordOf(mine[0], repeats(0), row.values.workload)] :
      mine.map((record, at) => closed(label(record) || `record ${at + 1}`,
        () => recordOf(record, repeats(at), row.values.workload)))));
  if (!detail.open) detail.showModal();
  detail.scrollTop = 0;
}

detail.addEventListener("click", (event) => { if (event.target === detail) detail.close(); });
