// Groups: their list, one of them, its lag over time.

import { ask, part } from "./api.js";
import { Badge, Dialog, Failure, html, Loading, number, stateKind, Table, useChange, useEffect, useLoad, useRef, useState } from "./ui.js";
import { alter, place } from "./route.js";

export function Groups({ route }) {
  const { data, error, reload } = useLoad((signal) => ask("groups", { query: { cluster: route.cluster }, signal }), [route.cluster], 5000);
  const filter = route.query.get("filter") ?? "";
  const rows = (data ?? []).filter((each) => each.group.toLowerCase().includes(filter.toLowerCase()));
  const columns = [
    { id: "group", title: "Group", sort: (each) => each.group, cell: (each) => html`<a href=${place(route.cluster, "groups", each.group)}>${each.group}</a>` },
    { id: "type", title: "Type", sort: (each) => each.type, cell: (each) => each.type },
    { id: "state", title: "State", sort: (each) => each.state, cell: (each) => html`<${Badge} kind=${stateKind(each.state)}>${each.state || "unknown"}<//>` },
    { id: "members", title: "Members", number: true, sort: (each) => each.members, cell: (each) => number(each.members) },
    { id: "coordinator", title: "Coordinator", number: true, sort: (each) => each.coordinator, cell: (each) => each.coordinator },
  ];
  return html`<h1>Groups ${data && html`<small>${number(rows.length)}</small>`}</h1>
    <div class="bar"><label>Filter <input id="search" type="search" value=${filter} onInput=${(event) => alter(route, { filter: event.target.value })} /></label></div>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<${Table} label="Groups" columns=${columns} rows=${rows} rowKey=${(each) => each.group} empty="There are no groups." open=${(each) => (location.hash = place(route.cluster, "groups", each.group))} />`}`;
}

export function Group({ route, mayChange }) {
  const query = { cluster: route.cluster };
  const { data, error, reload } = useLoad((signal) => ask("groups/" + part(route.name), { query, signal }), [route.cluster, route.name], 5000);
  const [dialog, setDialog] = useState(null);
  const total = data?.lag.reduce((sum, each) => sum + (each.lag ?? 0), 0);
  const columns = [
    { id: "topic", title: "Topic", sort: (each) => each.topic, cell: (each) => html`<a href=${place(route.cluster, "topics", each.topic)}>${each.topic}</a>` },
    { id: "partition", title: "Partition", number: true, sort: (each) => each.partition, cell: (each) => each.partition },
    { id: "committed", title: "Committed", number: true, sort: (each) => each.committed, cell: (each) => number(each.committed) },
    { id: "end", title: "End", number: true, sort: (each) => each.end, cell: (each) => number(each.end) },
    { id: "lag", title: "Lag", number: true, sort: (each) => each.lag, cell: (each) => number(each.lag) },
    { id: "member", title: "Member", cell: (each) => each.member ?? html`<span class="quiet">none</span>` },
  ];
  return html`<p class="path"><a href=${place(route.cluster, "groups")}>Groups</a></p>
    <h1>${route.name}</h1>
    <${Failure} error=${error} again=${reload} />
    ${!data && !error && html`<${Loading} />`}
    ${data &&
    html`<p><${Badge} kind=${stateKind(data.state)}>${data.state}<//> <span class="quiet">${data.type} group · coordinator ${number(data.coordinator)}${data.assignor ? " · assignor " + data.assignor : ""} · lag ${number(total)}</span></p>
      <h2>Lag over time</h2>
      <${Lag} route=${route} />
      <h2>Partitions</h2>
      <${Table} label="Lag of partitions" columns=${columns} rows=${data.lag} rowKey=${(each) => each.topic + ":" + each.partition} empty="It has committed nothing." />
      ${mayChange &&
      html`<div class="buttons">
        <button type="button" onClick=${() => setDialog("seek")}>Go to…</button>
        <button type="button" class="danger" onClick=${() => setDialog("delete")}>Delete…</button>
      </div>`}
      <h2>Members</h2>
      <${Table}
        label="Members"
        rows=${data.members}
        rowKey=${(each) => each.id}
        empty="It has no members."
        columns=${[
          { id: "id", title: "Member", sort: (each) => each.id, cell: (each) => each.id },
          { id: "client", title: "Client", sort: (each) => each.client_id, cell: (each) => each.client_id },
          { id: "host", title: "Host", sort: (each) => each.host, cell: (each) => each.host },
          { id: "partitions", title: "Has", cell: (each) => [...each.partitions, ...each.tasks].map((one) => `${one.topic}-${one.partition}`).join(", ") },
        ]}
      />`}
    ${dialog === "seek" && html`<${Seek} route=${route} close=${() => setDialog(null)} done=${reload} />`}
    ${dialog === "delete" && html`<${Delete} route=${route} close=${() => setDialog(null)} />`}`;
}

const clock = (seconds) => (seconds === null ? "–" : new Date(seconds * 1000).toLocaleTimeString("en-GB"));
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];

function Lag({ route }) {
  const box = useRef(null);
  const [Plot, setPlot] = useState(null);
  useEffect(() => {
    let wanted = true;
    import("../vendor/uplot.js").then((uplot) => wanted && setPlot(() => uplot.default), () => {});
    return () => (wanted = false);
  }, []);
  const { data, error } = useLoad((signal) => ask(`groups/${part(route.name)}/history`, { query: { cluster: route.cluster, minutes: 60 }, signal }), [route.cluster, route.name], 5000);
  useEffect(() => {
    if (!data || !Plot || !box.current) return undefined;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [first, last] = [data.times[0] ?? Date.now(), data.times[data.times.length - 1] ?? Date.now()].map((each) => each / 1000);
    const topics = Object.keys(data.topics).slice(0, COLOURS.length);
    const axis = { space: 80,  stroke: colour("--quiet"), grid: { stroke: colour("--border"), width: 1 }, ticks: { stroke: colour("--border") } };
    // A single sample has no span of time: uPlot would show years.
    const isFirst = data.times.length === 1;
    const times = data.times.map((each) => each / 1000);
    if (isFirst) times.unshift(times[0] - 60);
    const plot = new Plot(
      {
        width: box.current.clientWidth || 600,
        height: 200,
        cursor: { y: false },
        scales: { x: { range: [Math.min(first, last - 60), last] }, y: { range: (_, low, high) => [0, Math.max(high ?? 0, 5) * 1.1] } },
        axes: [{ ...axis, values: (_, splits) => splits.map(clock) }, { ...axis, size: 70 }],
        series: [{ value: (_, seconds) => clock(seconds ?? null) }, ...topics.map((name, index) => ({ label: name, stroke: colour(COLOURS[index]), width: 2, points: { show: data.times.length < 3 } }))],
      },
      [times, ...topics.map((name) => (isFirst ? [null, ...data.topics[name]] : data.topics[name]))],
      box.current,
    );
    const resize = () => plot.setSize({ width: box.current.clientWidth, height: 200 });
    addEventListener("resize", resize);
    return () => {
      removeEventListener("resize", resize);
      plot.destroy();
    };
  }, [data, Plot]);
  const words = data && Object.entries(data.topics).map(([name, lags]) => `${name}: ${lags[lags.length - 1] ?? "unknown"}`).join(", ");
  return html`<${Failure} error=${error} />
    <div ref=${box} class="plot" role="img" aria-label=${"Lag over time; now " + (words || "nothing")}></div>
    <p class="quiet">${data && !data.times.length ? "The first sample is taken in a few seconds." : "Sampled every five seconds while this page is open."}</p>`;
}

function Seek({ route, close, done }) {
  const [plan, setPlan] = useState(null);
  const [state, change] = useChange();
  const form = useRef(null);
  const ask_for = (execute) =>
    change(async () => {
      const values = Object.fromEntries(new FormData(form.current));
      const topics = values.topics.split(/[\s,]+/).filter(Boolean);
      const rows = await ask(`groups/${part(route.name)}/seek`, { method: "POST", body: { to: values.to, topics, execute }, query: { cluster: route.cluster } });
      setPlan(rows);
      if (execute) {
        done();
        close();
      }
    });
  return html`<${Dialog} title=${"Where " + route.name + " goes on"} close=${close}>
    <form ref=${form} onSubmit=${(event) => (event.preventDefault(), ask_for(false))}>
      <label>To <input name="to" required autofocus placeholder="earliest, latest, 42, -10, 2026-11-23T10:00, 10 minutes ago" onInput=${() => setPlan(null)} /></label>
      <label>Topics <input name="topics" placeholder="all that it has committed" onInput=${() => setPlan(null)} /></label>
      <${Failure} error=${state.error} />
      ${plan &&
      html`<div class="table"><table>
        <thead><tr><th scope="col">Topic</th><th scope="col" class="number">Partition</th><th scope="col" class="number">Committed</th><th scope="col" class="number">New</th></tr></thead>
        <tbody>${plan.map((each) => html`<tr key=${each.topic + each.partition}><td>${each.topic}</td><td class="number">${each.partition}</td><td class="number">${number(each.committed)}</td><td class="number">${number(each.new)}</td></tr>`)}</tbody>
      </table></div>`}
      <div class="buttons">
        <button type="button" onClick=${close}>Cancel</button>
        <button disabled=${state.busy}>Show</button>
        <button type="button" class="main" disabled=${!plan || state.busy} onClick=${() => ask_for(true)}>Commit</button>
      </div>
    </form>
  <//>`;
}

function Delete({ route, close }) {
  const [state, change] = useChange();
  const remove = async () => {
    if (await change(() => ask("groups/" + part(route.name), { method: "DELETE", query: { cluster: route.cluster } }))) location.hash = place(route.cluster, "groups");
  };
  return html`<${Dialog} title=${"Delete " + route.name + "?"} close=${close}>
    <p>All that it has committed is forgotten.</p>
    <${Failure} error=${state.error} />
    <div class="buttons"><button type="button" autofocus onClick=${close}>Keep it</button><button type="button" class="danger" disabled=${state.busy} onClick=${remove}>Delete</button></div>
  <//>`;
}
