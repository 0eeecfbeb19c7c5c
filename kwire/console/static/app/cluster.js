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

export function Brokers({ route }) {
  const columns = [
    { id: "id", title: "Broker", number: true, sort: (each) => each.id, cell: (each) => html`<a href=${place(route.cluster, "brokers", String(each.id))}>${each.id}</a>` },
    { id: "state", title: "State", sort: (each) => each.state, cell: (each) => html`<${Badge} kind=${stateKind(each.state)}>${each.state}<//> ${each.controller && html`<${Badge}>controller<//>`}` },
    { id: "host", title: "Address", sort: (each) => each.host, cell: (each) => (each.host === null ? "–" : `${each.host}:${each.port}`) },
    { id: "rack", title: "Rack", sort: (each) => each.rack, cell: (each) => each.rack ?? "–" },
    { id: "leaders", title: "Leads", number: true, sort: (each) => each.leaders, cell: (each) => number(each.leaders) },
    { id: "replicas", title: "Replicas", number: true, sort: (each) => each.replicas, cell: (each) => number(each.replicas) },
    { id: "bytes", title: "Holds", number: true, sort: (each) => each.bytes, cell: (each) => bytes(each.bytes) },
    { id: "free", title: "Disk free", number: true, sort: (each) => each.free_bytes, cell: (each) => (each.disk_bytes === null ? "–" : `${bytes(each.free_bytes)} of ${bytes(each.disk_bytes)}`) },
  ];
  return html`<${List} route=${route} path="brokers" title="Brokers" columns=${columns} rowKey=${(each) => each.id} open=${(each) => (location.hash = place(route.cluster, "brokers", String(each.id)))} />`;
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
