// Brokers, transactions, access, and all clusters.

import { ask, part } from "./api.js";
import { Badge, bytes, Failure, html, Loading, number, stateKind, Table, time, useLoad } from "./ui.js";
import { ConfigTable } from "./topics.js";
import { place } from "./route.js";

function List({ route, path, title, columns, rowKey, empty, open, level = 1 }) {
  const { data, error, reload } = useLoad((signal) => ask(path, { query: { cluster: route.cluster }, signal }), [route.cluster, path], 5000);
  const Title = "h" + level;
  return html`<${Title}>${title}<//>
    ${error?.code === "unsupported" ? html`<p class="quiet">${error.message}</p>` : html`<${Failure} error=${error} again=${reload} />`}
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label=${title} columns=${columns} rows=${data} rowKey=${rowKey} empty=${empty} open=${open} />`}`;
}

const rounded = (value) => number(Math.round(value));
const signedBytes = (value) => (value < 0 ? "−" + bytes(-value) : bytes(value));
const perSecond = (value, words) => (value === null || value === undefined ? "–" : words(value) + "/s");
const ms = (value) => (value === null || value === undefined ? "–" : `${value < 10 ? value.toFixed(1) : rounded(value)} ms`);
const full = (each) => (each.disk_bytes ? 1 - each.free_bytes / each.disk_bytes : null);

function Disk({ broker }) {
  const share = full(broker);
  if (share === null) return "–";
  const words = `${bytes(broker.free_bytes)} of ${bytes(broker.disk_bytes)} free`;
  return html`<meter class="disk" min="0" max="1" high="0.85" optimum="0" value=${share} title=${words} aria-label=${words}></meter> ${Math.round(share * 100)} %`;
}

export function Brokers({ route }) {
  const { data: rates } = useLoad((signal) => ask("brokers/rates", { query: { cluster: route.cluster }, signal }), [route.cluster], 5000);
  const of = (each) => rates?.find((one) => one.id === each.id) ?? {};
  const reasons = [...new Set((rates ?? []).map((each) => each.metrics_error).filter(Boolean))];
  const columns = [
    { id: "id", title: "Broker", number: true, sort: (each) => each.id, cell: (each) => html`<a href=${place(route.cluster, "brokers", String(each.id))}>${each.id}</a>` },
    { id: "state", title: "State", sort: (each) => each.state, cell: (each) => html`<${Badge} kind=${stateKind(each.state)}>${each.state}<//> ${each.controller && html`<${Badge}>controller<//>`}` },
    { id: "host", title: "Address", sort: (each) => each.host, cell: (each) => (each.host === null ? "–" : `${each.host}:${each.port}`) },
    { id: "rack", title: "Rack", sort: (each) => each.rack, cell: (each) => each.rack ?? "–" },
    { id: "leaders", title: "Leads", number: true, sort: (each) => each.leaders, cell: (each) => number(each.leaders) },
    { id: "replicas", title: "Replicas", number: true, sort: (each) => each.replicas, cell: (each) => number(each.replicas) },
    { id: "bytes", title: "Holds", number: true, sort: (each) => each.bytes, cell: (each) => bytes(each.bytes) },
    { id: "free", title: "Disk used", number: true, sort: full, cell: (each) => html`<${Disk} broker=${each} />` },
    { id: "growth", title: "Grows", number: true, sort: (each) => of(each).growth, cell: (each) => perSecond(of(each).growth, signedBytes) },
    { id: "messages", title: "Messages in", number: true, sort: (each) => of(each).messages_in, cell: (each) => perSecond(of(each).messages_in, rounded) },
    { id: "in", title: "In", number: true, sort: (each) => of(each).bytes_in, cell: (each) => perSecond(of(each).bytes_in, bytes) },
    { id: "out", title: "Out", number: true, sort: (each) => of(each).bytes_out, cell: (each) => perSecond(of(each).bytes_out, bytes) },
    { id: "requests", title: "Requests", number: true, sort: (each) => of(each).requests, cell: (each) => perSecond(of(each).requests, rounded) },
    { id: "answer", title: "Answers in", number: true, sort: (each) => of(each).answer_ms, cell: (each) => ms(of(each).answer_ms) },
    { id: "produce", title: "Produce p99", number: true, sort: (each) => of(each).produce_ms, cell: (each) => ms(of(each).produce_ms) },
    { id: "fetch", title: "Fetch p99", number: true, sort: (each) => of(each).fetch_ms, cell: (each) => ms(of(each).fetch_ms) },
  ];
  return html`<${List} route=${route} path="brokers" title="Brokers" columns=${columns} rowKey=${(each) => each.id} open=${(each) => (location.hash = place(route.cluster, "brokers", String(each.id)))} />
    <p class="quiet">Rates are means of the last 30 seconds at most. “Answers in” is measured here, with a small request.${reasons.length > 0 && html` Bytes in and out, requests and their latencies are not known: ${reasons.join("; ")}.`}</p>`;
}

