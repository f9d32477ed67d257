"use strict";
// Whatever comes from the index is put into the page as text, in elements without attributes.

const $ = (selector, inside = document) => inside.querySelector(selector);
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const megabytes = (bytes) => (bytes < 2 ** 20 ? `${Math.ceil(bytes / 1024)} kB` : `${Math.round(bytes / 2 ** 20)} MB`);

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
const dim = (...children) => h("span", { class: "dim" }, ...children);
const scrolling = (label, ...children) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, ...children);

// Of a server that others can reach; a tab is asked for it once.
let token = sessionStorage.getItem("token");
async function call(path, options = {}) {
  const brought = token, headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Error("The explorer does not answer. Does it still run in the terminal?");
  }
  if (answer.status === 401) {
    if (token === brought) token = prompt("The server's token");
    if (token) {
      sessionStorage.setItem("token", token);
      return call(path, options);
    }
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
  const buttons = [...section.querySelectorAll("button:not(#save)")];
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

// ---- Views: what is shown is in the address, "#ask?q=QUESTION" --------------------------------------

const VIEWS = ["ask", "tune", "index"];
function show() {
  const [wanted, query] = location.hash.slice(1).split("?");
  if (wanted === "content") return;
  const view = VIEWS.includes(wanted) ? wanted : "ask", given = new URLSearchParams(query);
  for (const name of VIEWS) {
    document.getElementById(name).classList.toggle("current", name === view);
    const link = $(`nav a[data-view="${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  if (view === "ask") showAsk(given);
  if (view === "index") showIndex(given);
}
const to = (view, pairs) => `#${view}?${new URLSearchParams(pairs)}`;

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
const LONG = 1500; // characters that are shown at once

function node(tree) {
  if (typeof tree === "string") return tree;
  const element = h(tree[0], {}, tree.slice(1).map(node));
  return tree[0] === "table" ? scrolling("Table of the passage", element) : element;
}

// A text's first blocks, and the others on demand.
function passage(hit) {
  const blocks = hit.body.map(node);
  let shown = 0, length = 0;
  while (shown < blocks.length && length < LONG) length += (blocks[shown++].textContent ?? "").length;
  const rest = blocks.slice(shown);
  if (hit.cut) rest.push(h("p", { class: "dim" }, `Of ${count(hit.characters, "character")} these are the first.`));
  return h("div", { class: hit.markdown ? "text" : "text plain" }, blocks.slice(0, shown),
    rest.length ? h("details", {}, h("summary", {}, "The rest of this passage"), rest) : "");
}

const where = (hit) => [hit.title && hit.source, hit.place].filter(Boolean).join(", ");
const opening = (hit, ...text) => h("a", { href: to("index", { id: hit.id }) }, ...text);
const heading = (hit, before = "", ...more) =>
  h("h3", {}, before, hit.title || hit.source, " ", dim(opening(hit, where(hit) || "open")), ...more);
const short = (hit, more = "") =>
  h("li", {}, opening(hit, hit.title || hit.source), " ", dim(where(hit)), " ", hit.beginning, more ? dim(` ${more}`) : "");

// A value is a text, a node, or a number: an array of the text to show.
const isNumber = (value) => /^[\d.,–-]+( %)?$/.test(value);
function table(caption, heads, rows) {
  const number = (value) => (!(value instanceof Node) && isNumber(value) ? { class: "number" } : {});
  // Not in a <caption>: that is as wide as the table, and scrolls away with it.
  return h("div", {}, h("p", { class: "dim" }, caption), scrolling(caption,
    h("table", { class: "listed", "aria-label": caption },
      h("thead", {}, h("tr", {}, heads.map((head, column) =>
        head ? h("th", { scope: "col", ...number(rows[0]?.[column] ?? "") }, head) : h("td")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => h("td", number(value), value))))))));
}

// ---- Ask ------------------------------------------------------------------------------------------

const DO = { answer: "Answer", clarify: "Ask back", abstain: "Do not answer" };
const badge = (decision) => h("span", { class: `badge ${decision}` }, DO[decision]);
let asked = []; // of this session, the last first
let thread = []; // the questions of the answer on the page, each after those that it goes on from
let latest = 0;

// The address of a thread; a reading that was chosen narrows its last question down.
const asking = (turns, k, reading = null) => to("ask", [
  ...turns.map((turn) => ["q", turn]), ["k", k],
  ...(reading ? [["title", reading.title], ...reading.ids.map((id) => ["id", id])] : []),
]);
const turnsOf = (one) => [...one.before, one.question];
const known = (turns) => asked.find((one) => JSON.stringify(turnsOf(one)) === JSON.stringify(turns));
const askedLink = (one) => h("a", { href: asking(turnsOf(one), 4) }, turnsOf(one).join(" → "));

// The similarity of a hit on an axis that all hits share.
function spread(hit, low, high) {
  const x = (value) => 20 + (280 * (value - low)) / Math.max(high - low, 1e-9);
  const [from, until] = [hit.mu - 2 * hit.sigma, hit.mu + 2 * hit.sigma];
  const label = `Mean ${fixed(hit.mu)}, from ${fixed(from)} to ${fixed(until)}; score ${fixed(hit.score)}`;
  const ticks = [low, (low + high) / 2, high].map((value) => [
    svg("line", { class: "axis", x1: x(value), x2: x(value), y1: 20, y2: 24 }),
    svg("text", { x: x(value), y: 36, "text-anchor": "middle" }, fixed(value, 2))]);
  return svg("svg", { viewBox: "0 0 320 40", width: 320, height: 40, role: "img", "aria-label": label },
    svg("line", { class: "axis", x1: x(low), x2: x(high), y1: 20, y2: 20 }), ticks.flat(),
    svg("line", { class: "spread", x1: x(from), x2: x(until), y1: 10, y2: 10 }),
    svg("circle", { class: "dot", cx: x(hit.mu), cy: 10, r: 4 }),
    svg("line", { class: "score", x1: x(hit.score), x2: x(hit.score), y1: 3, y2: 17 }));
}

// Labels of the question on the page: buttons that stay pressed, each with the id of its passage or null.
let marks = [];
function showMarks(own) {
  for (const [button, id] of marks)
    button.setAttribute("aria-pressed", id === null ? own.nothing : own.ids.includes(id));
}

function mark(text, question, id) {
  const button = h("button", { type: "button", class: "small", onclick: async () => {
    const holds = button.getAttribute("aria-pressed") !== "true", place = $(".message", $("#ask"));
    try {
      showMarks(await post("api/label", { question, id, holds }));
      await showLabels();
      say(place, `${count(labels.questions, "question")} labelled.`, false, true);
    } catch (error) {
      say(place, error.message, true);
    }
  } }, text);
  marks.push([button, id]);
  return button;
}

let labels = { questions: 0 };
async function showLabels() {
  labels = await call("api/labels");
  const some = labels.questions ? `: ${count(labels.questions, "question")}, ${labels.unanswerable} without an answer` : "";
  $("#labels").replaceChildren(
    h("h3", {}, "Labels"),
    h("p", {}, `“Answers” and “Nothing answers” write ${labels.file}${some}. A hundred make a gate, in `,
      h("a", { href: "#tune" }, "Tune"), "."),
    labels.next.length ? h("p", { class: "dim" }, "To label next, in your users' words:") : "",
    h("ul", {}, labels.next.map((one) => h("li", {}, h("a", { href: asking([one], 4) }, one)))));
  $("#tune form").elements.labelled.hidden = !labels.questions;
}

function showHit(hit, low, high, question) {
  const members = Object.entries(hit.encoders ?? {}).map(([name, own]) =>
    [name, fixed(own.similarity), own.rank === null ? "–" : String(own.rank), percent(own.share)]);
  const relevance = hit.relevance ?? null;
  return h("li", {},
    heading(hit, `${hit.place_here}. `, hit.is_candidate ? dim(" – may be meant") : ""),
    passage(hit),
    question ? mark("Answers", question, hit.id) : "",
    h("details", { class: "numbers" },
      h("summary", {}, relevance === null ? "" : ["relevant ", h("b", { class: "relevance" }, percent(relevance)), " · "],
        "score ", h("b", { class: "score" }, fixed(hit.score))),
      spread(hit, low, high),
      h("p", { class: "dim" }, `Dot: the mean similarity, ${fixed(hit.mu)}. Line: two standard deviations, ${fixed(2 * hit.sigma)}, to either side. Red: the score, lowered where the similarity is uncertain.`),
      members.length ? table("What each encoder says", ["Encoder", "Similarity", "Rank", "Share of the score"], members) : "",
      h("p", { class: "dim" }, `id ${hit.id}`)));
}

// A sentence in the question's language, with values in place of "{confidence}" and the like.
const filled = (sentence, values) => sentence.split(/\{(\w+)\}/).map((part, at) => (at % 2 ? values[part] : part));

function showAnswer(found, turns, k, title) {
  const told = found.told;
  const shares = Object.entries(found.weights).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const low = Math.min(...found.passages.map((hit) => Math.min(hit.mu - 2 * hit.sigma, hit.score)));
  const high = Math.max(...found.passages.map((hit) => Math.max(hit.mu + 2 * hit.sigma, hit.score)));
  const columns = [{ name: "This index", passages: found.passages }, ...found.others];
  const alone = turns.length === 1 && !title ? turns[0] : ""; // a label is of a question that stands alone
  marks = [];
  $("#answer").replaceChildren(
    h("div", { class: `decision ${found.decision}`, lang: found.language, dir: "auto" },
      h("h3", {}, found.question),
      h("p", {}, h("strong", {}, told[found.decision]), " ", found.reason),
      found.readings.length ? h("ul", { class: "choices", "aria-label": "Ask again among" }, found.readings.map((reading) =>
        h("li", {}, h("a", { href: asking(turns, k, reading) }, reading.title, dim(` ${percent(reading.probability)}`))))) : "",
      title ? h("p", {}, filled(told.among, { label: h("b", {}, title) }), " ", h("a", { href: asking(turns, k) }, told.all)) : "",
      h("p", { class: "dim" }, filled(found.threshold === null ? told.no_threshold : told.confidence, {
        confidence: h("b", { id: "confidence" }, percent(found.confidence)),
        threshold: percent(found.threshold), in_corpus: percent(found.in_corpus) })),
      h("p", { class: "dim" }, `Weights: ${shares}.${found.exact ? "" : " The store is searched approximately."}`),
      alone ? mark("Nothing answers", alone, null) : ""),
    h("ol", { class: "hits" }, found.passages.map((hit) => showHit(hit, low, high, alone))));
  $("#others").replaceChildren(
    found.others.length ? h("h3", {}, "What other ways to search would have found") : "",
    found.others.length && turns.length > 1 ? h("p", { class: "dim" }, "For this question alone, without those before it.") : "",
    found.others.length ? h("div", { class: "columns" }, columns.map((column, first) =>
      h("div", {}, h("h4", {}, column.name), h("ol", {}, column.passages.map((hit) =>
        short(hit, first === 0 ? "" : hit.place_here ? `(here ${hit.place_here})` : "(not here)")))))) : "");
  showMarks(found.labels);
}

function showWelcome() {
  if (!facts || thread.length) return;
  const files = facts.sources.slice(0, 12);
  $("#others").replaceChildren();
  $("#answer").replaceChildren(
    facts.examples.length ? h("h3", {}, "To begin with") : "",
    h("ul", { class: "choices" }, facts.examples.map((example) => h("li", {}, h("a", { href: asking([example], 4) }, example)))),
    h("h3", {}, `In this index: ${count(facts.passages, "passage")} of ${count(facts.sources_counted, "source")}`),
    h("ul", {}, files.map((file) => h("li", {}, fileLink(file), dim(` ${count(file.passages, "passage")}`)))),
    files.length < facts.sources.length ? h("p", {}, h("a", { href: "#index" }, "All of them")) : "");
}

function showThread(turns, k) {
  const before = turns.slice(0, -1);
  const fresh = h("button", { type: "button", class: "small", onclick: () => { location.hash = "#ask"; } }, "New subject");
  $("#thread").replaceChildren(...(before.length ? [
    h("ol", {}, before.map((turn, at) => {
      const so_far = turns.slice(0, at + 1), answered = known(so_far);
      return h("li", {}, h("a", { href: asking(so_far, k) }, turn),
        answered ? [" ", badge(answered.decision), " ", dim(answered.reason)] : "");
    })),
    h("p", {}, fresh)] : []));
  $("#follow").hidden = !turns.length;
  $("#ask form").elements.follow.checked = before.length > 0;
}

function showHistory() {
  const items = asked.slice(0, 20).map((one) =>
    h("li", {}, askedLink(one), " ", badge(one.decision)));
  $("#history").replaceChildren(...(items.length ? [h("h3", {}, "Asked before"), h("ul", {}, items)] : []));
}

async function showAsk(given) {
  const section = $("#ask"), form = $("form", section), turns = given.getAll("q");
  const k = Number(given.get("k") ?? 4), title = given.get("title");
  const mine = ++latest;
  $('nav a[data-view="ask"]').href = location.hash.startsWith("#ask") ? location.hash : "#ask";
  thread = title ? [...turns, title] : turns;
  form.elements.question.value = turns.length > 1 ? "" : turns.join();
  showThread(turns, k);
  if (!turns.length) {
    showWelcome();
    form.elements.question.focus();
    return;
  }
  form.elements.k.value = k;
  // What was answered matters to what goes on from it if it asked back.
  const history = turns.slice(0, -1).flatMap((turn, at) => {
    const answered = known(turns.slice(0, at + 1));
    const back = answered?.decision === "clarify" ? [{ role: "assistant", content: answered.reason }] : [];
    return [{ role: "user", content: turn }, ...back];
  });
  await attempt(section, async () => {
    const found = await post("api/ask", { question: turns.at(-1), k, history, within: given.has("id") ? given.getAll("id") : null });
    if (mine !== latest) return;
    showAnswer(found, turns, k, title);
    say($(".message", section), `${DO[found.decision]}: ${count(found.passages.length, "passage")} found.`, false, true);
    asked = await call("api/asked");
    showHistory();
    await showLabels();
  });
}

function startAsk() {
  const form = $("#ask form"), { question, k, follow } = form.elements;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = asking([...(follow.checked ? thread : []), question.value.trim()], k.value);
    if (location.hash === wanted) show();
    else location.hash = wanted;
  });
  follow.addEventListener("change", () => {
    if (follow.checked && question.value === thread.at(-1)) question.value = "";  // not what was typed since
    question.focus();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    event.preventDefault();
    if (!$("#ask").classList.contains("current")) location.hash = $('nav a[data-view="ask"]').hash;
    setTimeout(() => question.select());
  });
}

// ---- Tune -----------------------------------------------------------------------------------------

const W = 320, H = 230, LEFT = 42, RIGHT = 24, BOTTOM = 34, TOP = 22;
const across = (share) => LEFT + share * (W - LEFT - RIGHT);
const up = (share, most = 1) => TOP + (1 - share / most) * (H - TOP - BOTTOM);

// The round shares from 0 on an axis: at most five, in steps of 1, 2 or 5 times a power of ten, of 1 % or more.
function rounds(most) {
  const ten = 10 ** Math.floor(Math.log10(most / 4)), of_ten = [1, 2, 5].find((one) => one * ten >= most / 4) ?? 10;
  const step = Math.max(of_ten * ten, 0.01);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

function axes(label, below, beside, most, ...inner) {
  const ticks = [
    ...[0, 0.5, 1].map((share) => svg("text", { x: across(share), y: H - 18, "text-anchor": "middle" }, percent(share))),
    ...rounds(most).map((share) => svg("text", { x: LEFT - 5, y: up(share, most) + 4, "text-anchor": "end" }, percent(share))),
  ];
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label },
    svg("path", { class: "axis", d: `M${LEFT},${TOP}V${H - BOTTOM}H${W - RIGHT}` }),
    ticks,
    svg("text", { x: across(0.5), y: H - 3, "text-anchor": "middle" }, below),
    svg("text", { x: 4, y: 12 }, beside),
    ...inner);
}

