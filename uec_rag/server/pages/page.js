"use strict";
// A client of the HTTP API. Whatever comes from the index is put into the page as text.

const $ = (selector, inside = document) => inside.querySelector(selector);
const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
const fixed = (value, digits = 3) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const count = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

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
    throw new Error("The server does not answer. Does it still run in the terminal?");
  }
  if (answer.status === 401) {
    if (token === brought) token = prompt("The server's token");
    if (token) {
      sessionStorage.setItem("token", token);
      return call(path, options);
    }
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.detail ?? `The server refused this (${answer.status} ${answer.statusText}).`);
  return body;
}
const send = (method, path, body) =>
  call(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
const post = (path, body) => send("POST", path, body);

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
  if (view === "index") attempt($("#index"), showFacts);
  if (view === "tune" && facts) attempt($("#tune"), showLabels); // others may have labelled meanwhile
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

const LONG = 1500, MOST = 20000; // characters that are shown at once, and at all
const PLACES = ["page", "slide", "sheet"];
const where = ({ metadata, id }) =>
  [metadata.source ?? id, ...PLACES.filter((name) => name in metadata).map((name) => `${name} ${metadata[name]}`)].join(", ");

const sectionOf = (hit) => JSON.stringify([hit.metadata.title || hit.id, where(hit)]);

// A text with the words of the question marked: whole ones, also with another ending, if there are blanks between words.
const UNSPACED = /[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}]/u, ENDING = /(?<=.{3})(?:ies|es|ed|ing|s|e|y)$/u;
function pattern(word) {
  const exact = word.replace(/[\^$.*+?()[\]{}|/\\]/g, "\\$&");
  return UNSPACED.test(word) ? exact : `(?<![\\p{L}\\p{N}])${exact.replace(ENDING, "")}\\p{L}{0,3}(?![\\p{L}\\p{N}])`;
}
function marked(text, words) {
  if (!words.length) return [text];
  const any = new RegExp(`(${words.map(pattern).join("|")})`, "giu");
  return text.split(any).map((part, at) => (at % 2 ? h("mark", {}, part) : part));
}