export function Broker({ route }) {
  const { data, error, reload } = useLoad((signal) => ask("configs/brokers/" + part(route.name), { query: { cluster: route.cluster }, signal }), [route.cluster, route.name]);
  return html`<p class="path"><a href=${place(route.cluster, "brokers")}>Brokers</a></p>
    <h1>Broker ${route.name}</h1>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${ConfigTable} configs=${data} />`}`;
}

export function Transactions({ route }) {
  const columns = [
    { id: "id", title: "Transactional id", sort: (each) => each.transactional_id, cell: (each) => html`<a href=${place(route.cluster, "transactions", each.transactional_id)}>${each.transactional_id}</a>` },
    { id: "state", title: "State", sort: (each) => each.state, cell: (each) => html`<${Badge} kind=${each.state === "Ongoing" ? "warn" : "good"}>${each.state}<//>` },
    { id: "producer", title: "Producer id", number: true, sort: (each) => each.producer_id, cell: (each) => each.producer_id },
    { id: "coordinator", title: "Coordinator", number: true, sort: (each) => each.coordinator, cell: (each) => each.coordinator },
  ];
  return html`<${List} route=${route} path="transactions" title="Transactions" columns=${columns} rowKey=${(each) => each.transactional_id} empty="There are no transactional ids." open=${(each) => (location.hash = place(route.cluster, "transactions", each.transactional_id))} />`;
}

export function Transaction({ route }) {
  const { data, error, reload } = useLoad((signal) => ask("transactions/" + part(route.name), { query: { cluster: route.cluster }, signal }), [route.cluster, route.name], 5000);
  return html`<p class="path"><a href=${place(route.cluster, "transactions")}>Transactions</a></p>
    <h1>${route.name}</h1>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data &&
    html`<dl>
      <dt>State</dt><dd>${data.state}</dd>
      <dt>Producer</dt><dd>${data.producer_id}, epoch ${data.producer_epoch}</dd>
      <dt>Timeout</dt><dd>${number(data.timeout_ms)} ms</dd>
      <dt>Since</dt><dd>${time(data.started)}</dd>
      <dt>Partitions</dt>
      <dd>${data.partitions.length === 0 ? "none" : data.partitions.map((each) => html`<span key=${each.topic}><a href=${place(route.cluster, "topics", each.topic)}>${each.topic}</a>: ${each.partitions.join(", ")} </span>`)}</dd>
    </dl>`}`;
}

const word = (id, title) => ({ id, title, sort: (each) => each[id], cell: (each) => each[id] ?? "–" });

export function Access({ route }) {
  const key = (each) => JSON.stringify(each);
  const limit = { ...word("limit", "Limit"), number: true };
  return html`<h1>Access</h1>
    <${List} level=${2} route=${route} path="acls" title="Access control" rowKey=${key} empty="There are no entries."
      columns=${[word("principal", "Principal"), word("permission", "Permission"), word("operation", "Operation"), word("resource", "Resource"), word("pattern", "Pattern"), word("name", "Name"), word("host", "Host")]} />
    <${List} level=${2} route=${route} path="users" title="Users" rowKey=${key} empty="There are no users of SCRAM."
      columns=${[word("user", "User"), word("mechanism", "Mechanism"), word("iterations", "Iterations")]} />
    <${List} level=${2} route=${route} path="quotas" title="Quotas" rowKey=${key} empty="There are no quotas."
      columns=${[word("user", "User"), word("client_id", "Client"), word("ip", "Address"), word("quota", "Quota"), limit]} />`;
}

export function Clusters({ clusters }) {
  const columns = [
    { id: "name", title: "Cluster", sort: (each) => each.name, cell: (each) => html`<a href=${place(each.name, "topics")}>${each.name}</a>` },
    { id: "status", title: "Status", sort: (each) => each.status, cell: (each) => html`<${Badge} kind=${stateKind(each.status)}>${each.status}<//>` },
    { id: "bootstrap", title: "Address", sort: (each) => each.bootstrap, cell: (each) => each.bootstrap },
    { id: "brokers", title: "Brokers", number: true, sort: (each) => each.brokers, cell: (each) => number(each.brokers) },
    { id: "note", title: "Note", cell: (each) => each.error ?? (each.lacks.length ? "An older version: without " + each.lacks.join(", ") : "") },
  ];
  return html`<h1>Clusters</h1>
    <${Table} label="Clusters" columns=${columns} rows=${clusters} rowKey=${(each) => each.name} open=${(each) => (location.hash = place(each.name, "topics"))} />`;
}