let tuned = null, baseline = null;

function drawCurve(now) {
  const most = Math.max(0.05, ...tuned.curve.map(([, risk]) => risk));
  const line = tuned.curve.map(([share, risk]) => `${across(share)},${up(risk, most)}`).join(" ");
  const [share, risk] = [now.answered / now.queries, now.answered ? now.wrong / now.answered : 0];
  const label = `Risk over coverage. At the threshold ${percent(share)} of the questions are answered, ${percent(risk, 1)} of these wrongly; answering all, ${percent(tuned.curve.at(-1)?.[1] ?? 0, 1)}.`;
  $("#curve").replaceChildren(
    axes(label, "answered", "wrong among the answered", most,
      svg("polyline", { class: "curve", points: line }),
      now.threshold === null ? "" : svg("circle", { class: "now", cx: across(share), cy: up(risk, most), r: 5 })),
    h("figcaption", {}, "Risk over coverage; the dot is the threshold. What is asked back is not answered."));
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
  const least = thresholds().find((one) => one.threshold !== null);
  $("#least").textContent = least
    ? `The least that these ${count(now.queries, "label")} allow: ${percent(least.risk)}, which answers ${least.answered} of them.`
    : `These ${count(now.queries, "label")} allow no share up to ${percent(thresholds().at(-1).risk)}: give more, or improve what is found.`;
  $("#save").disabled = now.threshold === null;
  drawCurve(now);
  const flips = tuned.rows.filter((row) => isAnswered(row, now.threshold) !== isAnswered(row, baseline.threshold));
  const rows = flips.map((row) =>
    [row.question, percent(row.confidence), isAnswered(row, now.threshold) ? "now answered" : "no longer answered", verdict(row)]);
  $("#flips").replaceChildren(
    h("h3", {}, `${count(flips.length, "decision")} change${flips.length === 1 ? "s" : ""}`),
    h("p", { class: "dim" }, `Compared with ${baseline.name}.`),
    rows.length ? table("Decisions that change", ["Question", "Confidence", "Decision", "Its answer"], rows.slice(0, 100)) : "");
  const answered = tuned.rows.filter((row) => isAnswered(row, now.threshold));
  const wrong = answered.filter((row) => !row.right).map((row) => [row.question, percent(row.confidence), verdict(row)]);
  $("#rows").replaceChildren(
    h("h3", {}, `${now.answered} of ${count(now.queries, "question")} answered, ${now.wrong} wrongly`),
    wrong.length ? table("Answered wrongly", ["Question", "Confidence", "Its answer"], wrong.slice(0, 100)) : "",
    h("details", {}, h("summary", {}, "All answered"),
      table("Answered", ["Question", "Confidence", "Its answer"], answered.slice(0, 500).map((row) => [row.question, percent(row.confidence), verdict(row)]))));
}

