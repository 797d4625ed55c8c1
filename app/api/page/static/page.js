// What makes the pages live.  The server renders everything; this module asks for what changed and puts it in its place,
// filters and sorts what is there, and sends what people decide.  Text of others becomes text nodes only.

const root = document.documentElement;
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const one = (selector, from = document) => from.querySelector(selector);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** An element; strings among the children become text. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((each) => each !== null));
  return made;
}

const isolated = (text) => element("bdi", {}, String(text));

// ---- Time: by the clock of the server, whatever the clock of this machine says.

let skew = 0;

function setClock(seconds) {
  if (seconds) skew = seconds * 1000 - performance.now();
}

const now = () => performance.now() + skew;

/** As the server words it (site.ago). */
function span(ms) {
  const left = Math.max(0, Math.floor(ms / 1000));
  if (left < 60) return `${left}s`;
  if (left < 3600) return `${Math.floor(left / 60)}m`;
  if (left < 86400) return `${Math.floor(left / 3600)}h ${Math.floor((left % 3600) / 60)}m`;
  return `${Math.floor(left / 86400)}d ${Math.floor((left % 86400) / 3600)}h`;
}

const forms = {
  ago: (at) => `${span(now() - at)} ago`,
  since: (at) => span(now() - at),
  left: (at) => `${span(at - now())} left`,
  clock: (at) => new Date(at).toLocaleTimeString(),
};

const times = document.getElementsByTagName("time");

function tick() {
  for (const each of times) {
    each.at ??= Date.parse(each.dateTime);
    const text = forms[each.dataset.form]?.(each.at);
    if (text && each.firstChild?.data !== text) each.textContent = text;
  }
  showConnection();
}

// ---- How old is what one sees.

const connection = { tone: "calm", words: document.body.dataset.stream ? "connecting…" : "", lostAt: null, gone: "" };
const shapes = { good: "●", warn: "▲", bad: "✕", calm: "○" };

function showConnection() {
  const { words, lostAt, gone } = connection;
  const tone = gone ? "warn" : connection.tone;
  const lost = lostAt === null ? "" : `disconnected for ${span(performance.now() - lostAt)}, trying again`;
  const text = gone || (lost && words ? `${lost}: ${words}` : lost || words);
  const live = one("#live");
  if (live === null || !text || live.dataset.text === text) return;
  Object.assign(live.dataset, { tone, text });
  live.replaceChildren(element("span", { class: "shape", "aria-hidden": "true" }, shapes[tone]), " ", element("span", { class: "words" }, text));
}

function connected(words = "live") {
  Object.assign(connection, { tone: "good", words, lostAt: null });
  showConnection();
}

function disconnected(words) {
  connection.lostAt ??= performance.now();
  Object.assign(connection, { tone: "bad", words });
  showConnection();
}

/** A problem of the API, or what a page says of one, as an error with its words. */
class Refusal extends Error {
  constructor(status, title, detail, wait, errors = []) {
    super(detail || title || `HTTP ${status}`);
    Object.assign(this, { status, title, wait, errors });
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  const wait = Number(answer.headers.get("Retry-After")) || null;
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // Not ours: a proxy in between, perhaps.
  }
  throw new Refusal(answer.status, problem.title, problem.detail, wait, problem.errors);
}

// ---- Pieces of pages: what is fetched takes the place of what is there, where it says something else.

const sources = new Map();
const ignoringTimes = (html) => html.replace(/(<time[^>]*>)[^<]*/g, "$1");
const parser = new DOMParser();

async function fetchPage(url) {
  const headers = { Accept: "application/problem+json, text/html" };
  const answer = await checked(await fetch(url, { headers, cache: "no-store", signal: AbortSignal.timeout(20000) }));
  return parser.parseFromString(await answer.text(), "text/html");
}

/** Puts the pieces of `found` where they belong; the rows in `asked` that are not in it are gone. */
function apply(found, asked = []) {
  setClock(Number(found.body.dataset.now));
  if (found.body.dataset.version !== document.body.dataset.version && !busy(document)) location.reload();
  connection.gone = "";
  const missing = new Set(asked);
  const changes = [];
  for (const next of all("[data-live]", found)) {
    missing.delete(next.dataset.name);
    const current = document.getElementById(next.id);
    const source = ignoringTimes(next.outerHTML);
    if (current === null) {
      if (next.matches("tr")) table?.append(document.adoptNode(next));
      else continue;
    } else {
      if (sources.get(next.id) === source || busy(current)) continue;
      if (next.dataset.state && next.dataset.state !== current.dataset.state) changes.push(next);
      replace(current, next);
    }
    sources.set(next.id, source);
  }
  for (const name of missing) {
    const id = `shoot-${name}`;
    document.getElementById(id)?.remove();
    sources.delete(id);
  }
  announce(changes);
  arrange();
  tick();
}

