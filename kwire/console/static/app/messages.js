// Messages of a topic: pages of them, a search through all, those that come now.

import { ask, listen, part } from "./api.js";
import { Badge, bytes, Dialog, Failure, html, Loading, number, time, useChange, useEffect, useLayoutEffect, useLoad, useMemo, useRef, useState, useStored } from "./ui.js";
import { Content, preview, rules } from "./values.js";
import { alter, place } from "./route.js";

const LIMIT = 50;
const KEPT = 100;
const SHOWN_OF_MANY = 20;
const SHOWN_EVERY_MS = 200;
const MANY_EVERY_MS = 1000;
const positions = (offsets) => Object.entries(offsets).map(([partition, offset]) => partition + ":" + offset).join(",");

export function useMasks() {
  const [text, setText] = useStored("kwire.masks", "");
  return { text, setText, names: useMemo(() => rules(text), [text]) };
}

function Schema({ schema }) {
  if (!schema) return null;
  if (schema.error) return html`<p class="warn">Not decoded, schema ${schema.id}: ${schema.error}</p>`;
  const subject = schema.subject ? `, ${schema.subject} version ${schema.version}` : "";
  return html`<p class="quiet">${schema.type}, schema ${schema.id}${subject}</p>`;
}

function Whole({ route, message, names, close, resend }) {
  const [form, setForm] = useState("json");
  const target = `topics/${part(message.topic)}/messages/${message.partition}/${message.offset}`;
  const decoded = Boolean(message.key_schema || message.value_schema);
  const raw = decoded && form === "hex";
  const load = (query, signal) => ask(target, { query: { cluster: route.cluster, ...query }, signal });
  const { data, error } = useLoad(
    (signal) => (message.truncated || raw ? load(raw ? { decode: 0 } : {}, signal) : Promise.resolve(message)),
    [target, raw],
  );
  // Decoded values are sent again as they were written.
  const again = async () => resend(decoded ? await load({ decode: 0 }) : shown);
  const shown = data ?? message;
  const link = place(route.cluster, "topics", message.topic, { tab: "messages", from: message.offset, partition: message.partition, limit: 1 });
  return html`<${Dialog} title=${`Partition ${message.partition}, offset ${message.offset}`} close=${close}>
    <p class="quiet">${time(message.timestamp)} · ${bytes(message.size)} · <a href=${link}>link</a></p>
    <${Failure} error=${error} />
    ${shown.truncated && html`<p class="warn">It is shown up to its first 10 MiB.</p>`}
    <fieldset class="choice">
      <legend>Shown as</legend>
      ${["json", "text", "hex"].map(
        (each) => html`<label key=${each}><input type="radio" name="form" checked=${form === each} onChange=${() => setForm(each)} /> ${each}</label>`,
      )}
    </fieldset>
    <h3>Key</h3>
    <${Schema} schema=${message.key_schema} />
    <${Content} content=${shown.key} form=${form} names=${names} />
    <h3>Value</h3>
    <${Schema} schema=${message.value_schema} />
    <${Content} content=${shown.value} form=${form} names=${names} />
    ${shown.headers.length > 0 &&
    html`<h3>Headers</h3>
      <dl>
        ${shown.headers.map((each, index) => html`<dt key=${"n" + index}>${each.key}</dt><dd key=${"v" + index}>${preview(each.value, names)}</dd>`)}
      </dl>`}
    <div class="buttons">
      ${resend && html`<button type="button" onClick=${again}>Send again…</button>`}
      <button type="button" class="main" autofocus onClick=${close}>Close</button>
    </div>
  <//>`;
}