function showTuned(found) {
  tuned = found;
  const gate = facts?.gate;
  $("#promise").value = gate && gate.delta !== null ? "risks" : "wrongs";
  const start = gate ? thresholds().findIndex((one) => Math.abs(one.risk - gate.risk) < 1e-9) : -1;
  const usual = Math.max(9, thresholds().findIndex((one) => one.threshold !== null)); // 10 %, if labels allow that
  $("#risk").max = thresholds().length - 1;
  $("#risk").value = start < 0 ? usual : start;
  const first = thresholds()[usual];
  baseline = gate ? { name: `the saved gate (${promised(gate)})`, threshold: gate.threshold }
    : { name: promised(first), threshold: first.threshold };
  $("#tuned-of").textContent = found.name
    ? `${count(found.questions, "question")} of ${found.name}; an answer may use ${count(found.k, "passage")}.`
    : `${count(found.questions, "question")} made from the passages, a fifth without an answer: a first sentence, or a heading, asks for the rest, which is harder to find than what users ask for. The guarantee holds only for questions like these; for your users' questions, use labelled ones.`;
  $("#doubtful").textContent = found.doubtful.join(" ");
  $("#tuned").hidden = false;
  say($("#saved"), "");
  drawReliability();
  showRisk();
}

function startTune() {
  const section = $("#tune"), form = $("form", section);
  const search = (name, body, labelled = false) => attempt(section, async () => {
    const query = new URLSearchParams({ name, k: form.elements.k.value, labelled });
    say($(".message", section), "Searching …");
    showTuned(await call(`api/tune?${query}`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body }));
    say($(".message", section), "");
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const file = form.elements.table.files[0];
    if (!file) say($(".message", section), "Choose a file of labelled questions first.", true);
    else if (facts && file.size > facts.largest_table) {
      say($(".message", section), `${file.name} has ${megabytes(file.size)}; a table of questions may have ${megabytes(facts.largest_table)}. Give fewer questions: a few thousand are plenty.`, true);
    } else search(file.name, file);
  });
  form.elements.made.addEventListener("click", () => search("", ""));
  form.elements.labelled.addEventListener("click", () => search(labels.file, "", true));
  $("#risk").addEventListener("input", showRisk);
  $("#promise").addEventListener("change", showRisk);
  $("#save").addEventListener("click", async () => {
    try {
      const share = thresholds()[$("#risk").valueAsNumber].risk;
      const saved = await post("api/gate", $("#promise").value === "wrongs" ? { max_wrong: share } : { max_risk: share });
      await showFacts();
      baseline = { name: `the saved gate (${promised(saved)})`, threshold: saved.threshold };
      showRisk();
      say($("#saved"), `Saved as ${saved.file}: from now on, a question is answered if its confidence is above ${percent(saved.threshold, 1)}, also by uec-rag ask, serve and mcp with this index.`);
    } catch (error) {
      say($("#saved"), error.message, true);
    }
  });
}

