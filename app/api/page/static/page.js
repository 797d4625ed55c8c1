// What makes the pages live.  The server renders everything; this module asks for what changed and puts it in its place,
// filters and sorts what is there, and sends what people decide.  Text of others becomes text nodes only.
// The list runs it before its rows have all come, so that search and keys need not wait for a thousand of them.

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

/** The time of day as the server words it (site._clock), with the date unless it is today. */
function clockTime(instant) {
  const today = instant.slice(0, 10) === new Date(now()).toISOString().slice(0, 10);
  return `${today ? "" : `${instant.slice(0, 10)} `}${instant.slice(11, 19)} UTC`;
}

const forms = {
  ago: (at) => `${span(now() - at)} ago`,
  since: (at) => span(now() - at),
  left: (at) => `${span(at - now())} left`,
  clock: (at, instant) => clockTime(instant),
};

/** The time of an instant, as `clockTime` has it, with how far away that is. */
function clock(instant) {
  const away = Date.parse(instant) - now();
  return `${clockTime(instant)} (${away > 0 ? `in ${span(away)}` : `${span(-away)} ago`})`;
}

const times = document.getElementsByTagName("time");

function tick() {
  for (const each of times) {
    each.at ??= Date.parse(each.dateTime);
    const text = forms[each.dataset.form]?.(each.at, each.dateTime);
    if (text && each.firstChild?.data !== text) each.textContent = text;
  }
  showConnection();
  if (connection.lostAt === null && !connection.over) {
    one("#as-of")?.replaceChildren(new Date(now()).toISOString().slice(0, 19).replace("T", " ") + " UTC");
  }
}

// ---- How old is what one sees.

const connection = { tone: "calm", words: document.body.dataset.stream ? "connecting…" : "", lostAt: null, gone: "", over: "", note: "" };
const shapes = { good: "●", warn: "▲", bad: "✕", calm: "○" };

