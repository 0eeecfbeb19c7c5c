// Keys, values and headers of messages: as JSON, text or bytes; what is to be masked is masked. Contents are only ever
// text nodes.

import { html, useMemo } from "./ui.js";

export const isBinary = (content) => content !== null && typeof content === "object";

function decoded(content) {
  if (content === null) return new Uint8Array();
  if (isBinary(content)) return Uint8Array.from(atob(content.base64), (each) => each.charCodeAt(0));
  return new TextEncoder().encode(content);
}

export function parsed(content) {
  if (typeof content !== "string" || !/^\s*[\[{]/.test(content)) return undefined;
  try {
    return JSON.parse(content);
  } catch {
    return undefined;
  }
}

// Rules are regular expressions for names of fields, one a line.
export function rules(text) {
  const found = [];
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    try {
      found.push(new RegExp(line, "i"));
    } catch {
      // a rule that is half written
    }
  }
  return found;
}

const MASK = "•••";

export function masked(value, names, path = "$") {
  if (!names.length || value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map((each) => masked(each, names, path));
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => {
      const here = path + "." + key;
      return [key, names.some((rule) => rule.test(key) || rule.test(here)) ? MASK : masked(each, names, here)];
    }),
  );
}

export function preview(content, names) {
  if (content === null) return html`<span class="quiet">null</span>`;
  if (isBinary(content)) return html`<span class="quiet">base64 </span>${content.base64.slice(0, 200)}`;
  const value = names.length ? parsed(content) : undefined;
  const text = value === undefined ? content : JSON.stringify(masked(value, names));
  return text === "" ? html`<span class="quiet">empty</span>` : text.slice(0, 400);
}

function Tree({ name, value, depth }) {
  const label = name === null ? "" : html`<span class="name">${name}</span>: `;
  if (value === null || typeof value !== "object") {
    const kind = value === null ? "null" : typeof value;
    return html`<div class="leaf">${label}<span class=${"value " + kind}>${JSON.stringify(value)}</span></div>`;
  }
  const entries = Object.entries(value).slice(0, 1000);
  const [first, last] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  return html`<details open=${depth < 2}>
    <summary>${label}<span class="quiet">${first} ${Object.keys(value).length} ${last}</span></summary>
    <div class="inner">${entries.map(([key, each]) => html`<${Tree} key=${key} name=${key} value=${each} depth=${depth + 1} />`)}</div>
  </details>`;
}

function hex(content) {
  const all = decoded(content);
  const lines = [];
  for (let at = 0; at < Math.min(all.length, 4096); at += 16) {
    const row = [...all.slice(at, at + 16)];
    const codes = row.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(at.toString(16).padStart(6, "0") + "  " + codes.padEnd(47) + "  " + text);
  }
  if (all.length > 4096) lines.push(`… ${all.length.toLocaleString("en-US")} bytes`);
  return lines.join("\n");
}

export function Content({ content, form, names }) {
  const value = useMemo(() => masked(parsed(content), names), [content, names]);
  if (content === null) return html`<p class="quiet">null</p>`;
  if (form === "hex") return html`<pre tabindex="0">${hex(content)}</pre>`;
  if (form === "json" && value !== undefined) return html`<div class="tree"><${Tree} name=${null} value=${value} depth=${0} /></div>`;
  if (isBinary(content)) return html`<pre tabindex="0">${hex(content)}</pre>`;
  return html`<pre tabindex="0">${value !== undefined && names.length ? JSON.stringify(value, null, 2) : content}</pre>`;
}