/** Whether somebody is about to do something there: that is not to be taken from under their hands. */
const busy = (piece) => one("details.action[open]", piece) !== null;

function replace(current, next) {
  const focused = current.contains(document.activeElement) ? path(document.activeElement) : null;
  const keyed = all("details[data-key]", current);
  const open = new Map(keyed.map((each) => [each.dataset.key, each.open]));
  next = document.adoptNode(next);
  for (const each of all("details[data-key]", next)) each.open = open.get(each.dataset.key) ?? each.open;
  current.replaceWith(next);
  if (focused) one(focused, next)?.focus({ preventScroll: true });
}

/** A selector by which the same element is found again after it was made anew. */
function path(found) {
  if (found.id) return `#${CSS.escape(found.id)}`;
  const key = found.closest("[data-key]")?.dataset.key;
  const own = found.getAttribute("href") ? `${found.localName}[href="${CSS.escape(found.getAttribute("href"))}"]` : found.localName;
  return key ? `[data-key="${CSS.escape(key)}"] ${own}` : own;
}

function announce(changes) {
  for (const each of changes) {
    const shown = document.getElementById(each.id);
    shown?.classList.add("changed");
    setTimeout(() => shown?.classList.remove("changed"), 2500);
  }
  if (changes.length === 0) return;
  const told = changes.slice(0, 3).map((each) => `${each.dataset.name} is ${each.dataset.state}`);
  if (changes.length > 3) told.push(`${changes.length - 3} more changed`);
  one("#announce").textContent = told.join("; ");
}

// ---- What is to be asked for again: one request at a time, a second apart at least.

const isList = document.body.dataset.page === "shoots" && one("#shoots") !== null;
const ROWS = 100;
const dirty = { rows: new Set(), page: false };
const fresh = new WeakMap();
let refreshing = false;

function refresh({ rows = [], page = false }) {
  for (const each of rows) dirty.rows.add(each);
  dirty.page ||= page;
  if (!refreshing) void keepFresh();
}

async function keepFresh() {
  refreshing = true;
  await sleep(150); // what belongs together is asked for together
  while ((dirty.page || dirty.rows.size > 0) && !document.hidden) {
    const began = performance.now();
    const whole = dirty.page;
    const rows = [...dirty.rows].slice(0, ROWS);
    try {
      if (whole) {
        dirty.page = false;
        if (isList) dirty.rows.clear();
        apply(await fetchPage(isList ? "/" : location.href), isList ? [...rowNames()] : []);
      } else {
        for (const each of rows) dirty.rows.delete(each);
        const query = new URLSearchParams(rows.map((each) => ["namespace", each]));
        apply(await fetchPage(`/rows?${query}`), rows);
      }
      for (const each of whole ? rowNames() : rows) {
        const row = document.getElementById(`shoot-${each}`);
        if (row) fresh.set(row, performance.now());
      }
    } catch (error) {
      if (error.status === 404 && !isList) {
        connection.gone = `${error.message}; below is the last known state`;
        showConnection();
        break; // it has vanished while one looked at it
      }
      dirty.page ||= whole;
      for (const each of whole ? [] : rows) dirty.rows.add(each);
      if (streaming === null || error.status) disconnected(error.message);
      await sleep(1000 * (error.wait ?? 5));
      continue;
    }
    if (connection.lostAt !== null && streaming === null) connected(pollingWords());
    await sleep(Math.max(0, 1000 - (performance.now() - began)));
  }
  refreshing = false;
}

// ---- The stream of events, with resume after a break.

const SILENCE = 40000; // the server says something every 15 s
const HIDDEN = 20000; // a browser has six connections to a server: a page that nobody sees gives its own back
let streaming = null;

const pollingWords = () => (document.body.dataset.refresh ? `refreshed every ${document.body.dataset.refresh} s` : "live");

