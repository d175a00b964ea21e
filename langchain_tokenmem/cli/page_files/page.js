"use strict";
// All text goes through textContent: nothing of a conversation is ever read as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en-US");
const PREVIEW = 900;
const ROLES = { human: "user", ai: "model", tool: "tool", system: "system" };
const requests = [];
data.calls.forEach((call, n) => {
  requests.push([...(n ? requests[n - 1].slice(0, call.keep) : []), ...call.add]);
});
let current = -1;
let cameFrom = null;

function made(tag, fields = {}, ...children) {
  const one = Object.assign(document.createElement(tag), fields);
  one.append(...children);
  return one;
}

function shape(tag, attributes, parent) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  parent.append(one);
  return one;
}

// --- long texts open on demand

function textBox(text) {
  const box = made("pre", { dir: "auto", textContent: text.slice(0, PREVIEW) });
  if (text.length <= PREVIEW) return [box];
  const label = () => (box.dataset.open ? "Show less" : `Show all ${number(text.length)} characters`);
  const more = made("button", { className: "more", textContent: label() });
  more.onclick = () => {
    box.dataset.open = box.dataset.open ? "" : "1";
    box.textContent = box.dataset.open ? text : text.slice(0, PREVIEW);
    more.textContent = label();
  };
  return [box, more];
}

function heading(name, ...details) {
  const rest = details.filter(Boolean).map((one) => made("small", { textContent: one }));
  return made("h3", {}, made("b", { textContent: name }), ...rest);
}

// --- jumps

function jump(target, from) {
  if (!target) return;
  target.classList.remove("away");
  target.scrollIntoView({ block: "center" });
  flash(target);
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
  if (from) cameFrom = from;
}

function flash(target) {
  document.querySelectorAll(".flash").forEach((one) => one.classList.remove("flash"));
  target.classList.add("flash");
}

const messageAt = (place) => at(`m${place + 1}`);

// --- the request

