"use strict";
// Whatever comes from the index is put into the page as text, never as HTML.

const $ = (selector, inside = document) => inside.querySelector(selector);
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const megabytes = (bytes) => bytes < 2 ** 20 ? `${Math.ceil(bytes / 2 ** 10)} kB` : `${Math.round(bytes / 2 ** 20)} MB`;

function build(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== ""));
  return element;
}
const h = (tag, properties = {}, ...children) => build(document.createElement(tag), properties, children);
const svg = (tag, properties = {}, ...children) =>
  build(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The explorer does not answer. Does it still run in the terminal?");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.detail ?? `The explorer failed (${answer.status}); its log says why.`);
  return body;
}
const post = (path, body) =>
  call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// What is said of a success and seen elsewhere, too, is for screen readers alone.
function say(place, text, bad = false, quiet = false) {
  place.classList.toggle("quiet", quiet);
  place.textContent = text;
  place.classList.toggle("bad", bad);
}

// Runs what a button or a form starts: says what is wrong with it, and that nothing else is lost.
async function attempt(section, work) {
  const place = $(".message", section);
  const buttons = [...section.querySelectorAll("button")];
  say(place, "");
  for (const button of buttons) button.disabled = true;
  try {
    await work();
  } catch (error) {
    say(place, error.message, true);
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

// ---- Views ----------------------------------------------------------------------------------------

const VIEWS = ["ask", "tune", "inspect", "index"];
function show() {
  const wanted = location.hash.slice(1);
  if (wanted === "content") return;
  const view = VIEWS.includes(wanted) ? wanted : "ask";
  for (const name of VIEWS) {
    document.getElementById(name).classList.toggle("current", name === view);
    const link = $(`nav a[href="#${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  if (view === "inspect") showAsked().catch(() => {});
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $("#theme").textContent = theme === "dark" ? "Light" : "Dark";
  $("#theme").setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colours`);
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(localStorage.getItem("theme") ?? (dark ? "dark" : "light"));
  $("#theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", theme);
    setTheme(theme);
  });
}

// ---- Passages -------------------------------------------------------------------------------------

const place = (hit) => [hit.source, hit.place, hit.title].filter(Boolean).join(", ");
const beginning = (hit) => {
  const all = hit.parts.map(([part]) => part).join("");
  const text = (hit.title && all.startsWith(hit.title) ? all.slice(hit.title.length) : all).replace(/\s+/g, " ").trim();
  return text.length > 90 ? `${text.slice(0, 90)} …` : text;
};

function passage(hit) {
  const rest = hit.cut ? h("p", { class: "dim" }, `The first part of ${count(hit.characters, "character")}.`) : null;
  const pieces = hit.parts.map(([text, isWord]) => (isWord ? h("mark", {}, text) : text));
  return [h("div", { class: "text", tabindex: "0", role: "group", "aria-label": "Text" }, pieces), rest ?? ""];
}

const short = (hit, more = "") =>
  h("li", {}, h("b", {}, place(hit)), " ", beginning(hit), more ? h("span", { class: "dim" }, ` ${more}`) : "");

function neighboursButton(hit) {
  const go = () => {
    $("#neighbours").elements.id.value = hit.id;
    location.hash = "inspect";
    $("#neighbours").requestSubmit();
  };
  return h("button", { class: "small", type: "button", onclick: go, "aria-label": `Neighbours of ${hit.id}` }, "Neighbours");
}

function table(caption, heads, rows) {
  const cell = (value) =>
    value instanceof Node ? h("td", {}, value) : h("td", /^[\d.,–-]+( %)?$/.test(value) ? { class: "number" } : {}, String(value));
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h("table", {},
      h("caption", { class: "dim" }, caption),
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

// ---- Ask ------------------------------------------------------------------------------------------

function spread(hit, low, high) {
  const x = (value) => 4 + (192 * (value - low)) / Math.max(high - low, 1e-9);
  const [from, to] = [hit.mu - 2 * hit.sigma, hit.mu + 2 * hit.sigma];
  const label = `Mean ${fixed(hit.mu)}, from ${fixed(from)} to ${fixed(to)}; score ${fixed(hit.score)}`;
  return svg("svg", { viewBox: "0 0 200 20", width: 200, height: 20, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: 0, x2: 200, y1: 19, y2: 19 }),
    svg("line", { class: "spread", x1: x(from), x2: x(to), y1: 10, y2: 10 }),
    svg("circle", { class: "dot", cx: x(hit.mu), cy: 10, r: 4 }),
    svg("line", { class: "score", x1: x(hit.score), x2: x(hit.score), y1: 3, y2: 17 }));
}

function showHit(hit, low, high) {
  const members = Object.entries(hit.members ?? {}).map(([name, own]) =>
    [name, fixed(own.similarity), own.rank === null ? "–" : String(own.rank), percent(own.share)]);
  return h("li", {},
    h("h3", {}, place(hit), hit.is_candidate ? h("span", { class: "dim" }, " (may be meant)") : ""),
    passage(hit),
    h("div", { class: "numbers" },
      h("span", {}, "score ", h("b", { class: "score" }, fixed(hit.score))),
      h("span", {}, `mean ${fixed(hit.mu)} ± ${fixed(2 * hit.sigma)}`),
      spread(hit, low, high),
      hit.relevance === null || hit.relevance === undefined ? "" : h("span", {}, "relevant ", h("b", { class: "relevance" }, percent(hit.relevance))),
      neighboursButton(hit)),
    members.length ? table("What each encoder says", ["Encoder", "Similarity", "Rank", "Share of the score"], members) : "");
}

const DO = { answer: "Answer", clarify: "Ask back", abstain: "Do not answer" };
function showAnswer(found) {
  const shares = Object.entries(found.shares).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const low = Math.min(...found.hits.map((hit) => Math.min(hit.mu - 2 * hit.sigma, hit.score)));
  const high = Math.max(...found.hits.map((hit) => Math.max(hit.mu + 2 * hit.sigma, hit.score)));
  const columns = [{ name: "This index", hits: found.hits }, ...found.others];
  $("#answer").replaceChildren(
    h("div", { class: `decision ${found.decision}` },
      h("p", {}, h("strong", {}, `${DO[found.decision]}`), `: ${found.reason}`),
      h("p", { class: "dim" }, "Confidence ", h("b", { id: "confidence" }, fixed(found.confidence)),
        found.threshold === null ? "; the gate abstains on everything" : `, threshold ${fixed(found.threshold)}`,
        `. The corpus holds an answer with probability ${fixed(found.in_corpus, 2)}.`),
      h("p", { class: "dim" }, `Shares of the score: ${shares}.${found.exact ? "" : " The store is searched approximately."}`)),
    h("p", { class: "dim" }, "Dot: mean similarity. Line: two standard deviations to either side. Red: the score, lowered where the similarity is uncertain."),
    h("ol", { class: "hits" }, found.hits.map((hit) => showHit(hit, low, high))),
    found.others.length ? h("h3", {}, "What other ways to search would have found") : "",
    found.others.length ? h("div", { class: "columns" }, columns.map((column, first) =>
      h("div", {}, h("h4", {}, column.name), h("ol", {}, column.hits.map((hit) =>
        short(hit, first === 0 ? "" : hit.place_here ? `(here ${hit.place_here})` : "(not here)")))))) : "");
}

function startAsk() {
  const section = $("#ask");
  $("form", section).addEventListener("submit", (event) => {
    event.preventDefault();
    const { question, k } = event.target.elements;
    attempt(section, async () => {
      const found = await post("api/ask", { question: question.value, k: k.valueAsNumber });
      showAnswer(found);
      say($(".message", section), `${DO[found.decision]}: ${count(found.hits.length, "passage")} found.`, false, true);
    });
  });
}

// ---- Long work ------------------------------------------------------------------------------------

function left(seconds) {
  if (seconds === undefined) return "";
  return seconds < 90 ? `, about ${Math.max(1, Math.round(seconds))} s left` : `, about ${Math.round(seconds / 60)} min left`;
}

async function follow(section) {
  const shown = $(".work", section);
  const bar = h("progress", { max: 1, "aria-label": "Progress" });
  const text = h("p", { class: "dim", role: "status" });
  shown.replaceChildren(bar, text);
  shown.hidden = false;
  try {
    for (;;) {
      const state = await call("api/work");
      if (state.state === "failed") throw new Error(state.detail);
      if (state.state !== "running") return await call(`api/results/${state.kind}`);
      if (state.total) bar.value = state.done / state.total;
      text.textContent = `${state.what}${state.total > 1 ? `: ${state.done} of ${state.total}` : ""}${left(state.left)}`;
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  } finally {
    shown.hidden = true;
  }
}

// ---- Tune -----------------------------------------------------------------------------------------

const W = 320, H = 230, LEFT = 42, RIGHT = 24, BOTTOM = 34, TOP = 22;
const across = (share) => LEFT + share * (W - LEFT - RIGHT);
const up = (share, most = 1) => TOP + (1 - share / most) * (H - TOP - BOTTOM);

function axes(label, below, beside, most, ...inner) {
  const ticks = [0, 0.5, 1].map((share) => [
    svg("text", { x: across(share), y: H - 18, "text-anchor": "middle" }, percent(share)),
    svg("text", { x: LEFT - 5, y: up(share * most, most) + 4, "text-anchor": "end" }, percent(share * most)),
  ]);
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    svg("path", { class: "axis", d: `M${LEFT},${TOP}V${H - BOTTOM}H${W - RIGHT}` }),
    ticks.flat(),
    svg("text", { x: across(0.5), y: H - 3, "text-anchor": "middle" }, below),
    svg("text", { x: 4, y: 12 }, beside),
    ...inner);
}

let tuned = null, baseline = null;

function drawCurve(now) {
  const most = Math.max(0.05, ...tuned.curve.map(([, risk]) => risk));
  const line = tuned.curve.map(([share, risk]) => `${across(share)},${up(risk, most)}`).join(" ");
  const [share, risk] = [now.answered / now.queries, now.answered ? now.wrong / now.answered : 0];
  const label = `Risk over coverage. At the threshold ${percent(share)} of the questions are answered, ${percent(risk, 1)} of these wrongly; answering all, ${percent(tuned.curve.at(-1)[1], 1)}.`;
  $("#curve").replaceChildren(
    axes(label, "answered", "wrong among the answered", most,
      svg("polyline", { class: "curve", points: line }),
      now.threshold === null ? "" : svg("circle", { class: "now", cx: across(share), cy: up(risk, most), r: 5 })),
    h("figcaption", {}, "Risk over coverage; the dot is the threshold."));
}

function drawReliability() {
  const bins = tuned.reliability;
  const said = bins.map((bin) => `confidence ${percent(bin.confidence)}: ${percent(bin.right)} right`).join("; ");
  $("#reliability").replaceChildren(
    axes(`Reliability: ${said}.`, "confidence", "right", 1,
      svg("line", { class: "axis", "stroke-dasharray": "4", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }),
      bins.map((bin) => [
        svg("line", { class: "spread", x1: across(bin.confidence), x2: across(bin.confidence), y1: up(bin.low), y2: up(bin.high) }),
        svg("circle", { class: "dot", cx: across(bin.confidence), cy: up(bin.right), r: 4 })]).flat()),
    h("figcaption", {}, "Reliability: what share of the answers is right at each confidence, with 95 % intervals."));
}

const isAnswered = (row, threshold) => threshold !== null && !row.asked_back && row.confidence > threshold;
const verdict = (row) =>
  row.right ? h("span", { class: "right" }, "right") : h("span", { class: "wrong" }, row.answerable ? "wrong" : "wrong: nothing answers it");

const thresholds = () => tuned[$("#promise").value];
const promised = (gate) =>
  `at most ${percent(gate.risk)} ${gate.delta === null ? "of all questions answered wrongly" : "wrong answers"}`;

function showRisk() {
  const now = thresholds()[$("#risk").valueAsNumber];
  $("#risk").setAttribute("aria-valuetext", percent(now.risk));
  $("#risk-shown").textContent = percent(now.risk);
  $("#risk-report").textContent = now.report;
  $("#save").disabled = now.threshold === null;
  drawCurve(now);
  const flips = tuned.rows.filter((row) => isAnswered(row, now.threshold) !== isAnswered(row, baseline.threshold));
  const rows = flips.map((row) =>
    [row.question, fixed(row.confidence), isAnswered(row, now.threshold) ? "now answered" : "no longer answered", verdict(row)]);
  $("#flips").replaceChildren(
    h("h3", {}, `${count(flips.length, "question")} flip${flips.length === 1 ? "s" : ""}`),
    h("p", { class: "dim" }, `Compared with ${baseline.name}.`),
    rows.length ? table("Questions that flip", ["Question", "Confidence", "Decision", "Its answer"], rows.slice(0, 100)) : "");
  const answered = tuned.rows.filter((row) => isAnswered(row, now.threshold));
  const wrong = answered.filter((row) => !row.right).map((row) => [row.question, fixed(row.confidence), verdict(row)]);
  $("#rows").replaceChildren(
    h("h3", {}, `${now.answered} of ${count(now.queries, "question")} answered, ${now.wrong} wrongly`),
    wrong.length ? table("Answered wrongly", ["Question", "Confidence", "Its answer"], wrong.slice(0, 100)) : "",
    h("details", {}, h("summary", {}, "All answered"),
      table("Answered", ["Question", "Confidence", "Its answer"], answered.slice(0, 500).map((row) => [row.question, fixed(row.confidence), verdict(row)]))));
}

function showTuned(found) {
  if (!found) return;
  tuned = found;
  const gate = facts?.gate;
  $("#promise").value = gate && gate.delta !== null ? "risks" : "wrongs";
  const start = gate ? thresholds().findIndex((one) => Math.abs(one.risk - gate.risk) < 1e-9) : 9;
  $("#risk").max = thresholds().length - 1;
  $("#risk").value = start < 0 ? 9 : start;
  const first = thresholds()[9];
  baseline = gate ? { name: `the saved gate (${promised(gate)})`, threshold: gate.threshold }
    : { name: promised(first), threshold: first.threshold };
  const alike = found.chosen_on < found.questions ? ` The threshold is chosen on ${found.chosen_on}, one of those that share an answer.`
    : found.alike ? ` ${count(found.alike, "question")} share what answers them with one before. They succeed or fail together, and the guarantee, which is for independent questions, fails more often than it says: choose one question per answer.` : "";
  $("#tuned-of").textContent = found.name
    ? `${count(found.questions, "question")} of ${found.name}; an answer may use ${count(found.k, "passage")}.${alike}`
    : `${count(found.questions, "question")} made from the passages, a fifth without an answer: a first sentence, or a heading, asks for the rest, which is harder to find than what users ask for. What is guaranteed here holds for such questions only; take labelled ones to know about yours.`;
  $("#tuned").hidden = false;
  say($("#saved"), "");
  drawReliability();
  showRisk();
}

function startTune() {
  const section = $("#tune"), form = $("form", section);
  const search = (name, body) => attempt(section, async () => {
    const query = new URLSearchParams({ name, k: form.elements.k.value, one_per_answer: form.elements.one.checked });
    await call(`api/tune?${query}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body });
    showTuned(await follow(section));
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const file = form.elements.table.files[0];
    if (!file) say($(".message", section), "Choose a file of labelled questions first.", true);
    else if (facts && file.size > facts.largest_table) {
      say($(".message", section), `${file.name} has ${megabytes(file.size)}; a table of questions may have ${megabytes(facts.largest_table)}. Give fewer questions: some thousand are plenty.`, true);
    } else search(file.name, file);
  });
  form.elements.made.addEventListener("click", () => search("", ""));
  $("#risk").addEventListener("input", showRisk);
  $("#promise").addEventListener("change", showRisk);
  $("#save").addEventListener("click", async () => {
    try {
      const share = thresholds()[$("#risk").valueAsNumber].risk;
      const saved = await post("api/gate", $("#promise").value === "wrongs" ? { wrong: share } : { risk: share });
      facts.gate = saved;
      baseline = { name: `the saved gate (${promised(saved)})`, threshold: saved.threshold };
      showRisk();
      say($("#saved"), `Saved as ${saved.file}: answers take a confidence above ${fixed(saved.threshold)} from now on, also of uec-rag ask, serve and mcp on this index.`);
    } catch (error) {
      say($("#saved"), error.message, true);
    }
  });
}

// ---- Inspect --------------------------------------------------------------------------------------

async function showAsked() {
  const asked = await call("api/asked");
  const widest = asked.filter((one) => one.sigma !== null).sort((a, b) => b.sigma - a.sigma);
  const number = (value) => (value === null ? "–" : fixed(value, 2));
  $("#asked").replaceChildren(
    h("h3", {}, "Questions of this session"),
    asked.length
      ? table("The most uncertain first", ["Question", "Decision", "Confidence", "Deviation of the first hit", "Disagreement"],
        widest.map((one) => [one.question, one.decision, number(one.confidence), fixed(one.sigma), number(one.disagreement)]))
      : h("p", { class: "dim" }, "None yet: ask some."));
}

function showSeen(seen) {
  if (!seen) return;
  const list = (title, about, items, empty) =>
    [h("h3", {}, title), h("p", { class: "dim" }, about), items.length ? h("ol", {}, items) : h("p", {}, empty)];
  $("#seen").replaceChildren(...[
    list("Passages of the highest variance", `Of ${count(seen.looked_at, "passage")} that were looked at.`,
      seen.variances.map((hit) => short(hit, `variance ${hit.variance.toPrecision(3)}`)),
      "Variances are 0: the ensemble is not fitted."),
    list("Passages that come up for everything",
      `Among the first 10 hits of ${count(seen.questions, "question")}, not counting those that a passage was asked for by. By chance each would come up ${seen.fair.toFixed(1)} times.`,
      seen.hubs.map((hit) => short(hit, count(hit.times, "time"))), "No passage comes up for other questions than its own."),
    list("Questions of the highest variance", "Standard deviation of the similarity of the first hit.",
      seen.uncertain.map((one) => h("li", {}, `${one.question} `, h("span", { class: "dim" }, fixed(one.sigma)))),
      "Variances are 0: the ensemble is not fitted."),
    list("Where encoders disagree", "Share of the first ten hits that two encoders do not have in common.",
      seen.disagreeing.map((one) => h("li", {}, h("b", {}, one.question), ` ${percent(one.share)} `,
        h("ul", {}, Object.entries(one.firsts).map(([name, hit]) => h("li", {}, `${name}: ${place(hit)}`))))),
      "There is one encoder, or the index does not keep them apart."),
  ].flat());
}

function startInspect() {
  const section = $("#inspect");
  $("#neighbours").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(section, async () => {
      const query = new URLSearchParams({ id: event.target.elements.id.value });
      const found = await call(`api/neighbours?${query}`);
      $("#near").replaceChildren(
        h("h4", {}, place(found.passage)), ...passage(found.passage),
        h("div", { class: "columns" }, found.columns.map((column) =>
          h("div", {}, h("h4", {}, column.name), h("ol", {}, column.hits.map((hit) => short(hit)))))));
    });
  });
  $("#look").addEventListener("click", () => attempt(section, async () => {
    await call("api/inspect", { method: "POST" });
    showSeen(await follow(section));
  }));
}

// ---- Index ----------------------------------------------------------------------------------------

let facts = null;

async function showFacts() {
  facts = await call("api/index");
  $("#name").textContent = facts.name;
  document.title = `${facts.name} – uec-rag explore`;
  const known = facts.fitted_on.join(", ");
  const unknown = facts.languages.filter((language) => known && !facts.fitted_on.includes(language));
  const familiar = facts.strange ?? (unknown.length ? `The fit knows no ${unknown.join(", ")}, and its encoders tell the passages apart.`
    : known ? "Texts like those that the ensemble was fitted on." : "Not known: the ensemble is not fitted.");
  const gate = facts.gate;
  if (facts.problem) say($(".message", $("#index")), facts.problem, true);
  const rows = {
    Passages: facts.passages.toLocaleString("en"),
    "Stored in": `${facts.store}, ${facts.exact ? "searched exactly" : "searched approximately"}`,
    Encoders: facts.encoders.map((one) => `${one.name} (weight ${one.weight.toFixed(2)})`).join(", "),
    Confidence: facts.report,
    Written: facts.languages.join(", ") || "nothing yet",
    Familiar: familiar,
    Gate: !gate ? "none saved" : `${promised(gate)}: confidence above ${fixed(gate.threshold)}, for ${count(gate.k, "passage")}${gate.fits ? "" : ". It was made with another index, or before this one changed: make it again"}`,
    Files: facts.formats.join(", "),
  };
  $("#facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function showStaged(files) {
  $("#staged").replaceChildren(...files.map((file) => h("li", {}, `${file.name}, ${megabytes(file.bytes)}`)));
}

async function stage(files) {
  const section = $("#index");
  await attempt(section, async () => {
    const refused = [];
    for (const file of files) {
      if (facts && file.size > facts.largest_file) {
        refused.push(`${file.name} has ${megabytes(file.size)}, a file may have ${megabytes(facts.largest_file)}: split it.`);
        continue;
      }
      say($(".message", section), `Uploading ${file.name} …`);
      const query = new URLSearchParams({ name: file.name });
      const options = { method: "PUT", headers: { "Content-Type": "application/octet-stream" }, body: file };
      await call(`api/files?${query}`, options).then(showStaged, (error) => refused.push(error.message));
    }
    say($(".message", section), "");
    if (refused.length) throw new Error(refused.join(" "));
  });
}

function showAdded(found) {
  const left_out = Object.entries(found.left_out).map(([name, problem]) => `${name} ${problem}`).join("; ");
  say($(".message", $("#index")), `${count(found.passages, "passage")} of ${count(found.files, "file")} added, ${found.replaced} replaced; the index has ${found.total.toLocaleString("en")} now and is saved.${left_out ? ` Left out: ${left_out}.` : ""}`);
}

function startIndex() {
  const section = $("#index"), drop = $("#drop"), input = $("input", drop);
  const chosen = (files) => stage([...files]).then(() => { input.value = ""; });
  input.addEventListener("change", () => chosen(input.files));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") chosen(event.dataTransfer.files);
    });
  }
  $("#files").addEventListener("submit", (event) => event.preventDefault());
  $("#add").addEventListener("click", () => attempt(section, async () => {
    await call("api/index", { method: "POST" });
    try {
      showAdded(await follow(section));
      await showFacts();
    } finally {
      showStaged(await call("api/files"));
    }
  }));
  $("#clear").addEventListener("click", () => attempt(section, async () =>
    showStaged(await call("api/files", { method: "DELETE" }))));
}

// ---- Start ----------------------------------------------------------------------------------------

addEventListener("hashchange", show);
startTheme();
startAsk();
startTune();
startInspect();
startIndex();
show();

// After a reload: what is there already, and what is still going on.
(async () => {
  await showFacts();
  showStaged(await call("api/files"));
  const state = await call("api/work");
  const after = { tune: showTuned, inspect: showSeen, index: showAdded };
  for (const kind of ["tune", "inspect"]) {
    if (state.kind !== kind || state.state !== "running") after[kind](await call(`api/results/${kind}`));
  }
  if (state.state === "running") {
    const section = document.getElementById(state.kind);
    await attempt(section, async () => after[state.kind](await follow(section)));
  }
})().catch((error) => say($(".message", $("section.current")), error.message, true));
