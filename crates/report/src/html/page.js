// Fills the page, draws its charts, and draws them anew when colours or the width change.
"use strict";

function start() {
  document.getElementById("notes").append(...notesOf(page.notes));
  document.getElementById("facts").append(...factsOf(page.facts));
  for (const button of document.querySelectorAll("[data-copy]")) {
    const text = document.getElementById(button.dataset.copy).textContent;
    button.addEventListener("click", () => copy(button, text));
  }
  document.getElementById("save-records").addEventListener("click", () =>
    save(`${fileName(page.title)}.jsonl`, records.map((it) => JSON.stringify(it) + "\n").join(""),
      "application/jsonl"));
  const sections = page.sections.map((data, at) => new SectionOf(data, at));
  document.getElementById("sections").append(...sections.map((section) => section.element));
  sections.forEach((section) => section.fill());
  const draw = async () => {
    for (const section of sections) await section.draw();
    document.documentElement.dataset.ready = "true";
  };
  isDark.addEventListener("change", draw);
  let width = innerWidth;
  addEventListener("resize", () => {
    // Charts follow the width by themselves; what depends on there being little is drawn anew.
    if ((innerWidth < NARROW) !== (width < NARROW)) draw();
    width = innerWidth;
  });
  return draw();
}

start();