// Rows that are replaced all the time (`moving`) keep their elements, which is quicker than to make new ones.
function Rows({ route, messages, names, resend, label, moving }) {
  const [opened, setOpened] = useState(null);
  return html`<div class="table messages" role="region" aria-label=${label} tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col" class="number partition">Partition</th><th scope="col" class="number offset">Offset</th><th scope="col" class="time">Time</th>
            <th scope="col" class="key">Key</th><th scope="col">Value</th><th scope="col" class="number size">Size</th>
          </tr>
        </thead>
        <tbody>
          ${messages.map(
            (each, index) => html`<tr key=${moving ? index : each.partition + ":" + each.offset} class="opens" onClick=${() => setOpened(each)}>
              <td class="number">${each.partition}</td>
              <td class="number"><button type="button" class="link" aria-label=${`Show offset ${each.offset} of partition ${each.partition}`}>${each.offset}</button></td>
              <td>${time(each.timestamp)}</td>
              <td class="text">${preview(each.key, names)}</td>
              <td class="text value">${preview(each.value, names)}</td>
              <td class="number">${bytes(each.size)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${opened && html`<${Whole} route=${route} message=${opened} names=${names} close=${() => setOpened(null)} resend=${resend} />`}`;
}

function Masks({ masks }) {
  return html`<details class="masks">
    <summary>Masked fields ${masks.names.length > 0 && html`<${Badge}>${masks.names.length}<//>`}</summary>
    <label>Names or paths of JSON fields, a regular expression a line
      <textarea rows="3" value=${masks.text} onInput=${(event) => masks.setText(event.target.value)} placeholder="password\n^\$\.card"></textarea>
    </label>
  </details>`;
}

export function Produce({ route, first, close, done }) {
  const text = (content) => (content === null || content === undefined ? "" : typeof content === "string" ? content : JSON.stringify(content));
  const [key, setKey] = useState(text(first?.key));
  const [value, setValue] = useState(text(first?.value));
  const [partition, setPartition] = useState("");
  const [isNull, setNull] = useState(first ? first.value === null : false);
  const [written, setWritten] = useState(null);
  const [state, change] = useChange();
  // What was binary and has not been edited is sent as it was.
  const content = (edited, old) => (old && typeof old === "object" && edited === text(old) ? old : edited);
  const send = (event) => {
    event.preventDefault();
    change(async () => {
      const body = { key: key === "" ? null : content(key, first?.key), value: isNull ? null : content(value, first?.value), headers: first?.headers ?? [] };
      if (partition !== "") body.partition = Number(partition);
      setWritten(await ask(`topics/${part(route.name)}/messages`, { method: "POST", body, query: { cluster: route.cluster } }));
      done?.();
    });
  };
  return html`<${Dialog} title=${"Write a message to " + route.name} close=${close}>
    <form onSubmit=${send}>
      <label>Key <input value=${key} onInput=${(event) => setKey(event.target.value)} placeholder="none" /></label>
      <label>Value <textarea rows="8" value=${value} disabled=${isNull} onInput=${(event) => setValue(event.target.value)}></textarea></label>
      <label class="check"><input type="checkbox" checked=${isNull} onChange=${(event) => setNull(event.target.checked)} /> null (a tombstone)</label>
      <label>Partition <input type="number" min="0" value=${partition} onInput=${(event) => setPartition(event.target.value)} placeholder="by key" /></label>
      <${Failure} error=${state.error} />
      ${written && html`<p role="status">Written to partition ${written.partition} at offset ${written.offset}.</p>`}
      <div class="buttons"><button type="button" onClick=${close}>Close</button><button class="main" disabled=${state.busy}>Write</button></div>
    </form>
  <//>`;
}

export function Messages({ route, topic, mayChange }) {
  const masks = useMasks();
  const [writing, setWriting] = useState(null);
  const from = route.query.get("from") ?? "-" + LIMIT;
  const partition = route.query.get("partition") ?? "";
  const offsets = route.query.get("offsets") ?? "";
  const ends = route.query.get("ends") ?? "";
  const query = { cluster: route.cluster, from, partition: offsets || ends ? "" : partition, offsets, ends, limit: route.query.get("limit") ?? LIMIT, isolation: route.query.get("isolation") };
  const { data, error, loading, reload } = useLoad((signal) => ask(`topics/${part(route.name)}/messages`, { query, signal }), [route.name, query]);
  const [text, setText] = useState(from);
  useLayoutEffect(() => setText(from), [from]); // at once: later it could replace what somebody has begun to write
  const go = (event) => {
    event?.preventDefault();
    alter(route, { from: text, offsets: "", ends: "" }, true);
    if (text === from) reload();
  };
  const newest = from.startsWith("-") && !offsets;
  const later = data && Object.entries(data.next).some(([index, offset]) => offset < data.ends[index]);
  const earlier = data && newest && data.messages.length > 0;
  return html`<form class="bar" onSubmit=${go}>
      <label>From <input name="from" list="positions" value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <datalist id="positions"><option value="earliest" /><option value="-50" /><option value="10 minutes ago" /><option value="1 hour ago" /></datalist>
      <label>Partition
        <select value=${partition} onChange=${(event) => alter(route, { partition: event.target.value, offsets: "", ends: "" }, true)}>
          <option value="">all</option>
          ${topic.partitions.map((each) => html`<option key=${each.partition} value=${each.partition}>${each.partition}</option>`)}
        </select>
      </label>
      <button class="main">Show</button>
      <button type="button" onClick=${() => alter(route, { from: "-" + LIMIT, offsets: "", ends: "" }, true)}>Newest</button>
      <button type="button" onClick=${() => alter(route, { from: "earliest", offsets: "", ends: "" }, true)}>Oldest</button>
      ${mayChange && html`<button type="button" onClick=${() => setWriting({})}>Write…</button>`}
    </form>
    <${Masks} masks=${masks} />
    <${Failure} error=${error} again=${reload} />
    ${loading && html`<${Loading} />`}
    ${data &&
    html`${data.offline.length > 0 && html`<p class="warn">Without a leader, not shown: partitions ${data.offline.join(", ")}.</p>`}
      ${!data.complete && html`<p class="warn">The cluster is slow: these are the messages read before the timeout.</p>`}
      ${data.messages.length === 0
        ? html`<p class="quiet">No messages here.</p>`
        : html`<${Rows} route=${route} messages=${data.messages} names=${masks.names} label="Messages" resend=${mayChange && ((each) => setWriting(each))} />`}
      <div class="buttons">
        ${earlier && html`<button type="button" onClick=${() => alter(route, { ends: positions(data.first), offsets: "" }, true)}>Earlier</button>`}
        ${later && html`<button type="button" onClick=${() => alter(route, { offsets: positions(data.next), ends: "" }, true)}>Later</button>`}
      </div>`}
    ${writing && html`<${Produce} route=${route} first=${writing.offset === undefined ? null : writing} close=${() => setWriting(null)} done=${reload} />`}`;
}

const FIELDS = [["value", "Value has"], ["key", "Key has"], ["header", "Header NAME=TEXT"], ["json", "JSON PATH=VALUE"]];

export function Search({ route, mayChange }) {
  const masks = useMasks();
  const [state, setState] = useState({ running: false, messages: [], progress: null, done: null, error: null });
  const [writing, setWriting] = useState(null);
  const stop = useRef(null);
  const form = useRef(null);
  const end = () => {
    stop.current?.();
    stop.current = null;
  };
  useEffect(() => end, [route.name, route.cluster]);
  const run = (resume) => {
    end();
    const values = Object.fromEntries(new FormData(form.current));
    values.regex = values.regex ? 1 : "";
    alter(route, { ...values, offsets: "", ends: "" });
    const query = { ...values, cluster: route.cluster };
    if (resume) Object.assign(query, { from: "", offsets: positions(resume) });
    const found = resume ? state.messages : [];
    setState({ running: true, messages: found, progress: null, done: null, error: null });
    let waiting = [];
    const flush = () => {
      const more = waiting;
      waiting = [];
      return more;
    };
    const finish = (change) => {
      end();
      const more = flush();
      setState((old) => ({ ...old, running: false, messages: old.messages.concat(more), ...change }));
    };
    stop.current = listen(`topics/${part(route.name)}/search`, query, {
      message: (each) => waiting.push(each),
      progress: (progress) => {
        const more = flush();
        setState((old) => ({ ...old, progress, messages: more.length ? old.messages.concat(more) : old.messages }));
      },
      done: (done) => finish({ done }),
      failed: ({ error }) => finish({ error }),
      lost: () => finish({ error: { message: "The connection to the console is lost." } }),
    }, { once: true });
  };
  const cancel = () => {
    end();
    setState((old) => ({ ...old, running: false, done: { reason: "cancelled", ...old.progress, resume: {} } }));
  };
  const { progress, done } = state;
  const shares = Object.values(progress?.partitions ?? {});
  const at = shares.reduce((sum, each) => sum + each.at, 0);
  const total = shares.reduce((sum, each) => sum + each.end, 0);
  const why = { end: "all messages seen", limit: "enough found", time: "out of time", bytes: "enough read", cancelled: "cancelled" };
  return html`<form class="bar" ref=${form} onSubmit=${(event) => (event.preventDefault(), run(null))}>
      ${FIELDS.map(([name, title]) => html`<label key=${name}>${title} <input name=${name} defaultValue=${route.query.get(name) ?? ""} /></label>`)}
      <label>From <input name="from" defaultValue=${route.query.get("from") ?? "earliest"} /></label>
      <label>To <input name="to" defaultValue=${route.query.get("to") ?? ""} placeholder="end" /></label>
      <label>Partitions <input name="partitions" defaultValue=${route.query.get("partitions") ?? ""} placeholder="all" /></label>
      <label class="check"><input type="checkbox" name="regex" defaultChecked=${route.query.get("regex") === "1"} /> regular expressions</label>
      ${state.running ? html`<button key="stop" type="button" class="main" onClick=${cancel}>Stop</button>` : html`<button key="search" class="main">Search</button>`}
    </form>
    <${Masks} masks=${masks} />
    <${Failure} error=${state.error} />
    ${!progress && (state.running || done) && html`<p class="quiet" role="status">${state.running ? "Searching…" : `Nothing seen yet; ${why[done.reason]}.`}</p>`}
    ${progress &&
    html`<div class="progress">
      <progress max=${Math.max(total, 1)} value=${at} aria-label="Searched"></progress>
      <span role="status">${number(progress.scanned)} messages seen, ${number(progress.matched)} found${state.running ? html`, ${number(progress.rate)} a second` : ""}${done ? html`; ${why[done.reason]}` : ""}</span>
      ${done && Object.keys(done.resume).length > 0 && html`<button type="button" onClick=${() => run(done.resume)}>Go on</button>`}
    </div>`}
    ${state.messages.length > 0 && html`<${Rows} route=${route} messages=${state.messages} names=${masks.names} label="Found messages" resend=${mayChange && setWriting} />`}
    ${writing && html`<${Produce} route=${route} first=${writing} close=${() => setWriting(null)} />`}`;
}

export function Tail({ route }) {
  const masks = useMasks();
  const [paused, setPaused] = useState(false);
  const [state, setState] = useState({ messages: [], many: false, rate: 0, skipped: 0, error: null, lost: false });
  useEffect(() => {
    if (paused) return undefined;
    const query = { cluster: route.cluster, partitions: route.query.get("partitions") };
    let stopped = () => {};
    let waiting = [];
    let numbers = null;
    let timer;
    // When more come than anybody can read, fewer are shown until one pauses, and less often: laying them out takes
    // processor time that the broker may want.
    const show = () => {
      const many = waiting.length >= SHOWN_OF_MANY;
      timer = setTimeout(show, many ? MANY_EVERY_MS : SHOWN_EVERY_MS);
      if (!numbers) return;
      const [more, { rate, skipped }] = [waiting.reverse(), numbers];
      [waiting, numbers] = [[], null];
      setState((old) => ({
        messages: more.length ? more.concat(old.messages).slice(0, KEPT) : old.messages,
        many,
        rate,
        skipped: old.skipped + skipped,
        error: null,
        lost: false,
      }));
    };
    timer = setTimeout(show, SHOWN_EVERY_MS);
    stopped = listen(`topics/${part(route.name)}/tail`, query, {
      messages: ({ messages, rate, skipped }) => {
        const all = waiting.concat(messages);
        waiting = all.slice(-KEPT);
        numbers = { rate, skipped: (numbers?.skipped ?? 0) + skipped + all.length - waiting.length };
      },
      failed: ({ error }) => {
        stopped();
        setState((old) => ({ ...old, error }));
      },
      lost: () => setState((old) => ({ ...old, lost: true })),
    });
    return () => {
      stopped();
      clearTimeout(timer);
    };
  }, [route.name, route.cluster, route.query.get("partitions"), paused]);
  const rows = state.many && !paused ? state.messages.slice(0, SHOWN_OF_MANY) : state.messages;
  return html`<div class="bar">
      <button type="button" class="main" onClick=${() => setPaused(!paused)}>${paused ? "Go on" : "Pause"}</button>
      <span role="status">${number(state.rate)} messages a second${state.skipped > 0 ? html`; ${number(state.skipped)} not shown` : ""}</span>
      ${state.lost && html`<${Badge} kind="bad">connection lost<//>`}
    </div>
    <${Masks} masks=${masks} />
    <${Failure} error=${state.error} />
    ${state.messages.length === 0
      ? html`<p class="quiet">Waiting for messages…</p>`
      : html`<${Rows} route=${route} messages=${rows} names=${masks.names} label="Newest messages" moving />`}`;
}
