// The checks of scripts/browser.sh: each opens reports that the command has made, and does what a
// reader does. Usage: check.mjs BROWSER FOLDER
import { createRequire } from "node:module";
import { readFileSync, mkdirSync, rmSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [browserPath, work] = process.argv.slice(2);
const { chromium } = createRequire(join(work, "node_modules", "here.js"))("playwright-core");

const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 400, height: 800 };
const NAMES = ["compare", "broken", "kernels", "sweep", "reproduce", "explore", "race"];

class Failed extends Error {}

function hold(condition, what) {
  if (!condition) throw new Failed(what);
}

const number = (text) => Number(text.replace(/[^0-9.-]/g, ""));

/** A report in a window of its own, which fails the check if anything is complained about. */
async function open(browser, name, { size = WIDE, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: scheme });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) complaints.push(`asks for ${request.url()}`);
  });
  await page.goto(pathToFileURL(join(work, "reports", `${name}.html`)).href);
  await page.waitForSelector("html[data-ready]", { timeout: 30000 }).catch(() => {
    throw new Failed(`${name} does not get ready: ${complaints.join("; ")}`);
  });
  const close = async () => {
    await context.close();
    hold(complaints.length === 0, `${name} complains: ${complaints.join("; ")}`);
  };
  return { page, close };
}

const rows = (page, section = 0) => page.locator(`#section-${section} tbody tr`);
const count = (page, section = 0) => page.locator(`#section-${section} [role=status]`).innerText();
const marks = (page) => page.locator(".drawn svg .mark-rect path, .drawn svg .mark-symbol path");
const column = (page, title, section = 0) =>
  page.locator(`#section-${section} tbody tr`).evaluateAll((lines, title) => {
    const heads = [...lines[0].closest("table").querySelectorAll("thead th")];
    const at = heads.findIndex((head) => head.innerText.trim() === title);
    return lines.map((line) => line.children[at].innerText);
  }, title);

const settled = (page) => page.waitForTimeout(500);

/** Luminance, as the guidelines for accessible pages define it. */
function luminance(colour) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
}