async function* eventsOf(stream, heard) {
  const decoder = new TextDecoder();
  let text = "";
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = { name: "", data: "", id: null };
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data += line.slice(6);
        else if (line.startsWith("id: ")) event.id = line.slice(4);
      }
      yield event;
    }
  }
}

async function follow(url) {
  let lastId = document.body.dataset.newest ?? null;
  for (let failures = 0; ; ) {
    await untilSeen();
    const ending = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => ending.abort(new Error("no data for 40 s")), SILENCE);
    };
    heard();
    streaming = ending;
    let wait = null;
    try {
      const headers = { Accept: "text/event-stream, application/problem+json" };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const answer = await checked(await fetch(url, { headers, cache: "no-store", signal: ending.signal }));
      connected();
      failures = 0;
      if (one("#shoots, #why, #operations, #services") === null) location.reload(); // a standby that leads now
      if (lastId === null) refresh({ page: true }); // what happened since this page was made
      for await (const event of eventsOf(answer.body, heard)) {
        lastId = event.id ?? lastId;
        if (event.name === "end") throw new Error(JSON.parse(event.data).reason);
        happened(event);
      }
      throw new Error("the server ended the stream");
    } catch (error) {
      if (document.hidden) {
        connection.words = "paused while hidden";
      } else {
        disconnected(error.status ? error.message : "");
        wait = error.wait;
        if (error.status === 429) {
          wait = 30; // more streams than one caller may have: then as a page without one
          Object.assign(connection, { tone: "warn", words: `refreshed every ${wait} s: ${error.message}`, lostAt: null });
          refresh({ page: true });
        }
      }
    }
    clearTimeout(silence);
    streaming = null;
    failures += 1;
    await sleep(1000 * Math.min(wait ?? Math.min(failures, 5), 30));
  }
}

/** Something changed: what shows it is asked for again. */
let inSnapshot = false;

function happened({ name, data }) {
  if (name === "gap") {
    inSnapshot = true;
    refresh({ page: true });
  } else if (name === "snapshot-end") inSnapshot = false;
  if (!name || inSnapshot || name === "snapshot-end") return;
  const namespace = JSON.parse(data).namespace;
  if (!isList || namespace === null) refresh({ page: true });
  else refresh({ rows: [namespace] });
}

const untilSeen = () =>
  new Promise((resolve) => {
    if (!document.hidden) resolve();
    else document.addEventListener("visibilitychange", resolve, { once: true });
  }).then(() => (document.hidden ? untilSeen() : null));

let leaving;
document.addEventListener("visibilitychange", () => {
  clearTimeout(leaving);
  if (document.hidden) leaving = setTimeout(() => streaming?.abort(new Error("the page is hidden")), HIDDEN);
  else if (dirty.page || dirty.rows.size > 0) refresh({});
});

// ---- The list: search, filter and sort, all of it in the URL.

const table = one("#shoots tbody");
const view = { q: "", states: new Set(), sort: "severity" };
const texts = new WeakMap();
const rowNames = function* () {
  for (const row of table?.rows ?? []) yield row.dataset.name;
};

function readUrl() {
  const query = new URLSearchParams(location.search);
  view.q = query.get("q") ?? "";
  view.states = new Set(query.getAll("state"));
  view.sort = query.get("sort") ?? "severity";
}

function writeUrl() {
  const query = new URLSearchParams();
  if (view.q) query.set("q", view.q);
  for (const each of view.states) query.append("state", each);
  if (view.sort !== "severity") query.set("sort", view.sort);
  history.replaceState(null, "", query.size ? `/?${query}` : "/");
}

function textOf(row) {
  if (!texts.has(row)) texts.set(row, `${row.dataset.name} ${one(".message", row)?.textContent ?? ""}`.toLowerCase());
  return texts.get(row);
}

const byName = (a, b) => (a.dataset.name < b.dataset.name ? -1 : 1);
const orders = {
  severity: (a, b) => a.dataset.rank - b.dataset.rank || byName(a, b),
  since: (a, b) => (a.dataset.since === b.dataset.since ? byName(a, b) : a.dataset.since < b.dataset.since ? 1 : -1),
  name: byName,
};

