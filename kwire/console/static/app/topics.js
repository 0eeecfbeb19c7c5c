// The list of topics, and one of them.

import { ask, listen, part } from "./api.js";
import { Badge, bytes, Dialog, Failure, html, Loading, number, stateKind, Table, Tabs, useChange, useEffect, useLoad, useMemo, useRef, useState, useStored } from "./ui.js";
import { Messages, Search, Tail } from "./messages.js";
import { alter, place } from "./route.js";

export function Topics({ route, mayChange }) {
  const { data, error, reload } = useLoad((signal) => ask("topics", { query: { cluster: route.cluster }, signal }), [route.cluster], 5000);
  const [favourites, setFavourites] = useStored("kwire.favourites." + route.cluster, []);
  const [sizes, setSizes] = useState({});
  const [creating, setCreating] = useState(false);
  const asked = useRef(new Set());
  const filter = route.query.get("filter") ?? "";
  const internal = route.query.get("internal") === "1";
  useEffect(() => {
    asked.current = new Set();
    setSizes({});
    return () => (asked.current = null);
  }, [route.cluster]);
  const rows = useMemo(() => {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (data ?? []).filter((each) => (internal || !each.internal) && words.every((word) => each.name.toLowerCase().includes(word)));
    const rank = (each) => (favourites.includes(each.name) ? 0 : 1);
    return found.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
  }, [data, filter, internal, favourites]);
  const seen = (shown) => {
    const known = asked.current;
    const names = shown.map((each) => each.name).filter((name) => !known.has(name)).slice(0, 100);
    if (!names.length) return;
    names.forEach((name) => known.add(name));
    ask("topics/sizes", { query: { names: names.join(","), cluster: route.cluster } })
      .then((found) => setSizes((old) => ({ ...old, ...Object.fromEntries(found.map((each) => [each.name, each])) })))
      .catch(() => {
        names.forEach((name) => known.delete(name));
        setTimeout(() => asked.current === known && seen(shown), 5000);
      });
  };
  const turn = (name) => setFavourites(favourites.includes(name) ? favourites.filter((each) => each !== name) : [...favourites, name]);
  const open = (each) => (location.hash = place(route.cluster, "topics", each.name));
  const columns = [
    { id: "star", title: "", cell: (each) => html`<button type="button" class="star" aria-pressed=${favourites.includes(each.name) ? "true" : "false"} aria-label=${"Favourite " + each.name} onClick=${() => turn(each.name)}>${favourites.includes(each.name) ? "★" : "☆"}</button>` },
    { id: "name", title: "Topic", sort: (each) => each.name, cell: (each) => html`<a href=${place(route.cluster, "topics", each.name)}>${each.name}</a>` },
    { id: "partitions", title: "Partitions", number: true, sort: (each) => each.partitions, cell: (each) => number(each.partitions) },
    { id: "replicas", title: "Replicas", number: true, sort: (each) => each.replication_factor, cell: (each) => each.replication_factor },
    { id: "records", title: "Messages", number: true, cell: (each) => number(sizes[each.name]?.records) },
    { id: "bytes", title: "Size", number: true, cell: (each) => bytes(sizes[each.name]?.bytes) },
    { id: "state", title: "State", sort: (each) => -each.offline * 1e6 - each.under_replicated, cell: (each) => html`${each.offline > 0 && html`<${Badge} kind="bad">${each.offline} offline<//>`}${each.under_replicated > 0 && html`<${Badge} kind="warn">${each.under_replicated} under-replicated<//>`}${each.offline + each.under_replicated === 0 && html`<${Badge} kind="good">in sync<//>`}` },
  ];
  return html`<h1>Topics ${data && html`<small>${number(rows.length)}</small>`}</h1>
    <div class="bar">
      <label>Filter <input id="search" type="search" value=${filter} onInput=${(event) => alter(route, { filter: event.target.value })} /></label>
      <label class="check"><input type="checkbox" checked=${internal} onChange=${(event) => alter(route, { internal: event.target.checked ? "1" : "" })} /> internal topics</label>
      ${mayChange && html`<button type="button" onClick=${() => setCreating(true)}>New topic…</button>`}
    </div>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Topics" columns=${columns} rows=${rows} rowKey=${(each) => each.name} open=${open} seen=${seen} empty=${filter ? "No topic has this in its name." : "There are no topics yet."} />`}
    ${creating && html`<${Create} route=${route} close=${() => setCreating(false)} done=${reload} />`}`;
}

function Create({ route, close, done }) {
  const [state, change] = useChange();
  const create = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    const configs = Object.fromEntries(values.configs.split("\n").map((each) => each.trim()).filter(Boolean).map((each) => each.split(/=(.*)/s).slice(0, 2)));
    const body = { name: values.name, configs };
    if (values.partitions) body.partitions = Number(values.partitions);
    if (values.replicas) body.replication_factor = Number(values.replicas);
    if (await change(() => ask("topics", { method: "POST", body, query: { cluster: route.cluster } }))) {
      done();
      close();
    }
  };
  return html`<${Dialog} title="New topic" close=${close}>
    <form onSubmit=${create}>
      <label>Name <input name="name" required autofocus /></label>
      <label>Partitions <input name="partitions" type="number" min="1" placeholder="the cluster's default" /></label>
      <label>Replicas <input name="replicas" type="number" min="1" placeholder="the cluster's default" /></label>
      <label>Configurations, NAME=VALUE a line <textarea name="configs" rows="4"></textarea></label>
      <${Failure} error=${state.error} />
      <div class="buttons"><button type="button" onClick=${close}>Cancel</button><button class="main" disabled=${state.busy}>Create</button></div>
    </form>
  <//>`;
}

