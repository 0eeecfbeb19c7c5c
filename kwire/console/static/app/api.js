// Requests to the console's HTTP API.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function address(path, query = {}) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parameters.set(name, value);
  }
  const text = parameters.toString();
  return "/api/" + path + (text ? "?" + text : "");
}

const early = new Map();

// Begin a request whose response the page is going to ask for soon.
export function askEarly(path, query) {
  const response = fetch(address(path, query));
  response.catch(() => {}); // whoever asks for it is told
  early.set(address(path, query), response);
}

const last = new Map(); // by address: the text of a response, and what it says
const LAST_MAX = 16;
const LAST_CHARACTERS_MAX = 1_000_000;

// What a text says; the same object as the last time if the text is the same, so that nothing is drawn anew.
function parsed(target, text) {
  const before = last.get(target);
  last.delete(target);
  const now = before?.text === text ? before : { text, content: JSON.parse(text) };
  if (text.length <= LAST_CHARACTERS_MAX) last.set(target, now);
  if (last.size > LAST_MAX) last.delete(last.keys().next().value);
  return now.content;
}

// The JSON of a response; rejects with ApiError.
export async function ask(path, { query, method = "GET", body, signal } = {}) {
  const begun = method === "GET" ? early.get(address(path, query)) : undefined;
  early.delete(address(path, query));
  let response;
  try {
    response = await (begun ?? fetch(address(path, query), {
      method,
      signal,
      headers: method === "GET" ? {} : { "content-type": "application/json", "x-kwire-console": "1" },
      body: method === "GET" ? undefined : JSON.stringify(body ?? {}),
    }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "gone", "The console does not answer. Is `kwire console` still running?");
  }
  let content = null;
  try {
    const text = await response.text();
    content = method === "GET" && response.ok ? parsed(address(path, query), text) : JSON.parse(text);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(response.status, "no_json", `The console answered with status ${response.status}.`);
  }
  if (!response.ok) throw new ApiError(response.status, content.error.code, content.error.message);
  return content;
}

// Server-sent events; returns the function that ends them. `once`: do not connect again when they end. Otherwise there is
// no connection while nobody sees the page.
export function listen(path, query, handlers, { once = false } = {}) {
  let source = null;
  const close = () => {
    source?.close();
    source = null;
  };
  const open = () => {
    source = new EventSource(address(path, query));
    for (const [name, handler] of Object.entries(handlers)) {
      if (name !== "lost") source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
    source.onerror = () => {
      if (once) close();
      handlers.lost?.();
    };
  };
  const change = () => {
    if (document.hidden) close();
    else if (!source) open();
  };
  if (once || !document.hidden) open();
  if (!once) document.addEventListener("visibilitychange", change);
  return () => {
    document.removeEventListener("visibilitychange", change);
    close();
  };
}

export const part = encodeURIComponent;