// ---- Index ----------------------------------------------------------------------------------------

let facts = null;
// A path may be broken after its folders.
const fileLink = (file) => h("a", { href: to("index", { id: file.id }) }, file.source.split(/(?<=[/])/).map((part) => [part, h("wbr")]).flat());

async function showFacts() {
  facts = await call("api/index");
  $("#name").textContent = facts.name;
  document.title = `${facts.name} – uec-rag explore`;
  const gate = facts.gate, language = h("span", {}, "Looking …");
  const rows = {
    Passages: facts.passages.toLocaleString("en"),
    "Stored in": facts.exact ? "memory and the index's folder, searched exactly" : `${facts.store}, searched approximately`,
    Encoders: facts.encoders.map((one) => `${one.name} (weight ${one.weight.toFixed(2)})`).join(", "),
    Language: language,
    Confidence: facts.report,
    Gate: !gate ? "none saved" : `${promised(gate)}: confidence above ${percent(gate.threshold, 1)}, for ${count(gate.k, "passage")}${gate.fits ? "" : ". It was made with another index, or before this one changed: make it again"}`,
  };
  $("#facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  const some = facts.passages_counted < facts.passages ? ` of the first ${count(facts.passages_counted, "passage")}` : "";
  const listed = facts.sources.length < facts.sources_counted ? `, of which ${facts.sources.length} are listed` : "";
  $("#sources").replaceChildren(table(`${count(facts.sources_counted, "source")}${some}${listed}`, ["Name", "Passages"],
    facts.sources.map((file) => [fileLink(file), file.passages.toLocaleString("en")])));
  showWelcome();
  call("api/writing").then((found) => { language.textContent = languages(found); }, (error) => { language.textContent = error.message; });
}

function languages(found) {
  const unknown = found.languages.filter((one) => found.fitted_on.length && !found.fitted_on.includes(one));
  const familiar = found.strange ?? (unknown.length ? `the fit knows no ${unknown.join(", ")}, and its encoders tell the passages apart`
    : found.fitted_on.length ? "as in the pairs that the ensemble was fitted on" : "the ensemble is not fitted, so it cannot be told whether it knows this language");
  return found.languages.length ? `${found.languages.join(", ")}: ${familiar}` : "nothing is written yet";
}

async function showIndex(given) {
  const section = $("#index"), id = given.get("id");
  $("#file").replaceChildren();
  await attempt(section, async () => {
    if (!id) return showFacts();
    const found = await call(`api/file?${given}`);
    const pages = [[found.start - found.at_once, "Previous"], [found.start + found.at_once, "Next"]];
    const last = Math.min(found.start + found.at_once, found.total);
    $("#file").replaceChildren(
      h("h3", {}, found.source, dim(` passages ${found.start + 1} to ${last} of ${found.total}`)),
      h("ol", { class: "hits" }, found.passages.map((one) =>
        h("li", one.id === id ? { class: "current" } : {},
          h("h4", {}, one.title || one.id, " ", dim(one.place)), passage(one), h("p", { class: "dim" }, `id ${one.id}`)))),
      h("p", {}, pages.filter(([start]) => start >= 0 && start < found.total).map(([start, text]) =>
        [h("a", { href: to("index", { id, start }) }, text), " "])));
    $(".current", $("#file"))?.scrollIntoView({ block: "center" });
  });
}

// ---- Start ----------------------------------------------------------------------------------------

addEventListener("hashchange", show);
startTheme();
startAsk();
startTune();

(async () => {
  asked = await call("api/asked");
  showHistory();
  show();
  await showFacts();
  await showLabels();
})().catch((error) => say($(".message", $("section.current")), error.message, true));