const TABS = [["messages", "Messages"], ["search", "Search"], ["tail", "Live"], ["partitions", "Partitions"], ["groups", "Groups"], ["configs", "Configuration"], ["producers", "Producers"]];

export function Topic({ route, mayChange }) {
  const query = { cluster: route.cluster };
  const { data, error, reload } = useLoad((signal) => ask("topics/" + part(route.name), { query, signal }), [route.cluster, route.name]);
  const tab = route.query.get("tab") ?? "messages";
  const choose = (next) => (location.hash = place(route.cluster, "topics", route.name, { tab: next }));
  const page = { messages: Messages, search: Search, tail: Tail, partitions: Partitions, groups: TopicGroups, configs: Configs, producers: Producers }[tab] ?? Messages;
  return html`<p class="path"><a href=${place(route.cluster, "topics")}>Topics</a></p>
    <h1>${route.name}</h1>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data &&
    html`<p class="quiet">${number(data.partitions.length)} partitions · ${number(data.partitions.reduce((sum, each) => sum + (each.end ?? 0) - (each.start ?? 0), 0))} messages · ${bytes(data.partitions.reduce((sum, each) => sum + (each.bytes ?? 0), 0))} · id ${data.id}</p>
      <${Tabs} tabs=${TABS} chosen=${tab} choose=${choose} />
      <section role="tabpanel" aria-labelledby=${"tab-" + tab}>
        <${page} key=${tab} route=${route} topic=${data} mayChange=${mayChange} reload=${reload} />
      </section>`}`;
}