// Markdown as nodes. What may be none (a star beside a blank or in a word, an underscore) is left as it is; a link is its text.
const INLINE = /(`{1,2})([^`]{1,500})\1|\*\*(?!\s)([^*]{1,500})(?<!\s)\*\*|!?\[([^[\]]{1,500})\]\(([^()\s]{1,1000})\)|(?<![\w*/.])\*(?! )([^*\n]{1,500})(?<! )\*(?![\w*/.])/g;
function inline(text, words) {
  const nodes = [];
  let at = 0;
  for (const { 0: whole, 2: code, 3: bold, 4: link, 5: title, 6: slanted, index } of text.matchAll(INLINE)) {
    const tag = code ? "code" : bold ? "b" : slanted ? "i" : "span";
    const inside = code ? marked(code, words) : inline(bold ?? link ?? slanted, words);
    nodes.push(...marked(text.slice(at, index), words), h(tag, link ? { title } : {}, inside));
    at = index + whole.length;
  }
  return [...nodes, ...marked(text.slice(at), words)];
}
const FENCE = /^ {0,3}(?:```|~~~).*$/m, BLOCKS = /^( {0,3}(?:```|~~~).*(?:\n(?! {0,3}(?:```|~~~)).*)*(?:\n.*)?|(?:\|.*\|[ \t]*(?:\n|$))+)/m;
// The end of a long line that goes on below: not before a list, a heading, code or a row's first "name: value".
const WRAPPED = /(?<=[^\n]{60})\n {0,3}(?=\S)(?![-*+•>|#]|\d+[.)] |[^:\n]{1,40}: )/g;
const cells = (row) => row.trim().slice(1, -1).split("|").map((cell) => cell.trim());
function markdown(text, words) {
  return text.split(BLOCKS).map((block, at) => {
    if (at % 2 === 0) {
      const shaped = block.replace(WRAPPED, " ").replace(/^#{1,6} +(.*)$/gm, "**$1**").replace(/^([ \t]*)[-*+] /gm, "$1• ");
      return shaped.trim() ? h("p", {}, inline(shaped.replace(/^\n+|\n+$/g, ""), words)) : "";
    }
    if (FENCE.test(block)) return h("pre", {}, marked(block.split("\n").filter((line) => !FENCE.test(line)).join("\n"), words));
    const rows = block.trim().split("\n").filter((row) => !/^[\s|:-]+$/.test(row));
    return scrolling("Table", h("table", {}, h("tbody", {}, rows.map((row, nth) =>
      h("tr", {}, cells(row).map((cell) => h(nth ? "td" : "th", {}, inline(cell, words))))))));
  });
}

// The beginning of a text, and the rest on demand; its title is shown above it.
function passage(hit) {
  const title = `${hit.metadata.title}\n\n`, whole = hit.text, start = whole.slice(0, LONG).indexOf(title);
  const body = start < 0 ? whole : whole.slice(start + title.length); // headings come first, the title last
  const end = body.length > LONG ? Math.max(body.lastIndexOf("\n", LONG), body.lastIndexOf(" ", LONG), 1) : LONG;
  const fences = body.slice(0, end).split("\n").filter((line) => FENCE.test(line)).length;
  const rest = (fences % 2 ? "```\n" : "") + body.slice(end, MOST), words = hit.matched_terms ?? [];
  const cut = body.length > MOST ? dim(` Of ${count(body.length, "character")} these are the first.`) : "";
  return h("div", { class: "text" }, markdown(body.slice(0, end), words),
    body.length > end ? h("details", {}, h("summary", {}, "The rest of this passage"), markdown(rest, words), cut) : "");
}

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

const DO = { answer: "Answer", clarify: "Ask back", abstain: "Nothing near", uncertain: "Not certain" };
const level = (found) => (found.reason_code === "uncertain" ? "uncertain" : found.decision);
const badge = (decision) => h("span", { class: `badge ${decision}` }, DO[decision]);
let asked = JSON.parse(sessionStorage.getItem("asked") ?? "[]"); // in this tab, the last first
let latest = 0;

// The address of a question; a reading that was chosen narrows it down.
const asking = (question, k, reading = null) => to("ask", [["q", question], ["k", k],
  ...(reading ? [["title", reading.title], ...reading.ids.map((id) => ["id", id])] : [])]);

function remember(question, decision) {
  asked = [{ question, decision }, ...asked.filter((one) => one.question !== question)].slice(0, 100);
  sessionStorage.setItem("asked", JSON.stringify(asked));
}

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
let labels = {}, marks = [];
function showMarks(question) {
  const ids = labels[question];
  for (const [button, id] of marks)
    button.setAttribute("aria-pressed", ids !== undefined && (id === null ? ids.length === 0 : ids.includes(id)));
}

function mark(text, question, id) {
  const button = h("button", { type: "button", class: "small", onclick: async () => {
    const holds = button.getAttribute("aria-pressed") !== "true", place = $(".message", $("#ask"));
    const others = (labels[question] ?? []).filter((one) => one !== id);
    const relevant_ids = id === null ? (holds ? [] : null) : holds ? [...others, id] : others.length ? others : null;
    try {
      if (relevant_ids === null) await call(`labels?${new URLSearchParams({ question })}`, { method: "DELETE" });
      else await post("labels", { question, relevant_ids });
      await showLabels();
      showMarks(question);
      say(place, `${count(Object.keys(labels).length, "question")} labelled.`, false, true);
    } catch (error) {
      say(place, error.message, true);
    }
  } }, text);
  marks.push([button, id]);
  return button;
}

let teaching = null; // the questions that teach most, once they were asked for
const questions = () => asked.map((one) => one.question);
async function showLabels() {
  if (!facts.write) return;
  labels = await call("labels");
  const all = Object.values(labels), none = all.filter((ids) => !ids.length).length;
  const some = all.length ? `: ${count(all.length, "question")}, ${none} without an answer` : "";
  // What the page shows beside it, examples to begin with or what was asked, is not listed again.
  const beside = [...questions(), ...(isAsked() ? [] : facts.examples)];
  const next = (teaching ?? facts.examples.filter((one) => !beside.includes(one))).filter((one) => !(one in labels)).slice(0, 6);
  showNeeds(all.length);
  showHistory();
  $("#labels").replaceChildren(
    h("h3", {}, "Labels"),
    h("p", {}, `“Answers” and “Nothing answers” label a question${some}. A hundred make a gate, in `,
      h("a", { href: "#tune" }, "Tune"), "."),
    next.length ? h("p", { class: "dim" }, teaching ? "These teach most:" : "To label next, in your users' words:") : "",
    h("ul", {}, next.map((one) => h("li", {}, h("a", { href: asking(one, 4) }, one)))),
    h("button", { type: "button", class: "small", id: "teach", onclick: () => attempt($("#ask"), async () => {
      teaching = (await post("questions", { questions: questions() })).map((one) => one.question);
      await showLabels();
    }) }, "Find what teaches most"));
}

function showHit(hit, rank, low, high, question, isCandidate, before) {
  const members = Object.entries(hit.encoders).map(([name, own]) =>
    [name, fixed(own.similarity), own.rank === null ? "–" : String(own.rank), percent(own.share)]);
  return h("li", {},
    h("h3", {}, `${rank + 1}. `, hit.metadata.title || where(hit), " ", dim(hit.metadata.title ? where(hit) : ""),
      before < 0 ? "" : dim(` – more of ${before + 1}`), isCandidate ? dim(" – may be meant") : ""),
    passage(hit),
    question ? mark("Answers", question, hit.id) : "",
    h("details", { class: "numbers" },
      h("summary", {}, "relevant ", h("b", { class: "relevance" }, percent(hit.relevance)), " · score ",
        h("b", { class: "score" }, fixed(hit.score))),
      spread(hit, low, high),
      h("p", { class: "dim" }, `Mean ${fixed(hit.mu)}, two standard deviations ${fixed(2 * hit.sigma)}.`),
      members.length ? table("What each encoder says", ["Encoder", "Similarity", "Rank", "Share of the score"], members) : "",
      h("p", { class: "dim" }, `id ${hit.id}`)));
}

function showAnswer(found, question, k, title) {
  for (const hit of found.passages) hit.sigma = Math.sqrt(hit.sigma2);
  const shares = Object.entries(found.weights).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
  const low = Math.min(...found.passages.map((hit) => Math.min(hit.mu - 2 * hit.sigma, hit.score)));
  const high = Math.max(...found.passages.map((hit) => Math.max(hit.mu + 2 * hit.sigma, hit.score)));
  const labelled = !title && facts?.write ? question : ""; // a label is of all passages
  marks = [];
  $("#answer").replaceChildren(
    h("div", { class: `decision ${level(found)}` },
      h("h3", { dir: "auto" }, question),
      h("p", {}, h("strong", {}, DO[level(found)]), " ", h("span", { lang: found.language, dir: "auto" }, found.clarifying_question.split("\n")[0] || found.reason)),
      found.readings.length ? h("ul", { class: found.clarifying_question.includes("\n") ? "choices rows" : "choices", "aria-label": "Ask again among" }, found.readings.map((reading) =>
        h("li", {}, h("a", { href: asking(question, k, reading) }, reading.title, dim(` ${percent(reading.probability)}`))))) : "",
      title ? h("p", {}, "Asked among the passages of ", h("b", {}, title), ". ", h("a", { href: asking(question, k) }, "Ask among all")) : "",
      h("p", { class: "dim" }, "Confidence ", h("b", { id: "confidence" }, percent(found.confidence)),
        found.threshold === null ? ", no threshold" : `, threshold ${percent(found.threshold)}`,
        `; the documents have an answer with probability ${percent(found.in_corpus)}.`),
      found.why.length ? h("details", { id: "why" }, h("summary", {}, "Why"),
        h("p", { class: "dim" }, "What each adds to the log odds that the documents have an answer:"),
        h("ul", {}, found.why.map((line) => h("li", { dir: "auto" }, line)))) : "",
      h("p", { class: "dim" }, `Weights: ${shares}.${found.exact ? "" : " The store is searched approximately."}`),
      labelled ? mark("Nothing answers", labelled, null) : ""),
    h("ol", { class: "hits" }, found.passages.map((hit, rank) =>
      showHit(hit, rank, low, high, labelled, found.candidates.includes(hit.id), found.passages.slice(0, rank).findIndex((one) => sectionOf(one) === sectionOf(hit))))),
    found.passages.length ? h("p", { class: "dim", id: "legend" }, "In a passage's numbers: dot, the mean similarity; line, two standard deviations to either side; red, the score, lowered where the similarity is uncertain.") : "");
  showMarks(labelled);
}

const isAsked = () => new URLSearchParams(location.hash.split("?")[1]).has("q");
function showWelcome() {
  if (!facts || isAsked()) return;
  $("#answer").replaceChildren(
    h("h3", {}, facts.examples.length ? "To begin with" : ""),
    h("ul", { class: "choices" }, facts.examples.map((example) => h("li", {}, h("a", { href: asking(example, 4) }, example)))));
}

function showHistory() {
  const items = asked.slice(0, 20).map(({ question, decision }) =>
    h("li", {}, h("a", { href: asking(question, 4) }, question), " ", badge(decision),
      question in labels ? dim(" labelled") : ""));
  $("#history").replaceChildren(...(items.length ? [h("h3", {}, "Asked before"), h("ul", {}, items)] : []));
}

async function showAsk(given) {
  const section = $("#ask"), form = $("form", section), question = given.get("q") ?? "";
  const k = Number(given.get("k") ?? 4), title = given.get("title");
  const mine = ++latest;
  $('nav a[data-view="ask"]').href = location.hash.startsWith("#ask") ? location.hash : "#ask";
  form.elements.question.value = question;
  if (!question) {
    showWelcome();
    form.elements.question.focus();
    if (facts) await attempt(section, showLabels);
    return;
  }
  form.elements.k.value = k;
  await attempt(section, async () => {
    const found = await post("ask", { question, k, within: given.has("id") ? given.getAll("id") : null });
    if (mine !== latest) return;
    if (!title) remember(question, level(found));
    showAnswer(found, question, k, title);
    say($(".message", section), `${DO[level(found)]}: ${count(found.passages.length, "passage")} found.`, false, true);
    if (facts?.write) await showLabels();
    else showHistory();
  });
}

function startAsk() {
  const form = $("#ask form"), { question, k } = form.elements;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = asking(question.value.trim(), k.value);
    if (location.hash === wanted) show();
    else location.hash = wanted;
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

let tuned = null; // what was found for the labelled questions

const ENOUGH = 100; // labels
function showNeeds(given) {
  $("#tune form").hidden = !given;
  $("#needs").hidden = given >= ENOUGH;
  $("#given").textContent = given
    ? `${count(given, "question")} labelled, of about ${ENOUGH}. Search them to see what they allow so far.`
    : `This needs about ${ENOUGH} labelled questions. There are none yet.`;
  $("#threshold").textContent = facts.gate
    ? `The saved gate decides: ${promised(facts.gate)}.` : "Without a gate, confidence above 50 % is answered, and nothing is guaranteed.";
}

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

const verdict = (row) => h("span", { class: "wrong" }, row.answerable ? "wrong" : "wrong: nothing answers it");

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
  const answered = tuned.rows.filter((row) => now.threshold !== null && !row.asked_back && row.confidence > now.threshold);
  const wrong = answered.filter((row) => !row.right).map((row) => [row.question, percent(row.confidence), verdict(row)]);
  $("#rows").replaceChildren(
    h("h3", {}, `${now.answered} of ${count(now.queries, "question")} answered, ${now.wrong} wrongly`),
    wrong.length ? table("Answered wrongly", ["Question", "Confidence", "Its answer"], wrong.slice(0, 100)) : "");
}

function showTuned(found) {
  tuned = found;
  const gate = facts?.gate;
  $("#promise").value = gate && gate.delta !== null ? "risks" : "wrongs";
  const start = gate ? thresholds().findIndex((one) => Math.abs(one.risk - gate.risk) < 1e-9) : -1;
  const usual = Math.max(9, thresholds().findIndex((one) => one.threshold !== null)); // 10 %, if labels allow that
  $("#risk").max = thresholds().length - 1;
  $("#risk").value = start < 0 ? usual : start;
  $("#tuned-of").textContent = `${count(found.questions, "labelled question")}; an answer may use ${count(found.k, "passage")}.`;
  $("#tuned").hidden = false;
  say($("#saved"), "");
  drawReliability();
  showRisk();
}

function startTune() {
  const section = $("#tune"), form = $("form", section);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(section, async () => {
      say($(".message", section), "Searching …");
      showTuned(await post("report", { k: form.elements.k.valueAsNumber }));
      say($(".message", section), "");
    });
  });
  $("#risk").addEventListener("input", showRisk);
  $("#promise").addEventListener("change", showRisk);
  $("#save").addEventListener("click", async () => {
    try {
      const share = thresholds()[$("#risk").valueAsNumber].risk;
      const saved = await post("gate", { k: tuned.k, [$("#promise").value === "wrongs" ? "max_wrong" : "max_risk"]: share });
      await showFacts();
      say($("#saved"), `Saved: from now on, a question is answered if its confidence is above ${percent(saved.threshold, 1)}, also by uec-rag ask, serve and mcp with this index.`);
    } catch (error) {
      say($("#saved"), error.message, true);
    }
  });
}

