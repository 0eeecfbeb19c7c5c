// What pages have in common: loading, tables, fields, texts of numbers and times.

import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";

export { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };

const SLOWER = 1.5;
const SLOWEST = 3;

// The result of `load(signal)`, again when `inputs` change and every `interval` ms, or up to three times as seldom while
// it stays the same; an old result stays while a new one is on its way.
export function useLoad(load, inputs, interval = 0) {
  const [state, setState] = useState({ data: null, error: null, inputs: null });
  const [round, setRound] = useState(0);
  const key = JSON.stringify(inputs);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    let pause = interval;
    let before = null;
    const run = async () => {
      try {
        const data = await load(abort.signal);
        if (abort.signal.aborted) return;
        pause = data === before ? Math.min(pause * SLOWER, interval * SLOWEST) : interval;
        before = data;
        setState((old) => (old.data === data && old.error === null && old.key === key ? old : { data, error: null, key }));
      } catch (error) {
        if (abort.signal.aborted) return;
        [pause, before] = [interval, null];
        setState((old) => ({ data: old.key === key ? old.data : null, error, key }));
      }
      if (interval) timer = setTimeout(next, pause);
    };
    let late = false; // its time came while nobody saw the page
    const next = () => (document.hidden ? (late = true) : run());
    const seen = () => {
      if (document.hidden || !late) return;
      late = false;
      pause = interval;
      run();
    };
    document.addEventListener("visibilitychange", seen);
    run();
    return () => {
      abort.abort();
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(timer);
    };
  }, [key, round, interval]);
  const isCurrent = state.key === key;
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    loading: !isCurrent,
    reload: () => setRound((n) => n + 1),
  };
}

export function useStored(name, fallback) {
  const [value, setValue] = useState(() => {
    try {
      return JSON.parse(localStorage.getItem(name)) ?? fallback;
    } catch {
      return fallback;
    }
  });
  const store = (next) => {
    setValue(next);
    localStorage.setItem(name, JSON.stringify(next));
  };
  return [value, store];
}

const digits = new Intl.NumberFormat("en-US"); // toLocaleString makes one each time, which is slow
export const number = (value) => (value === null || value === undefined ? "–" : digits.format(value));

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return (unit && value < 100 ? value.toFixed(1) : digits.format(Math.round(value))) + " " + units[unit];
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const local = new Date(ms - date.getTimezoneOffset() * 60000);
  return local.toISOString().replace("T", " ").replace("Z", "");
}