function showConnection() {
  const { words, lostAt, gone, over, note } = connection;
  const tone = over ? "bad" : gone || (note && lostAt === null) ? "warn" : connection.tone;
  const lost = lostAt === null ? "" : `disconnected for ${span(performance.now() - lostAt)}, trying again`;
  const text = over || gone || [lost && words ? `${lost}: ${words}` : lost || words, note].filter(Boolean).join("; ");
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

/** The caller is not known any more: to ask again would be refused again. */
function signedOut(message) {
  connection.over = `nothing is refreshed any more: ${message}. Sign in again, then reload`;
  showConnection();
}

/** A problem of the API, or what a page says of one, as an error with its words. */
class Refusal extends Error {
  constructor(status, title, detail, wait, errors = []) {
    super(detail || title || `HTTP ${status}`);
    Object.assign(this, { status, title, wait, errors });
  }
}

/** Asks the server; what the browser calls a failed fetch, in words. */
async function ask(url, seconds, options = {}) {
  const signal = options.signal ?? AbortSignal.timeout(1000 * seconds);
  try {
    return await checked(await fetch(url, { cache: "no-store", ...options, signal }));
  } catch (error) {
    if (error.name === "TimeoutError") throw new Error(`the server has not answered within ${seconds} s`);
    if (error instanceof TypeError) throw new Error("the server cannot be reached");
    throw error;
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
  const answer = await ask(url, 20, { headers });
  return parser.parseFromString(await answer.text(), "text/html");
}

/** Puts the pieces of `found` where they belong; the rows in `asked` that are not in it are gone. */
function apply(found, asked = []) {
  setClock(Number(found.body.dataset.now));
  checkVersion(found.body.dataset.version);
  if ("standsBy" in document.body.dataset && !("standsBy" in found.body.dataset)) location.reload(); // it leads now
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
      if (sources.get(next.id) === source) continue;
      if (busy(current)) {
        renewOthers(current, next);
        continue;
      }
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

/** The other actions beside the one that is open: after a pause there is one to resume, at once. */
function renewOthers(current, next) {
  const open = one("details.action[open]", current);
  const found = new Map(all("details.action", next).map((each) => [each.dataset.key, document.adoptNode(each)]));
  for (const each of all("details.action", current)) {
    if (each !== open) found.has(each.dataset.key) ? each.replaceWith(found.get(each.dataset.key)) : each.remove();
    found.delete(each.dataset.key);
  }
  if (current.matches(".deeds")) open.parentElement.append(...found.values());
}

/** Two versions behind one address would have the page reload for ever: each version has it do so once. */
function checkVersion(version) {
  const own = document.body.dataset.version;
  connection.note = version === own ? "" : `this page is of version ${own}, the server's is ${version}`;
  if (version === own || busy(document)) return;
  const seen = JSON.parse(sessionStorage.getItem("versions") ?? "[]");
  if (seen.includes(version)) return;
  sessionStorage.setItem("versions", JSON.stringify([...seen, own, version]));
  location.reload();
}

function replace(current, next) {
  const focused = current.contains(document.activeElement) ? path(document.activeElement) : null;
  const keyed = all("details[data-key]", current);
  const open = new Map(keyed.map((each) => [each.dataset.key, each.open]));
  next = document.adoptNode(next);
  for (const each of all("details[data-key]", next)) each.open = open.get(each.dataset.key) ?? each.open;
  current.replaceWith(next);
  for (const each of all(".cells", next)) showCell(each, chosen.get(each.id));
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
const dirty = { rows: new Set(), page: false, changed: false };
const fresh = new WeakMap();
let lastAsked = Number(document.body.dataset.now);
let refreshing = false;

function refresh({ rows = [], page = false, changed = false }) {
  for (const each of rows) dirty.rows.add(each);
  dirty.page ||= page;
  dirty.changed ||= changed;
  if (!refreshing) void keepFresh();
}

async function keepFresh() {
  refreshing = true;
  await sleep(150); // what belongs together is asked for together
  while ((dirty.page || dirty.changed || dirty.rows.size > 0) && !document.hidden && !connection.over) {
    const began = performance.now();
    const whole = dirty.page;
    const changed = dirty.changed && !whole;
    const rows = changed ? [] : [...dirty.rows].slice(0, ROWS);
    try {
      if (changed) {
        dirty.changed = false;
        const found = await fetchPage(`/rows?since=${lastAsked}`);
        apply(found);
        lastAsked = Number(found.body.dataset.now);
        dirty.page ||= Number(found.body.dataset.total) !== table.rows.length; // some are gone
      } else if (whole) {
        dirty.changed = false;
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
      if (error.status === 401) {
        signedOut(error.message);
        break;
      }
      if (error.status === 404 && !isList) {
        connection.gone = `${error.message}; below is the last known state`;
        showConnection();
        break; // it has vanished while it was shown
      }
      dirty.page ||= whole;
      dirty.changed ||= changed;
      for (const each of whole ? [] : rows) dirty.rows.add(each);
      if (streaming === null || error.status) disconnected(error.message);
      await sleep(1000 * (error.wait ?? 5));
      continue;
    }
    if (connection.lostAt !== null) answered();
    await sleep(Math.max(0, 1000 - (performance.now() - began)));
  }
  refreshing = false;
}

// ---- The stream of events, with resume after a break.

const SILENCE = 25000; // the server says something every 15 s
const HIDDEN = 20000; // a browser has six connections to a server: a page that nobody sees gives its own back
let streaming = null;
let listening = false; // the stream is there
let instead = null; // what is said where there is no stream, but the page asks all the same

/** A request went well after one that did not; without a stream that says nothing of what was not asked for. */
function answered() {
  if (listening) connected();
  else if (instead) Object.assign(connection, instead);
  else if (document.body.dataset.refresh) connected(pollingWords());
  showConnection();
}

const pollingWords = () => `refreshed every ${document.body.dataset.refresh} s`;

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

const standsBy = "standsBy" in document.body.dataset;

async function follow(url) {
  let lastId = document.body.dataset.newest ?? null;
  for (let failures = 0; !connection.over; ) {
    await untilSeen();
    const ending = new AbortController();
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        connection.lostAt ??= performance.now() - SILENCE; // what one sees is as old as that
        ending.abort(new Error(`no data for ${SILENCE / 1000} s`));
      }, SILENCE);
    };
    heard();
    streaming = ending;
    let wait = null;
    try {
      const headers = { Accept: "text/event-stream, application/problem+json" };
      if (lastId !== null) headers["Last-Event-ID"] = lastId;
      const answer = await ask(url, 0, { headers, signal: ending.signal });
      if (standsBy) location.reload(); // it leads now
      listening = true;
      connected();
      failures = 0;
      if (lastId === null) refresh({ page: true }); // what happened since this page was made
      for await (const event of eventsOf(answer.body, heard)) {
        lastId = event.id ?? lastId;
        if (event.name === "end") throw new Error(JSON.parse(event.data).reason);
        happened(event);
      }
      throw new Error("the server ended the stream");
    } catch (error) {
      listening = false;
      wait = document.hidden ? null : afterBreak(error);
    }
    if (document.hidden) connection.words = "paused while hidden";
    clearTimeout(silence);
    streaming = null;
    failures += 1;
    await sleep(1000 * Math.min(wait ?? Math.min(failures, 5), 60));
  }
}

/** Says why there is no stream; returns the seconds until it is asked for again, null if the server does not say. */
function afterBreak(error) {
  instead = null;
  if (error.status === 401) {
    signedOut(error.message);
    return null;
  }
  if (error.status === 503 && standsBy) {
    Object.assign(connection, (instead = { tone: "calm", words: "on standby, refreshed every 5 s", lostAt: null }));
    refresh({ page: true });
    return 5;
  }
  if (error.status === 429 || error.status === 403) {
    // More streams than one caller may have, or none: then as a page without one.
    const wait = error.wait ?? 30;
    Object.assign(connection, (instead = { tone: "warn", words: `refreshed every ${wait} s: ${error.message}`, lostAt: null }));
    refresh(isList ? { changed: true } : { page: true });
    return wait;
  }
  disconnected(error instanceof TypeError ? "" : error.message);
  return error.wait;
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
  else if (dirty.page || dirty.changed || dirty.rows.size > 0) refresh({});
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
  sessionStorage.setItem("list", location.search); // the way back from a shoot leads here
}

function textOf(row) {
  if (!texts.has(row)) texts.set(row, `${row.dataset.name} ${one(".c-why", row)?.textContent ?? ""}`.toLowerCase());
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
  one("#nothing").hidden = shown > 0 || document.readyState === "loading";
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
  sessionStorage.setItem("list", location.search);
  arrange();
  void ready.then(() => {
    for (const row of table.rows) fresh.set(row, performance.now());
    arrange();
    if (filtered) refresh({ page: true }); // the server left out what does not match
  });
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
  "?": () => one("#help")?.showModal(),
  Escape: () => {
    if (one("#help")?.open) return;
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

const targetOf = (form, action) => (action.targets.length ? action.targets[form.elements.target?.value ?? 0] : action);

/** What a form says: members of the body, and those of the query of a call that has no body. */
function saidIn(form, action) {
  const found = { body: { ...action.body }, query: {} };
  for (const name of Object.keys(action.flags)) {
    const field = form.elements[name];
    const value = field.type === "checkbox" ? field.checked || "" : field.value;
    if (value !== "") found[action.query.includes(name) ? "query" : "body"][name] = value;
  }
  return found;
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function withQuery(where, query) {
  const words = new URLSearchParams(query).toString();
  return words === "" ? where : `${where}${where.includes("?") ? "&" : "?"}${words}`;
}

const ours = ["http://localhost:8080", "http://127.0.0.1:8080"]; // where dwd asks without --server

function showLines(form) {
  const deed = deedOf(form);
  const { action } = deed;
  const { path: where, words } = targetOf(form, action);
  const { body, query } = saidIn(form, action);
  const bearer = "bearer" in form.dataset;
  const line = [...words];
  const given = { ...body, ...query };
  for (const [name, flag] of Object.entries(action.flags)) {
    if (given[name] === true) line.push(flag);
    else if (given[name] !== undefined) line.push(flag, given[name]);
    else if (form.elements[name].required) line.push(flag, "…");
  }
  if (deed.etag && action.match) line.push(action.match, deed.etag);
  if (!bearer && !ours.includes(location.origin)) line.push("--server", location.origin);
  const curl = ["curl", "-X", action.method].map(quoted);
  curl.push(bearer ? `"$API"${quoted(withQuery(where, query))}` : quoted(location.origin + withQuery(where, query)));
  if (bearer) curl.push('-H "Authorization: Bearer $TOKEN"');
  if (deed.etag) curl.push("-H", quoted(`If-Match: ${deed.etag}`));
  if (Object.keys(body).length > 0) curl.push("-H 'Content-Type: application/json'", "-d", quoted(JSON.stringify(body)));
  one("[data-line=dwd]", form).textContent = line.map(quoted).join(" ");
  one("[data-line=curl]", form).textContent = curl.join(" ");
}

async function call(action, where, { body, query }, etag) {
  const headers = { Accept: "application/json, application/problem+json" };
  if (etag) headers["If-Match"] = etag;
  const sent = Object.keys(body).length === 0 ? undefined : JSON.stringify(body);
  if (sent !== undefined) headers["Content-Type"] = "application/json";
  const answer = await ask(withQuery(where, query), 30, { method: action.method, headers, body: sent });
  return { etag: answer.headers.get("ETag"), found: answer.status === 204 ? null : await answer.json() };
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
    { class: "scroll", tabindex: "0" },
    element(
      "table",
      { class: "stack" },
      element("thead", {}, element("tr", {}, ...heads.map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((each, at) => element("td", { "data-label": heads[at] }, each === "" ? null : isolated(each ?? "–")))))),
    ),
  );

const isInstant = (text) => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text);
const phaseWords = { Pending: "about to begin", Running: "under way", Waiting: "not begun", Cancelled: "cancelled" };

/** What an override, an annotation, a recovery or a scaling run is, in a line. */
function described(value) {
  if (value === null) return "nothing";
  if (value in phaseWords) return phaseWords[value];
  if (typeof value !== "object") return JSON.stringify(value);
  if (value.scope) return `paused (${value.scope}) by ${value.author} until ${clock(value.until)}: ${value.reason}`;
  if (value.author) return `held by ${value.author} until ${clock(value.until)}: ${value.reason}`;
  if (value.cause) return `${value.cause} until ${clock(value.until)}${value.despite ? `, despite: ${value.despite}` : ""}`;
  return JSON.stringify(value);
}

const planWords = { Write: "write", Tidy: "tidy up annotations", Skip: "leave as it is", Nothing: "nothing to do" };
const inWords = (code) => (/^[A-Za-z]+$/.test(code ?? "") ? code.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase() : code);

function planOfScaling(found) {
  const steps = found.levels.flatMap(({ level, steps: there }) => there.map((each) => ({ level, ...each })));
  const change = (each) => (each.before === each.after ? each.before : `${each.before ?? "?"} → ${each.after ?? "?"}`);
  const writes = steps.some((each) => each.action === "Write" || each.action === "Tidy");
  const rows = steps.map((each) => [each.level, each.resource, planWords[each.action] ?? each.action, change(each), each.initialDelay, each.action === "Write" ? "" : inWords(each.reason)]);
  const shown = [table4(["Level", "Resource", "What", "Replicas", "Delay", "Why"], rows)];
  if (found.replaces) shown.push(element("p", {}, `It ends the automatic scaling run ${found.replaces}.`));
  if (!writes) shown.push(element("p", {}, "No replicas would change: only automatic verdicts would be held back."));
  return { shown, writes };
}

async function plan(form) {
  const deed = deedOf(form);
  const { action } = deed;
  const said = saidIn(form, action);
  const heads = ["Object", "From", "To"];
  let shown;
  let writes = true; // that is, does more than hold verdicts back: then the name is to be typed
  const nothing = "Nothing has been written yet.";
  if (action.plan.length > 0) {
    shown = [table4(heads, action.plan.map((row) => row.map((each) => (isInstant(each) ? clock(each) : each)))), element("p", {}, action.note)];
  } else {
    const dry = { dryRun: true };
    const asked = action.method === "DELETE" ? { ...said, query: { ...said.query, ...dry } } : { ...said, body: { ...said.body, ...dry } };
    const { found, etag } = await call(action, targetOf(form, action).path, asked, null);
    deed.etag = etag;
    if (found.levels) ({ shown, writes } = planOfScaling(found));
    else if (found.changes.length === 0) {
      say(form, element("p", { class: "done" }, "It is so already: nothing would change."));
      deed.stage = "open";
      return;
    } else shown = [table4(heads, found.changes.map((each) => [each.object, described(each.before), described(each.after)]))];
  }
  deed.stage = "planned";
  deed.said = said;
  showLines(form);
  const go = element("button", { type: "button", class: `go${action.typed && writes ? " danger" : ""}`, onclick: () => void send(form) }, `Do it: ${form.closest("details").querySelector("summary").textContent.trim().replace("…", "")}`);
  if (action.typed && writes) {
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
  say(form, element("h3", {}, "What would be done"), ...shown, element("p", { class: "soft" }, nothing), element("p", {}, go));
  (one("input[name=typed]", form) ?? go).focus();
}

async function send(form) {
  const deed = deedOf(form);
  if (deed.stage !== "planned") return; // a second click
  deed.stage = "sending";
  const { action, said, etag } = deed;
  for (const each of all(".outcome button, .outcome input", form)) each.disabled = true;
  one("button[type=submit]", form).disabled = true;
  try {
    const where = targetOf(form, action).path;
    const { found } = await call(action, where, said, etag);
    deed.stage = "done";
    refresh({ page: true });
    await report(form, found, where);
  } catch (error) {
    sayRefusal(form, error, true);
  }
  refresh({ page: true });
}

async function report(form, answer, where) {
  const done = element("div", { class: "done", role: "status", tabindex: "-1" });
  const close = element("button", { type: "button", onclick: () => closeAction(form) }, "Close");
  say(form, done, element("p", {}, close));
  close.focus();
  if (answer?.steps) await watch(done, answer, `/api/v1/operations/${encodeURIComponent(answer.id)}`, showOperation, (each) => each);
  else if (answer?.deletions) {
    await watch(done, answer, where, showRecovery, (each) => each.recoveries.find(({ id }) => id === answer.id));
  } else done.append(...sentence(answer));
}

const over = new Set(["Done", "Failed", "Cancelled", "Refused"]);

/** Shows the progress of something until it has ended or the page is left. */
async function watch(done, begun, url, show, pick) {
  for (let found = begun; found; ) {
    show(done, found);
    if (found.ended || over.has(found.phase)) return;
    await sleep(1000);
    if (!done.isConnected) return;
    try {
      found = pick(await (await ask(url, 20)).json());
    } catch (error) {
      if (error.status === 503 || error.status === 429 || !error.status) await sleep(1000 * (error.wait ?? 5));
      else {
        done.append(element("p", {}, "The progress cannot be shown: ", isolated(error.message)));
        return;
      }
    }
  }
}

function showOperation(done, { id, direction, phase, message, steps }) {
  const rows = steps.map((each) => [each.level, each.resource, each.phase, each.after === null ? "–" : `${each.before ?? "?"} → ${each.after}`, each.message]);
  const title = element("p", {}, element("b", {}, `Scaling ${direction}: ${phase}`), ` (operation ${id}) `, isolated(message));
  done.replaceChildren(title, table4(["Level", "Resource", "Step", "Replicas", "What"], rows));
}

function showRecovery(done, { phase, end, until, trouble, queued, deletions, spared }) {
  const words = end ? `ended: ${inWords(end)}` : `until ${clock(until)}`;
  const numbers = ` (${words}): ${deletions.length} deleted, ${queued} wait, ${spared.length} left alone. `;
  const title = element("p", {}, element("b", {}, `Weeding: ${phase}`), numbers, isolated(trouble ?? ""));
  const rows = [
    ...deletions.map((each) => [each.pod, inWords(each.result), each.container]),
    ...spared.map((each) => [each.pod, `left alone: ${inWords(each.reason)}`, each.message]),
  ];
  done.replaceChildren(title, ...(rows.length > 0 ? [table4(["Pod", "What", "More"], rows)] : []));
}

function sentence(answer) {
  if (answer?.scope) return [element("b", {}, "Paused"), ` until ${clock(answer.until)} (${answer.scope}).`];
  if (answer?.at) return [element("b", {}, "Asked for"), `: the probe is due at ${clock(answer.at)}.`];
  return [element("b", {}, "Done.")];
}

function closeAction(form) {
  const action = form.closest("details.action");
  form.reset();
  action.open = false;
  one("summary", action).focus();
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
    if (!event.target.matches?.("details.action")) return;
    const form = one("form", event.target);
    if (!event.target.open) {
      refresh({ page: true }); // what was left as it was while somebody wrote
      return;
    }
    if (deedOf(form).stage === "done") open(form); // what came of it the last time
    showLines(form);
    one("select, input", form)?.focus();
  },
  true,
);

// ---- The nodes of a shoot: a tap, or an arrow key, has one of them described below the cells.

const chosen = new Map();

function showCell(cells, at) {
  if (at === undefined) return;
  const known = cells.children;
  const place = Math.min(Math.max(at, 0), known.length - 1);
  chosen.set(cells.id, place);
  for (const each of known) each.toggleAttribute("data-chosen", each === known[place]);
  const line = cells.nextElementSibling;
  if (line.textContent !== known[place].title) line.replaceChildren(isolated(known[place].title));
}

document.addEventListener("click", (event) => {
  const cell = event.target.closest?.(".cells .cell");
  if (cell) showCell(cell.parentElement, [...cell.parentElement.children].indexOf(cell));
});

document.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches?.(".cells")) return;
  event.preventDefault();
  showCell(event.target, (chosen.get(event.target.id) ?? (step > 0 ? -1 : event.target.children.length)) + step);
});

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

const ready = new Promise((resolve) => {
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", resolve, { once: true });
  else resolve();
});
setClock(Number(document.body.dataset.now));
root.classList.add("scripted");
const back = one("#back");
if (back) back.href = `/${sessionStorage.getItem("list") ?? ""}`;
if (isList) startList();
setInterval(() => document.hidden || tick(), 1000);
void ready.then(() => {
  for (const each of all("[data-live]")) sources.set(each.id, ignoringTimes(each.outerHTML));
  tick();
  const { stream, refresh: every, again } = document.body.dataset;
  if (every) setInterval(() => document.hidden || refresh({ page: true }), 1000 * Number(every));
  if (stream) void follow(stream);
  else if (every) connected(pollingWords());
  if (again) void retry(Number(again));
});

/** In place of a page that could not be shown: asks for it until it can be, or until there is something else to say. */
async function retry(seconds) {
  for (let passes = true; passes; ) {
    await sleep(1000 * seconds);
    await untilSeen();
    try {
      await fetchPage(location.href);
      passes = false;
    } catch (error) {
      passes = !error.status || error.status === 503 || error.status === 429;
    }
  }
  location.reload();
}