const CHECKS = {
  async "every report opens without a complaint, draws, and fits wide and narrow windows"(browser) {
    for (const name of NAMES) {
      for (const [label, size, scheme] of [
        ["light", WIDE, "light"], ["dark", WIDE, "dark"], ["narrow", NARROW, "light"],
        ["narrow-dark", NARROW, "dark"],
      ]) {
        const { page, close } = await open(browser, name, { size, scheme });
        const panels = await page.locator(".panels").evaluateAll((all) =>
          all.map((it) => [...it.querySelectorAll(".drawn")].map((drawn) =>
            drawn.querySelectorAll("svg [class*=mark-] path, svg [class*=mark-] line").length)));
        hold(panels.length > 0 || name === "none", `${name} has no chart`);
        for (const panel of panels.flat()) hold(panel > 0, `${name} has an empty chart`);
        hold(panels.every((all) => all.length > 0), `${name} has a chart without panels`);
        const { scroll, inner } = await page.evaluate(() => ({
          scroll: document.scrollingElement.scrollWidth, inner: innerWidth,
        }));
        hold(scroll <= inner, `${name} is ${scroll} pixels wide in a window of ${inner}`);
        await page.screenshot({ path: join(work, "pictures", `${name}-${label}.png`), fullPage: true });
        await close();
      }
    }
  },

  async "texts and labels can be read in light and in dark"(browser) {
    const grounds = [];
    for (const scheme of ["light", "dark"]) {
      const { page, close } = await open(browser, "compare", { scheme });
      const colours = () => page.evaluate(() => {
        const of = (element, what) => getComputedStyle(element)[what];
        const label = document.querySelector(".drawn svg .role-axis-label text");
        return {
          ground: of(document.body, "backgroundColor"), ink: of(document.body, "color"),
          label: of(label, "fill"), faint: of(document.querySelector("dt"), "color"),
        };
      });
      const { ground, ink, label, faint } = await colours();
      for (const [name, it] of Object.entries({ ink, label, faint })) {
        hold(contrast(ground, it) >= 4.5, `${name} is hard to read in ${scheme}`);
      }
      grounds.push(ground);
      // A reader who changes the system's colours meanwhile gets the others, charts included.
      await page.emulateMedia({ colorScheme: scheme === "light" ? "dark" : "light" });
      await settled(page);
      const after = await colours();
      hold(after.ground !== ground && after.label !== label, `${scheme} stays when it changes`);
      await close();
    }
    hold(grounds[0] !== grounds[1], "light and dark are the same");
  },

  async "the records are those of --json"(browser) {
    const { page, close } = await open(browser, "compare");
    const shown = await page.evaluate(() => records.map((record) => JSON.stringify(record)));
    const lines = readFileSync(join(work, "reports", "compare.jsonl"), "utf8").trim().split("\n");
    const parsed = lines.map((line) => JSON.stringify(JSON.parse(line)));
    hold(JSON.stringify(shown) === JSON.stringify(parsed), "the records differ");
    hold(shown.length === 15, `${shown.length} records`);
    await close();
  },

  async "words and choices filter rows and charts"(browser) {
    const { page, close } = await open(browser, "compare");
    const all = await rows(page).count();
    const drawn = await marks(page).count();
    hold(all === 20 && drawn > 60, `${all} rows, ${drawn} marks`);
    await page.fill("input[type=search]", "HASH lb");
    await settled(page);
    hold((await rows(page).count()) === 2, "hash under lb and lbpp are left");
    hold((await count(page)) === "2 of 20 rows", await count(page));
    hold((await marks(page).count()) < drawn / 4, "the charts still show the others");
    await page.fill("input[type=search]", "no such words");
    await settled(page);
    const none = "No row fits the filters.";
    hold((await rows(page).allInnerTexts()).join() === none, "the table says that nothing is left");
    hold((await page.locator(".panels").first().innerText()) === none, "and the charts do");
    await page.fill("input[type=search]", "");
    await page.getByLabel("workload").selectOption("queue");
    await settled(page);
    hold((await rows(page).count()) === 5, "five designs of queue");
    hold((await page.locator(".panels").first().locator(".drawn").count()) === 1, "one panel");
    await page.getByLabel("workload").selectOption("");
    await settled(page);
    hold((await marks(page).count()) === drawn, "all marks are back");
    await close();
  },

  async "each column sorts, both ways, and back"(browser) {
    const { page, close } = await open(browser, "compare");
    const before = await column(page, "Mop/s");
    const head = page.getByRole("button", { name: "Mop/s" });
    await head.click();
    const down = (await column(page, "Mop/s")).filter(Boolean).map(number);
    hold(down.length === 15 && down.every((it, at) => at === 0 || it <= down[at - 1]), "down");
    hold((await page.locator("th[aria-sort=descending]").count()) === 1, "the head says so");
    await head.press("Enter");
    const up = (await column(page, "Mop/s")).map((it) => (it ? number(it) : Infinity));
    hold(up.every((it, at) => at === 0 || it >= up[at - 1]), "up, with nothing last");
    await head.click();
    hold(JSON.stringify(await column(page, "Mop/s")) === JSON.stringify(before), "back");
    const designs = page.locator("thead").getByRole("button", { name: "design" });
    await designs.click();
    const names = await column(page, "design");
    hold(JSON.stringify(names) === JSON.stringify([...names].sort()), "names");
    await close();
  },

  async "a click on a row shows its stalls, its crashes and its command"(browser) {
    const { page, close } = await open(browser, "compare");
    const dialog = page.locator("#detail");
    await rows(page).nth(2).click();
    hold(await dialog.isVisible(), "it opens");
    const text = await dialog.innerText();
    hold(text.startsWith("Previous") && text.includes("hash under lbpp"), text);
    hold(/\d crash(es)? injected, none broke it/.test(text), "its crashes");
    const command = await dialog.locator(".command code").innerText();
    hold(command.startsWith("seawall compare --workloads hash --designs lbpp "), command);
    const shares = await dialog.locator(".shares td.number").allInnerTexts();
    const sum = shares.map(number).reduce((one, other) => one + other, 0);
    hold(Math.abs(sum - 100) < 1, `the shares add up to ${sum}`);
    const all = await dialog.locator(".shares tr").allInnerTexts();
    const busy = number(all.find((line) => line.startsWith("busy")).split("\t")[1]);
    const inTable = number((await column(page, "busy %"))[2]);
    hold(Math.abs(busy - inTable) <= 0.55, `busy is ${busy} % here, and ${inTable} in the table`);
    hold(!all.some((line) => line.includes("_")), `words, not names of fields: ${all}`);
    const colours = await dialog.locator(".shares i").evaluateAll((all) =>
      new Set(all.map((it) => getComputedStyle(it).backgroundColor)).size);
    hold(colours > 1, "the bars have the colours of the charts");
    await dialog.getByText("Counters").click();
    hold((await dialog.locator("details .fields tr").count()) > 5, "its counters");
    await dialog.getByRole("button", { name: "Copy" }).click();
    await dialog.getByRole("button", { name: /Copied|Selected/ }).waitFor();
    await dialog.getByRole("button", { name: "Next" }).click();
    hold((await dialog.innerText()).includes("hash under hops"), "the next row");
    await page.keyboard.press("Escape");
    hold(!(await dialog.isVisible()), "it closes");
    await close();
  },

  async "keys alone open rows, and charts and legends are clicked"(browser) {
    const { page, close } = await open(browser, "compare");
    const dialog = page.locator("#detail");
    await rows(page).first().focus();
    await page.keyboard.press("Enter");
    hold((await dialog.innerText()).includes("hash under clwb"), "Enter opens the row");
    await page.keyboard.press("Escape");
    await page.locator(".drawn svg .mark-rect path").nth(3).click();
    hold((await dialog.innerText()).includes("hash under hops"), "a bar opens its row");
    await page.keyboard.press("Escape");
    const drawn = await marks(page).count();
    await page.locator(".legend button", { hasText: "busy" }).focus();
    await page.keyboard.press("Space");
    await settled(page);
    hold((await marks(page).count()) < drawn, "a part goes from the charts");
    await page.locator(".drawn svg .mark-rect path").first().hover();
    await page.locator("#vg-tooltip-element.visible").waitFor({ timeout: 3000 });
    await close();
  },

  async "what broke is seen at once, with its cycle"(browser) {
    const { page, close } = await open(browser, "broken");
    hold((await page.locator("#notes .bad").innerText()).includes("BROKEN"), "the head says so");
    await rows(page).filter({ hasText: "BROKEN" }).first().click();
    const failures = await page.locator("#detail li.bad").allInnerTexts();
    hold(failures.length > 0 && failures.every((it) => /^cycle \d+: /.test(it)), failures.join());
    await close();
  },

  async "a sweep has a curve for each design, and its points repeat"(browser) {
    const { page, close } = await open(browser, "sweep");
    hold((await page.locator(".drawn").count()) === 2, "a panel for each factor");
    hold((await page.locator(".drawn svg .mark-line path").count()) === 4, "two curves in each");
    await page.locator(".drawn svg .mark-symbol path").first().click();
    const record = page.locator("#detail details").filter({ hasText: "lu" }).first();
    await record.locator("summary").first().click();
    const command = await record.locator(".command code").innerText();
    hold(command.startsWith("seawall kernels lu:8 --designs bsp-lb"), command);
    await page.keyboard.press("Escape");
    await rows(page).filter({ hasText: "cores = 2" }).first().click();
    await page.locator("#detail details summary").first().click();
    const cores = await page.locator("#detail .command code").first().innerText();
    hold(cores.includes("--machine desktop:core.count=2 "), cores);
    await close();
  },

  async "a figure shows the published value and ours, whatever they are called"(browser) {
    const { page, close } = await open(browser, "reproduce");
    hold((await page.locator("h1").innerText()).includes("</script><b>&"), "the title is text");
    hold((await rows(page).count()) === 2, "two values");
    hold((await column(page, "outcome")).includes("does not hold"), "9 does not hold");
    await rows(page).filter({ hasText: "LB++ </script>" }).click();
    const text = await page.locator("#detail").innerText();
    hold(text.includes("seawall reproduce scripts/browser/figure.toml"), text);
    hold(/Where the time went, mean over the workloads/i.test(text), text);
    hold((await page.locator("#detail table.shares tr").count()) > 2, "the time by reason");
    const each = page.locator("#detail details", { hasText: "of queue" });
    await each.locator("summary").click();
    await each.locator("table.shares tr").nth(1).waitFor();
    await close();
  },

  async "a finding stands beside the sources, with a timeline"(browser) {
    for (const name of ["explore", "race"]) {
      const { page, close } = await open(browser, name);
      hold((await page.locator("#notes .bad").count()) > 0, "the finding is at the top");
      hold((await page.locator(".excerpt li.lost").count()) > 0, `${name}: lost in the sources`);
      const said = await page.locator(".excerpt p.lost").first().innerText();
      hold(/lost.*: pm:0x[0-9a-f]+ \(\d+ bytes\) 0x/.test(said), said);
      await page.locator(".drawn svg .mark-symbol path").last().click();
      hold((await page.locator("#detail .excerpt li.place").count()) === 1, "an event's source");
      await page.keyboard.press("Escape");
      await rows(page, 1).first().click();
      const command = await page.locator("#detail .command code").first().innerText();
      hold(command.startsWith("seawall explore ") && command.includes("--replay "), command);
      await close();
    }
  },
};

async function main() {
  rmSync(join(work, "pictures"), { recursive: true, force: true });
  mkdirSync(join(work, "pictures"), { recursive: true });
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  let failed = 0;
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      await check(browser);
      console.log(`ok      ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}: ${error instanceof Failed ? error.message : error.stack}`);
    }
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
}

await main();