/** Shows what is wanted in the order that is wanted; moves only what is out of place. */
function arrange() {
  if (!isList) return;
  const wanted = view.q.toLowerCase();
  const rows = [...table.rows];
  let shown = 0;
  for (const row of rows) {
    const hidden = (view.states.size > 0 && !view.states.has(row.dataset.state)) || !textOf(row).includes(wanted);
    if (row.hidden !== hidden) row.hidden = hidden;
    shown += hidden ? 0 : 1;
  }
  const focused = document.activeElement;
  rows.sort(orders[view.sort] ?? orders.severity).forEach((row, at) => {
    if (table.rows[at] !== row) table.insertBefore(row, table.rows[at] ?? null);
  });
  if (document.activeElement !== focused) focused.focus({ preventScroll: true });
  for (const each of all(".count")) {
    if (view.states.has(each.dataset.state)) each.setAttribute("aria-current", "true");
    else each.removeAttribute("aria-current");
  }
  const filtered = view.q !== "" || view.states.size > 0;
  one("#clear").hidden = !filtered;
  one("#nothing").hidden = shown > 0;
  const found = filtered ? `${shown} of ${rows.length} shoots` : `${rows.length} shoots`;
  if (one("#found").textContent !== found) one("#found").textContent = found;
}

function changeView(change) {
  change();
  writeUrl();
  arrange();
}

function showAll() {
  changeView(() => {
    view.q = one("#search input[type=search]").value = "";
    view.states.clear();
  });
}

/** The rows that one sees have their plots renewed once a minute. */
function refreshSeen() {
  if (document.hidden) return;
  const old = all("tr:not([hidden])", table).filter((row) => {
    const { top, bottom } = row.getBoundingClientRect();
    return bottom > 0 && top < innerHeight && performance.now() - (fresh.get(row) ?? 0) > 55000;
  });
  refresh({ rows: old.slice(0, ROWS).map((row) => row.dataset.name) });
}

function startList() {
  readUrl();
  const filtered = view.q || view.states.size;
  const search = one("#search input[type=search]");
  search.addEventListener("input", () => changeView(() => (view.q = search.value)));
  one("#search select").addEventListener("change", (event) => changeView(() => (view.sort = event.target.value)));
  one("#search").addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", (event) => {
    const count = event.target.closest?.("a.count");
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (count) {
      event.preventDefault();
      const state = count.dataset.state;
      changeView(() => view.states.delete(state) || view.states.add(state));
    } else if (event.target.closest?.("#clear, #nothing a")) {
      event.preventDefault();
      showAll();
    }
  });
  for (const row of table.rows) fresh.set(row, performance.now());
  arrange();
  if (filtered) refresh({ page: true }); // the server left out what does not match
  setInterval(refreshSeen, 60000);
  let scrolled;
  addEventListener("scroll", () => (clearTimeout(scrolled), (scrolled = setTimeout(refreshSeen, 400))), { passive: true });
}

// ---- Keys.

function moveTo(step) {
  const links = all("#shoots tbody tr:not([hidden]) th a");
  if (links.length === 0) return;
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + step, 0), links.length - 1)];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const keys = {
  "/": () => one("#search input[type=search]")?.focus(),
  j: () => moveTo(1),
  k: () => moveTo(-1),
  "?": () => one("#help").showModal(),
  Escape: () => {
    if (one("#help").open) return;
    const action = one("details.action[open]");
    if (action) action.open = false;
    else if (isList) showAll();
    else one("#back")?.click();
  },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (typing && event.key !== "Escape") return;
  const found = keys[event.key];
  if (!found) return;
  if (event.key !== "Escape") event.preventDefault();
  if (typing) event.target.blur();
  found();
});

// ---- Actions: what would be done, then the deed, then what comes of it; each form sends once.

const deeds = new WeakMap();

function deedOf(form) {
  if (!deeds.has(form)) deeds.set(form, { action: JSON.parse(form.dataset.action), stage: "open", etag: null });
  return deeds.get(form);
}

const targetOf = (form, action) => (action.targets.length ? action.targets[form.elements.target.value] : action);

