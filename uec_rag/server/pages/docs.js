"use strict";
// The paths of openapi.json, each with a form that asks the server.

const $ = (selector, inside = document) => inside.querySelector(selector);
function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

let token = "";
function send(path, options = {}) {
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  return fetch(path.slice(1), { ...options, headers });
}

// An example of what a schema describes, from the examples in it.
function example(schema, all) {
  const given = schema.$ref ? all[schema.$ref.split("/").pop()] : schema;
  if (given.examples) return given.examples[0];
  if (given.type === "array") return [example(given.items, all)];
  if (given.type !== "object") return given.type === "string" ? "text" : null;
  const wanted = Object.entries(given.properties ?? {}).filter(([name]) => given.required?.includes(name));
  return Object.fromEntries(wanted.map(([name, inner]) => [name, example(inner, all)]));
}

function operation(method, path, about, all) {
  const schema = about.requestBody?.content["application/json"].schema;
  const query = (about.parameters ?? []).map((one) => `${one.name}=`).join("&");
  const form = h("form", {}), shown = h("pre", { class: "result", role: "status", tabindex: "0" });
  const name = `${method.toUpperCase()} ${path}`;
  if (schema) form.append(h("label", { class: "wide" }, "Body", h("textarea", { name: "body", rows: "6", spellcheck: "false" }, JSON.stringify(example(schema, all), null, 2))));
  if (query) form.append(h("label", { class: "wide" }, "Query", h("input", { name: "query", value: query })));
  form.append(h("button", { "aria-label": `Send ${name}` }, "Send"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const { body, query: asked } = form.elements;
    shown.textContent = "…";
    try {
      const answer = await send(asked ? `${path}?${asked.value}` : path, { method: method.toUpperCase(), body: body?.value });
      const text = await answer.text();
      const isJson = answer.headers.get("Content-Type")?.includes("json");
      shown.textContent = `${answer.status} ${answer.statusText}\n${isJson ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
    } catch (error) {
      shown.textContent = `The server does not answer (${error.message}).`;
    }
  });
  return h("section", { class: "current card" }, h("h2", {}, name), h("p", {}, about.description ?? ""), form, shown);
}

async function show() {
  const answer = await send("/openapi.json");
  $("#access").hidden = answer.status !== 401 && !token;
  const said = answer.status === 401 ? "Give the server's token to try its paths." : answer.ok ? "" : `The server failed (${answer.status}).`;
  $(".message").textContent = said;
  if (said) return;
  const { info, paths, components } = await answer.json();
  $("#version").textContent = info.version;
  $("#paths").replaceChildren(...Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, about]) => operation(method, path, about, components.schemas))));
}

$("#access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = event.target.elements.token.value;
  show();
});
show();