// ---- Index ----------------------------------------------------------------------------------------

let facts = null;
async function showFacts() {
  facts = await call("index");
  $("#name").textContent = facts.name;
  document.title = `${facts.name} – uec-rag`;
  $('nav a[data-view="tune"]').hidden = !facts.write;
  const gate = facts.gate;
  const rows = {
    Passages: facts.passages?.toLocaleString("en") ?? "not shown",
    "Stored in": facts.exact ? "the index's folder, searched exactly" : "a vector database, searched approximately",
    Encoders: Object.entries(facts.encoders).map(([name, weight]) => `${name} (weight ${weight.toFixed(2)})`).join(", "),
    Confidence: facts.report,
    Gate: !gate ? "none saved" : `${promised(gate)}: confidence above ${percent(gate.threshold, 1)}, for ${count(gate.k, "passage")}${gate.fits ? "" : ". It was made with another index, or before this one changed: make it again"}`,
  };
  $("#facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
  showWelcome();
}

// ---- Start ----------------------------------------------------------------------------------------

addEventListener("hashchange", show);
startTheme();
startAsk();
startTune();

// An answer has buttons by what the server lets a page do, and they show the labels there are.
(async () => {
  showHistory();
  try {
    await showFacts();
    await showLabels();
    show();
  } catch (error) {
    show();
    say($(".message", $("section.current")), error.message, true);
  }
})();