function bodyOf(form, action) {
  const body = { ...action.body };
  for (const name of Object.keys(action.flags)) {
    const field = form.elements[name];
    if (field.type === "checkbox" ? field.checked : field.value !== "") body[name] = field.type === "checkbox" ? true : field.value;
  }
  return body;
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function showLines(form) {
  const { action } = deedOf(form);
  const { path: where, words } = targetOf(form, action);
  const body = bodyOf(form, action);
  const line = [...words];
  for (const [name, flag] of Object.entries(action.flags)) {
    if (body[name] === true) line.push(flag);
    else if (body[name] !== undefined) line.push(flag, body[name]);
    else if (form.elements[name].required) line.push(flag, "…");
  }
  const says = Object.keys(body).length > 0;
  const data = says ? ["-H", "Content-Type: application/json", "-d", JSON.stringify(body)] : [];
  one("[data-line=dwd]", form).textContent = line.map(quoted).join(" ");
  one("[data-line=curl]", form).textContent = ["curl", "-X", action.method, location.origin + where, ...data].map(quoted).join(" ");
}

async function call(action, where, body, etag) {
  const headers = { Accept: "application/json, application/problem+json" };
  if (etag) headers["If-Match"] = etag;
  const sent = action.method === "DELETE" || Object.keys(body).length === 0 ? undefined : JSON.stringify(body);
  if (sent !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: action.method, headers, body: sent, signal: AbortSignal.timeout(30000) };
  const answer = await checked(await fetch(where, options));
  return answer.status === 204 ? null : answer.json();
}

function say(form, ...children) {
  one(".outcome", form).replaceChildren(...children);
}

function open(form) {
  Object.assign(deedOf(form), { stage: "open", etag: null });
  say(form);
  one("button[type=submit]", form).disabled = false;
}

function sayRefusal(form, error, sending) {
  const unknown = sending && !error.status;
  const words = unknown
    ? "There was no answer: it is unknown whether the change was made. Check before you retry."
    : error.status
      ? error.message
      : "There was no answer; nothing was written.";
  const parts = [element("p", {}, element("b", {}, error.title ?? "No answer"), ": ", isolated(words))];
  for (const each of error.errors ?? []) parts.push(element("p", {}, element("code", {}, each.path), " ", isolated(each.message)));
  if (error.wait) parts.push(element("p", {}, `Wait ${error.wait} s before you retry.`));
  say(form, element("div", { class: "refused", role: "alert" }, ...parts));
  const deed = deedOf(form);
  deed.stage = "waiting";
  setTimeout(() => {
    if (deed.stage !== "waiting") return;
    deed.stage = "open";
    one("button[type=submit]", form).disabled = false;
  }, 1000 * (error.wait ?? 0));
}

const table4 = (heads, rows) =>
  element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((each) => element("td", {}, isolated(each ?? "–")))))),
    ),
  );

async function plan(form) {
  const deed = deedOf(form);
  const { action } = deed;
  const target = targetOf(form, action);
  const body = bodyOf(form, action);
  let shown;
  let writes = true;
  if (target.plan.length === 0) {
    const found = await call(action, target.path, { ...body, dryRun: true }, null);
    deed.etag = found.etag;
    const steps = found.levels.flatMap(({ level, steps: there }) => there.map((each) => ({ level, ...each })));
    writes = steps.some((each) => each.action === "Write" || each.action === "Tidy");
    const change = (each) => (each.before === each.after ? each.before : `${each.before ?? "?"} → ${each.after ?? "?"}`);
    const rows = steps.map((each) => [each.level, each.resource, each.action, change(each), each.initialDelay, each.reason]);
    shown = [table4(["Level", "Resource", "What", "Replicas", "Delay", "Why"], rows)];
    if (found.replaces) shown.push(element("p", {}, `It ends the automatic scaling run ${found.replaces}.`));
  } else {
    const filled = (text) => text.replace(/\{(\w+)\}/g, (_, name) => body[name] ?? "");
    shown = [table4(["Object", "From", "To"], target.plan.map((row) => row.map(filled)))];
  }
  deed.stage = "planned";
  deed.body = body;
  const go = element("button", { type: "button", class: `go${action.typed ? " danger" : ""}`, onclick: () => void send(form) }, `Do it: ${form.closest("details").querySelector("summary").textContent.trim()}`);
  if (action.typed) {
    const typed = element("input", { name: "typed", autocomplete: "off", spellcheck: "false" });
    typed.addEventListener("input", () => (go.disabled = typed.value !== action.typed));
    typed.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      go.click();
    });
    go.disabled = true;
    shown.push(element("label", {}, "Type ", element("b", {}, action.typed), " to confirm ", typed));
  }
  const nothing = writes ? "Nothing has been written yet." : "Nothing would be written.";
  say(form, element("h3", {}, "What would be done"), ...shown, element("p", { class: "soft" }, nothing), element("p", {}, go));
  (one("input[name=typed]", form) ?? go).focus();
}