function summaryBox(item) {
  const box = made("pre", { dir: "auto" });
  for (const [text, places] of item.lines) {
    const line = made("span", { className: "line" });
    if (places.length) {
      const button = made("button", { textContent: text, title: `From message ${places.map((p) => `#${p + 1}`).join(", ")}` });
      button.onclick = () => jump(messageAt(places[0]), line);
      line.append(button);
      line.dataset.places = ` ${places.join(" ")} `;
    } else {
      line.append(text);
    }
    box.append(line);
  }
  return [box];
}

function requestItem(item) {
  const text = item.text === null ? data.messages[item.place].text : item.text;
  const name = { summary: "summary", memory: "memory", call: "tool call" }[item.kind] || ROLES[item.role] || item.role;
  const head = heading(name, `${number(item.tokens)} tokens`);
  const box = made("article", { className: "message" }, head);
  Object.assign(box.dataset, { kind: item.kind, role: item.role });
  box.append(...(item.kind === "summary" ? summaryBox(item) : textBox(text)));
  for (const [place, score] of item.from) {
    const textContent = `from #${place + 1}${score === null ? "" : `, score ${score}`}`;
    const go = made("button", { className: "place", textContent });
    go.onclick = () => jump(messageAt(place), box);
    head.append(go);
  }
  if (item.place !== null) {
    const whole = item.is_cut ? data.messages[item.place].text : null;
    if (whole !== null) {
      head.append(made("span", { className: "tag", textContent: "shortened" }));
      const open = made("button", { className: "more opens", textContent: `Full text, ${number(whole.length)} characters` });
      open.onclick = () => {
        open.remove();
        box.append(made("pre", { className: "full", dir: "auto", textContent: whole }));
      };
      box.append(open);
    }
    const go = made("button", { className: "place", textContent: `#${item.place + 1}`, title: "In the transcript" });
    go.onclick = () => jump(messageAt(item.place), box);
    head.firstChild.after(go);
  }
  return box;
}

// --- one call

function select(index) {
  index = Math.max(0, Math.min(data.calls.length - 1, index));
  if (index === current) return;
  current = index;
  const call = data.calls[index];
  at("slider").value = index + 1;
  at("slider").setAttribute("aria-valuetext", `Call ${index + 1} of ${data.calls.length}`);
  const next = call.is_next ? ", which would come next" : "";
  at("name").textContent = `Call ${index + 1} of ${data.calls.length}${next}: ${number(call.tokens)} of ${number(call.limit)} tokens`;
  const saved = call.whole > call.tokens ? ` Everything would be ${number(call.whole)} tokens.` : " Nothing is hidden.";
  at("why").textContent = `Changed before it: ${call.change || "nothing, only new messages"}.${saved}`;
  const paid = `${number(call.paid)} so far, ${number(call.whole_paid)} if everything were sent`;
  at("price").textContent = `Price: ${number(call.price)} tokens (${number(call.cached)} of the request are cached); ${paid}.`;
  at("warnings").replaceChildren(...call.warnings.map((one) => made("li", { textContent: one })));
  const levels = Object.entries(data.levels).map(([name, tokens]) => `${name} ${number(tokens)}`).join(", ");
  at("legend").replaceChildren(...data.parts.flatMap((name, n) => call.parts[n]
    ? [made("li", {}, made("i", { className: `p-${name}` }), `${name.replace("_", " ")} ${number(call.parts[n])}`)]
    : []), made("li", {}, made("i", { className: "cached" }), `cached prefix ${number(call.cached)}`),
  made("li", {}, made("i", { className: "window" }), `window ${number(data.window)}`),
  made("li", {}, made("i", { className: "limit" }), `limit ${number(call.limit)}`),
  made("li", {}, made("i", { className: "level" }), levels));
  const title = made("h2", { textContent: "The request as the model gets it" });
  at("request").replaceChildren(title, ...requests[index].map(requestItem));
  markHidden(call, requests[index]);
  drawCursor();
}

function markHidden(call, items) {
  const shown = new Map(items.filter((one) => one.place !== null).map((one) => [one.place, one.is_cut]));
  const told = new Set(items.flatMap((one) => one.lines.flatMap(([, places]) => places)));
  data.messages.forEach((_, place) => {
    const box = messageAt(place);
    const entry = call.summarized.find((one) => one.first <= place && place <= one.last);
    let status = "shown";
    if (place >= call.length) status = "later";
    else if (shown.get(place)) status = "shortened";
    else if (!shown.has(place)) status = entry ? "summarized" : "left out";
    box.dataset.status = status;
    box.classList.toggle("hidden", status === "summarized" || status === "left out");
    const tag = box.querySelector(".tag");
    tag.textContent = status;
    tag.disabled = status !== "summarized" && !told.has(place);
  });
  filter();
}

function toLine(place) {
  const lines = [...document.querySelectorAll(".line[data-places]")];
  const own = lines.find((one) => one.dataset.places.includes(` ${place} `));
  const near = own || at("request").querySelector("[data-kind=summary]");
  jump(near, messageAt(place));
}

// --- transcript

data.messages.forEach((message, place) => {
  const name = ROLES[message.role] || message.role;
  const tag = made("button", { className: "tag" });
  tag.onclick = () => toLine(place);
  const head = heading(name, `#${place + 1}`, `${number(message.tokens)} tokens`, message.time || "");
  head.append(tag);
  const box = made("article", { className: "message", id: `m${place + 1}` }, head, ...textBox(message.text));
  box.dataset.role = message.role;
  at("transcript").append(box);
});

function filter() {
  const words = at("find").value.toLowerCase();
  const only = at("only").checked;
  let left = 0;
  data.messages.forEach((message, place) => {
    const box = messageAt(place);
    const fits = (!words || message.text.toLowerCase().includes(words)) && (!only || box.classList.contains("hidden"));
    box.classList.toggle("away", !fits);
    left += fits;
  });
  at("found").textContent = words || only ? `${number(left)} of ${number(data.messages.length)} messages` : "";
}

// --- chart

const HEIGHT = 210;
const TOP = 16;
const LEFT = 46;
const LABEL = 11;
let drawn = null;

function draw() {
  const width = Math.max(280, at("chart").clientWidth);
  const count = data.calls.length;
  const step = (width - LEFT) / count;
  const most = Math.max(data.window, ...data.calls.map((one) => one.tokens)) * 1.04;
  const y = (tokens) => HEIGHT - 18 - (tokens / most) * (HEIGHT - 18 - TOP);
  const svg = shape("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": "Tokens per call by part, against the limit" }, made("div"));
  const below = data.calls.map(() => 0);
  data.parts.forEach((name, n) => {
    let up = "";
    let back = "";
    data.calls.forEach((call, c) => {
      const [x1, x2] = [LEFT + c * step, LEFT + (c + 1) * step].map((x) => x.toFixed(1));
      const low = y(below[c]).toFixed(1);
      below[c] += call.parts[n];
      const high = y(below[c]).toFixed(1);
      up += `${c ? "L" : "M"}${x1} ${high}L${x2} ${high}`;
      back = `L${x2} ${low}L${x1} ${low}${back}`;
    });
    shape("path", { d: `${up}${back}Z`, class: `p-${name}` }, svg);
  });
  let cached = "";
  data.calls.forEach((call, c) => {
    const [x1, x2] = [LEFT + c * step, LEFT + (c + 1) * step].map((x) => x.toFixed(1));
    cached += `M${x1} ${y(0)}V${y(call.cached).toFixed(1)}H${x2}V${y(0)}Z`;
  });
  shape("path", { class: "cached", d: cached }, svg);
  for (const tokens of Object.values(data.levels)) {
    shape("path", { class: "level", d: `M${LEFT} ${y(tokens)}H${width}` }, svg);
  }
  shape("path", { class: "grid", d: `M${LEFT} ${y(0)}H${width}` }, svg);
  const limit = data.calls[count - 1].limit;
  shape("path", { class: "limit", d: `M${LEFT} ${y(limit)}H${width}` }, svg);
  shape("path", { class: "window", d: `M${LEFT} ${y(data.window)}H${width}` }, svg);
  // Labels from the top; one that would run into the label above it is in the legend only.
  let above = -Infinity;
  for (const tokens of [data.window, limit, data.levels.summarize, data.levels.compact, data.levels.target, 0]) {
    if (y(tokens) - above < LABEL && tokens) continue;
    above = y(tokens);
    shape("text", { x: LEFT - 4, y: above + 4, "text-anchor": "end" }, svg).textContent = number(tokens);
  }
  shape("text", { x: LEFT, y: HEIGHT - 4 }, svg).textContent = "call 1";
  shape("text", { x: width, y: HEIGHT - 4, "text-anchor": "end" }, svg).textContent = `call ${count}`;
  data.calls.forEach((call, c) => {
    if (!call.change) return;
    const x = LEFT + (c + 0.5) * step;
    const mark = shape("path", { class: "changed", d: `M${x - 4} 2h8l-4 8z` }, svg);
    shape("title", {}, mark).textContent = `Call ${c + 1}: ${call.change}`;
  });
  const here = shape("rect", { class: "here", y: 1, height: HEIGHT - 20, width: Math.max(3, step) }, svg);
  svg.onclick = (event) => select(Math.floor((event.clientX - svg.getBoundingClientRect().left - LEFT) / step));
  at("chart").replaceChildren(svg);
  drawn = { here, step };
}

function drawCursor() {
  if (drawn) drawn.here.setAttribute("x", LEFT + current * drawn.step);
}

// --- keys

function nextChange() {
  const rest = [...data.calls.keys()].map((n) => (current + 1 + n) % data.calls.length);
  return rest.find((n) => data.calls[n].change) ?? current;
}

const KEYS = {
  ArrowLeft: () => select(current - 1),
  ArrowRight: () => select(current + 1),
  Home: () => select(0),
  End: () => select(data.calls.length - 1),
  n: () => select(nextChange()),
  b: () => jump(cameFrom),
  "/": () => at("find").focus(),
};
document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

at("about").textContent = data.about;
at("slider").max = data.calls.length;
at("slider").oninput = () => select(Number(at("slider").value) - 1);
at("back").onclick = () => select(current - 1);
at("on").onclick = () => select(current + 1);
at("find").oninput = filter;
at("only").onchange = filter;
if (data.calls.length) {
  draw();
  window.addEventListener("resize", () => { draw(); drawCursor(); });
  select(data.calls.length - 1);
}
if (/^#m\d+$/.test(location.hash)) jump(document.querySelector(location.hash));