function Partitions({ route, topic, mayChange, reload }) {
  const [changes, setChanges] = useState({});
  const [state, change] = useChange();
  useEffect(
    () =>
      listen("events", { cluster: route.cluster, topics: route.name }, {
        partitions: (changed) => setChanges((old) => ({ ...old, ...Object.fromEntries(changed.map((each) => [each.partition, each])) })),
      }),
    [route.cluster, route.name],
  );
  useEffect(() => setChanges({}), [topic]);
  const rows = topic.partitions.map((each) => ({ ...each, ...changes[each.partition] }));
  const enlarge = async (event) => {
    event.preventDefault();
    const count = Number(new FormData(event.target).get("count"));
    if (await change(() => ask(`topics/${part(route.name)}/partitions`, { method: "POST", body: { count }, query: { cluster: route.cluster } }))) reload();
  };
  const replica = (row, id) => {
    const kind = row.leader === id ? "leader" : row.isr.includes(id) ? "good" : "bad";
    const words = { leader: "leader", good: "in sync", bad: "not in sync" }[kind];
    return html`<span key=${id} class=${"replica " + kind} title=${`Broker ${id}: ${words}`}>${id}<span class="unseen"> ${words}</span></span>`;
  };
  return html`<p class="quiet legend"><span class="replica leader">1</span> leader <span class="replica good">2</span> in sync <span class="replica bad">3</span> not in sync</p>
    <${Table}
      label="Partitions"
      rows=${rows}
      rowKey=${(each) => each.partition}
      columns=${[
        { id: "partition", title: "Partition", number: true, sort: (each) => each.partition, cell: (each) => each.partition },
        { id: "leader", title: "Leader", number: true, sort: (each) => each.leader, cell: (each) => (each.leader === null ? html`<${Badge} kind="bad">none<//>` : each.leader) },
        { id: "replicas", title: "Replicas", cell: (each) => each.replicas.map((id) => replica(each, id)) },
        { id: "start", title: "First offset", number: true, sort: (each) => each.start, cell: (each) => number(each.start) },
        { id: "end", title: "End", number: true, sort: (each) => each.end, cell: (each) => number(each.end) },
        { id: "bytes", title: "Size", number: true, sort: (each) => each.bytes, cell: (each) => bytes(each.bytes) },
      ]}
    />
    ${mayChange && html`<form class="bar" onSubmit=${enlarge}><label>Partitions <input name="count" type="number" min=${topic.partitions.length + 1} required /></label><button disabled=${state.busy}>Add</button></form>`}
    <${Failure} error=${state.error} />`;
}

function TopicGroups({ route }) {
  const { data, error, reload } = useLoad((signal) => ask(`topics/${part(route.name)}/groups`, { query: { cluster: route.cluster }, signal }), [route.cluster, route.name], 5000);
  const columns = [
    { id: "group", title: "Group", sort: (each) => each.group, cell: (each) => html`<a href=${place(route.cluster, "groups", each.group)}>${each.group}</a>` },
    { id: "type", title: "Type", sort: (each) => each.type, cell: (each) => each.type },
    { id: "state", title: "State", sort: (each) => each.state, cell: (each) => html`<${Badge} kind=${stateKind(each.state)}>${each.state}<//>` },
    { id: "members", title: "Members", number: true, sort: (each) => each.members, cell: (each) => each.members },
    { id: "lag", title: "Lag", number: true, sort: (each) => each.lag, cell: (each) => number(each.lag) },
  ];
  return html`<${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Groups" columns=${columns} rows=${data} rowKey=${(each) => each.group} empty="No group reads this topic." open=${(each) => (location.hash = place(route.cluster, "groups", each.group))} />`}`;
}

export function ConfigTable({ configs, edit }) {
  const [all, setAll] = useState(false);
  const rows = configs.filter((each) => all || !each.default);
  const value = (each) => (each.sensitive ? html`<span class="quiet">hidden</span>` : each.value === null ? html`<span class="quiet">null</span>` : each.value);
  const columns = [
    { id: "name", title: "Name", sort: (each) => each.name, cell: (each) => html`<span title=${each.documentation ?? ""}>${each.default ? each.name : html`<strong>${each.name}</strong>`}</span>` },
    { id: "value", title: "Value", cell: value },
    { id: "source", title: "From", sort: (each) => each.source, cell: (each) => each.source },
    ...(edit ? [{ id: "edit", title: "", cell: (each) => !each.read_only && html`<button type="button" onClick=${() => edit(each)}>Change…</button>` }] : []),
  ];
  return html`<label class="check"><input type="checkbox" checked=${all} onChange=${(event) => setAll(event.target.checked)} /> also those with their default</label>
    <${Table} label="Configuration" columns=${columns} rows=${rows} rowKey=${(each) => each.name} empty="All have their default." />`;
}

function Configs({ route, topic, mayChange, reload }) {
  const [editing, setEditing] = useState(null);
  const [state, change] = useChange();
  const [deleting, setDeleting] = useState(false);
  const alterConfig = async (body) => {
    if (await change(() => ask(`topics/${part(route.name)}/configs`, { method: "PATCH", body, query: { cluster: route.cluster } }))) {
      setEditing(null);
      reload();
    }
  };
  const save = (event) => {
    event.preventDefault();
    alterConfig({ set: { [editing.name]: new FormData(event.target).get("value") } });
  };
  const remove = async () => {
    if (await change(() => ask("topics/" + part(route.name), { method: "DELETE", query: { cluster: route.cluster } }))) location.hash = place(route.cluster, "topics");
  };
  if (topic.configs === null) return html`<${Failure} error=${{ message: topic.configs_error }} />`;
  return html`<${ConfigTable} configs=${topic.configs} edit=${mayChange && setEditing} />
    ${mayChange && html`<div class="buttons"><button type="button" class="danger" onClick=${() => setDeleting(true)}>Delete the topic…</button></div>`}
    ${editing &&
    html`<${Dialog} title=${editing.name} close=${() => setEditing(null)}>
      <p class="quiet">${editing.documentation}</p>
      <form onSubmit=${save}>
        <label>Value <input name="value" defaultValue=${editing.value ?? ""} autofocus /></label>
        <${Failure} error=${state.error} />
        <div class="buttons">
          <button type="button" onClick=${() => setEditing(null)}>Cancel</button>
          ${!editing.default && html`<button type="button" onClick=${() => alterConfig({ delete: [editing.name] })}>Take the default</button>`}
          <button class="main" disabled=${state.busy}>Save</button>
        </div>
      </form>
    <//>`}
    ${deleting &&
    html`<${Dialog} title=${"Delete " + route.name + "?"} close=${() => setDeleting(false)}>
      <p>All of its messages are deleted.</p>
      <${Failure} error=${state.error} />
      <div class="buttons"><button type="button" autofocus onClick=${() => setDeleting(false)}>Keep it</button><button type="button" class="danger" onClick=${remove}>Delete</button></div>
    <//>`}`;
}

function Producers({ route }) {
  const { data, error, reload } = useLoad((signal) => ask(`topics/${part(route.name)}/producers`, { query: { cluster: route.cluster }, signal }), [route.cluster, route.name], 5000);
  const columns = [
    { id: "partition", title: "Partition", number: true, sort: (each) => each.partition, cell: (each) => each.partition },
    { id: "producer", title: "Producer id", number: true, sort: (each) => each.producer_id, cell: (each) => each.producer_id },
    { id: "epoch", title: "Epoch", number: true, cell: (each) => each.epoch },
    { id: "sequence", title: "Last sequence", number: true, cell: (each) => each.last_sequence },
    { id: "transaction", title: "Transaction since offset", number: true, cell: (each) => number(each.transaction_start) },
  ];
  return html`<${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Producers" columns=${columns} rows=${data} rowKey=${(each) => each.partition + ":" + each.producer_id} empty="No producer with an id has written lately." />`}`;
}