async function send(form) {
  const deed = deedOf(form);
  if (deed.stage !== "planned") return; // a second click
  deed.stage = "sending";
  const { action, body, etag } = deed;
  for (const each of all(".outcome button, .outcome input", form)) each.disabled = true;
  one("button[type=submit]", form).disabled = true;
  try {
    const answer = await call(action, targetOf(form, action).path, body, etag);
    deed.stage = "done";
    await report(form, answer);
  } catch (error) {
    sayRefusal(form, error, true);
  }
  refresh({ page: true });
}

async function report(form, answer) {
  const done = element("div", { class: "done", role: "status", tabindex: "-1" });
  const close = element("button", { type: "button", onclick: () => closeAction(form) }, "Close");
  say(form, done, element("p", {}, close));
  close.focus();
  if (answer?.steps === undefined) {
    done.append(...sentence(answer));
    return;
  }
  for (let operation = answer; ; ) {
    const rows = operation.steps.map((each) => [each.level, each.resource, each.phase, `${each.before ?? "?"} → ${each.after ?? "?"}`, each.message]);
    const heads = ["Level", "Resource", "Step", "Replicas", "What"];
    const title = `Scaling ${operation.direction}: ${operation.phase}`;
    done.replaceChildren(element("p", {}, element("b", {}, title), ` (operation ${operation.id}) `, isolated(operation.message)), table4(heads, rows));
    if (operation.phase !== "Running" && operation.phase !== "Pending") return;
    await sleep(1000);
    if (!done.isConnected) return;
    try {
      operation = await (await checked(await fetch(`/api/v1/operations/${encodeURIComponent(operation.id)}`))).json();
    } catch (error) {
      if (error.status === 404 || error.status === 410) return;
    }
  }
}

function sentence(answer) {
  if (answer?.until && answer.scope) return [element("b", {}, "Paused"), ` until ${new Date(answer.until).toLocaleTimeString()} (${answer.scope}).`];
  if (answer?.at) return [element("b", {}, "Asked for"), `: the probe is due at ${new Date(answer.at).toLocaleTimeString()}.`];
  if (answer?.phase) return [element("b", {}, "Started"), `: ${answer.phase}. `, element("a", { href: "/weeders" }, "What is deleted")];
  return [element("b", {}, "Done.")];
}

function closeAction(form) {
  open(form);
  form.reset();
  form.closest("details.action").open = false;
  refresh({ page: true });
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.action) return;
  event.preventDefault();
  const deed = deedOf(form);
  if (deed.stage === "planning" || deed.stage === "sending" || deed.stage === "waiting") return;
  deed.stage = "planning";
  one("button[type=submit]", form).disabled = true;
  try {
    await plan(form);
    one("button[type=submit]", form).disabled = false;
  } catch (error) {
    sayRefusal(form, error, false);
  }
});

// What was planned is what was said then: anything else needs a new plan.
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => {
    const form = event.target.closest?.("form[data-action]");
    if (!form || event.target.name === "typed") return;
    if (deedOf(form).stage !== "sending") open(form);
    showLines(form);
  });
}

document.addEventListener("reset", (event) => {
  if (!event.target.dataset.action) return;
  open(event.target);
  event.target.closest("details.action").open = false;
});

document.addEventListener(
  "toggle",
  (event) => {
    if (!event.target.matches?.("details.action") || !event.target.open) return;
    const form = one("form", event.target);
    showLines(form);
    one("select, input", form)?.focus();
  },
  true,
);

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (event.target.closest?.("#keys")) one("#help").showModal();
  if (!button) return;
  const line = button.previousElementSibling;
  try {
    await navigator.clipboard.writeText(line.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(line); // over plain HTTP from elsewhere there is no clipboard
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
});

// ---- Start.

setClock(Number(document.body.dataset.now));
for (const each of all("[data-live]")) sources.set(each.id, ignoringTimes(each.outerHTML));
root.classList.add("scripted");
if (isList) startList();
tick();
setInterval(() => document.hidden || tick(), 1000);
const { stream, refresh: every } = document.body.dataset;
if (every) setInterval(() => document.hidden || refresh({ page: true }), 1000 * Number(every));
if (stream) void follow(stream);
else if (every) connected(pollingWords());