export function Failure({ error, again }) {
  if (!error) return null;
  const token = error.code === "unauthorized" ? " Open the address that kwire console has written to its terminal." : "";
  return html`<div class="failure" role="alert">
    <span>${error.message}${token}</span>
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

export const Loading = () => html`<p class="quiet" role="status">Loading…</p>`;

export function Badge({ kind = "", children }) {
  return html`<span class=${"badge " + kind}>${children}</span>`;
}

export const stateKind = (state) =>
  ({ stable: "good", up: "good", ok: "good", empty: "quiet", gone: "bad", unreachable: "bad", dead: "bad" })[
    String(state).toLowerCase()
  ] ?? "warn";

export function Tabs({ tabs, chosen, choose }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const index = tabs.findIndex(([id]) => id === chosen);
    const next = tabs[(index + step + tabs.length) % tabs.length][0];
    choose(next);
    requestAnimationFrame(() => document.getElementById("tab-" + next)?.focus());
  };
  return html`<div class="tabs" role="tablist" onKeyDown=${move}>
    ${tabs.map(
      ([id, title]) =>
        html`<button
          key=${id}
          id=${"tab-" + id}
          type="button"
          role="tab"
          aria-selected=${id === chosen ? "true" : "false"}
          tabindex=${id === chosen ? 0 : -1}
          onClick=${() => choose(id)}
        >
          ${title}
        </button>`,
    )}
  </div>`;
}

const ROW = 36;
const MARGIN = 12;
const WHOLE_MAX = 300; // so many rows are all in the document: the browser's own search finds them

// A table; of a long one only the visible rows are in the document. `columns`: {id, title, cell(row), number, sort(row)}.
// `open(row)`: by click, or with j, k and Enter. `seen(rows)`: those on the screen.
export function Table({ label, columns, rows, rowKey, open, seen, empty = "Nothing here.", start }) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 60]);
  const [order, setOrder] = useState(start ?? null);
  const [at, setAt] = useState(-1);
  const chosen = useRef(-1); // the same, for a key that comes before the table is drawn again
  const sorted = useMemo(() => {
    const column = order && columns.find((each) => each.id === order.id);
    if (!column?.sort) return rows;
    const sign = order.down ? -1 : 1;
    const compare = (a, b) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : a < b ? -sign : sign);
    return rows.slice().sort((a, b) => compare(column.sort(a), column.sort(b)));
  }, [rows, order]);
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(Math.floor(element.scrollTop / ROW) - MARGIN, 0);
    const last = Math.ceil((element.scrollTop + (element.clientHeight || 800)) / ROW) + MARGIN;
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useLayoutEffect(measure, [sorted.length]);
  useEffect(() => {
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  const drawn = sorted.length <= WHOLE_MAX ? [0, sorted.length] : range;
  const shown = sorted.slice(drawn[0], drawn[1]);
  useEffect(() => {
    const visible = sorted.slice(range[0], range[1]);
    if (seen && visible.length) seen(visible);
  }, [range[0], range[1], sorted]);
  useLayoutEffect(() => {
    if (!open) return undefined;
    const press = (event) => {
      if (event.target.closest("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "j" || event.key === "k") {
        const next = Math.min(Math.max(chosen.current + (event.key === "j" ? 1 : -1), 0), sorted.length - 1);
        chosen.current = next;
        setAt(next);
        const top = next * ROW;
        const element = box.current;
        if (top < element.scrollTop) element.scrollTop = top;
        else if (top + 2 * ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * ROW - element.clientHeight;
      } else if (event.key === "Enter" && sorted[chosen.current] && !event.target.closest("a, button, summary")) {
        open(sorted[chosen.current]);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [open, sorted]);
  const turn = (column) =>
    setOrder((old) => ({ id: column.id, down: old?.id === column.id ? !old.down : Boolean(column.number) }));
  if (!rows.length) return html`<p class="quiet">${empty}</p>`;
  return html`<div class="table" ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label=${label}>
    <table aria-rowcount=${rows.length + 1}>
      <thead>
        <tr>
          ${columns.map(
            (each) => html`<th
              key=${each.id}
              scope="col"
              class=${each.number ? "number" : each.title ? "" : "narrow"}
              aria-sort=${order?.id === each.id ? (order.down ? "descending" : "ascending") : undefined}
            >
              ${each.sort ? html`<button type="button" onClick=${() => turn(each)}>${each.title}</button>` : each.title}
            </th>`,
          )}
        </tr>
      </thead>
      <tbody>
        ${drawn[0] > 0 && html`<tr key="above" aria-hidden="true" class="space"><td colspan=${columns.length} height=${drawn[0] * ROW}></td></tr>`}
        ${shown.map(
          (row, index) => html`<tr
            key=${rowKey(row)}
            aria-rowindex=${drawn[0] + index + 2}
            class=${(open ? "opens " : "") + (drawn[0] + index === at ? "at" : "")}
            onClick=${open && ((event) => !event.target.closest("a, button, input") && open(row))}
          >
            ${columns.map((each) => html`<td key=${each.id} class=${each.number ? "number" : ""}>${each.cell(row)}</td>`)}
          </tr>`,
        )}
        ${drawn[1] < sorted.length &&
        html`<tr key="below" aria-hidden="true" class="space"><td colspan=${columns.length} height=${(sorted.length - drawn[1]) * ROW}></td></tr>`}
      </tbody>
    </table>
  </div>`;
}

export function Dialog({ title, close, children }) {
  const box = useRef(null);
  useEffect(() => {
    const element = box.current;
    element.showModal();
    return () => element.close(); // before it is removed: so the focus goes back to where it was
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onClose=${close} onCancel=${close}>
    <h2>${title}</h2>
    ${children}
  </dialog>`;
}

// A change: a button, a request, what went wrong.
export function useChange() {
  const [state, setState] = useState({ busy: false, error: null });
  const run = async (change) => {
    setState({ busy: true, error: null });
    try {
      await change();
      setState({ busy: false, error: null });
      return true;
    } catch (error) {
      setState({ busy: false, error });
      return false;
    }
  };
  return [state, run];
}
