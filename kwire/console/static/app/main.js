// The page: navigation, the place that the address names, light and dark, keys.

import { render } from "../vendor/htm-preact.js";
import { ask, askEarly } from "./api.js";
import { Badge, Failure, html, Loading, stateKind, useEffect, useLayoutEffect, useLoad, useState, useStored } from "./ui.js";
import { Access, Broker, Brokers, Clusters, Transaction, Transactions } from "./cluster.js";
import { Group, Groups } from "./groups.js";
import { Login, logOut } from "./login.js";
import { parse, place } from "./route.js";
import { Topic, Topics } from "./topics.js";

const url = new URL(location.href);
if (url.searchParams.has("token")) {
  url.searchParams.delete("token"); // the cookie has it from now on
  history.replaceState(null, "", url);
}

const firstCluster = document.querySelector("meta[name=first-cluster]").content; // empty where people log in
const first = parse(location.hash);
first.cluster ||= firstCluster;
askEarly("clusters");
if (first.cluster && first.page === "topics" && !first.name) askEarly("topics", { cluster: first.cluster });

const PAGES = {
  topics: ["Topics", Topics, Topic],
  groups: ["Groups", Groups, Group],
  brokers: ["Brokers", Brokers, Broker],
  transactions: ["Transactions", Transactions, Transaction],
  access: ["Access", Access, null],
};
const THEMES = { "": "System", light: "Light", dark: "Dark" };

function useRoute() {
  const [route, setRoute] = useState(() => parse(location.hash));
  // Not an effect after the paint: a place that changes before it would never be shown.
  useLayoutEffect(() => {
    const change = () => setRoute(parse(location.hash));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}

function useKeys() {
  useLayoutEffect(() => {
    const press = (event) => {
      const inField = event.target.closest("input, textarea, select");
      if (event.key === "/" && !inField) {
        const field = document.querySelector("#search, main form.bar input");
        if (field) {
          event.preventDefault();
          field.focus();
          field.select?.();
        }
      } else if (event.key === "Escape" && inField && !event.target.closest("dialog")) {
        event.target.blur();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function Page() {
  const route = useRoute();
  const [theme, setTheme] = useStored("kwire.theme", "");
  const [interval, setInterval] = useState(1000);
  const { data: clusters, error, reload } = useLoad((signal) => ask("clusters", { signal }), [], interval);
  useEffect(() => {
    if (clusters) setInterval(clusters.some((each) => each.status === "connecting") ? 1000 : 5000);
  }, [clusters]);
  const { data: session, reload: reloadSession } = useLoad((signal) => ask("session", { signal }), []);
  const loggedIn = () => (reloadSession(), reload());
  useKeys();
  useEffect(() => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }, [theme]);
  const name = route.cluster || firstCluster || clusters?.[0]?.name || "";
  const here = { ...route, cluster: name };
  const cluster = clusters?.find((each) => each.name === name);
  const [title, Many, One] = PAGES[route.page] ?? PAGES.topics;
  useEffect(() => {
    document.title = `${route.page === "clusters" ? "Clusters" : route.name || title} · kwire console`;
  }, [route.page, route.name]);
  const Shown = route.name && One ? One : Many;
  const mayChange = cluster && !cluster.read_only;
  const wanted = error?.code === "login_needed" || cluster?.status === "login needed";
  const user = session?.users[name];
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>To the content</a>
    <header>
      <a class="brand" href=${place(name, "topics")}>kwire</a>
      ${clusters &&
      html`<label class="cluster"><span class="unseen">Cluster</span>
        <select value=${name} onChange=${(event) => (location.hash = place(event.target.value, PAGES[route.page] ? route.page : "topics"))}>
          ${clusters.map((each) => html`<option key=${each.name} value=${each.name} selected=${each.name === name}>${each.name}</option>`)}
        </select>
      </label>`}
      <nav aria-label="Pages">
        ${Object.entries(PAGES).map(([page, [words]]) => html`<a key=${page} href=${place(name, page)} aria-current=${route.page === page ? "page" : undefined}>${words}</a>`)}
        <a href=${place(name, "clusters")} aria-current=${route.page === "clusters" ? "page" : undefined}>Clusters</a>
      </nav>
      ${cluster && html`<span class="state"><${Badge} kind=${stateKind(cluster.status)}>${cluster.status}<//>${cluster.read_only && html` <${Badge}>read-only<//>`}</span>`}
      ${user && !wanted && html`<span class="user">${user} <button type="button" onClick=${() => logOut().then(loggedIn)}>Log out</button></span>`}
      <label class="theme"><span class="unseen">Colours</span>
        <select value=${theme} onChange=${(event) => setTheme(event.target.value)}>
          ${Object.entries(THEMES).map(([id, words]) => html`<option key=${id} value=${id} selected=${id === theme}>${words}</option>`)}
        </select>
      </label>
    </header>
    <main id="main" tabindex="-1">
      ${wanted && session && html`<${Login} key=${name} clusters=${session.clusters} name=${name} done=${loggedIn} />`}
      ${!wanted && html`<${Failure} error=${error} again=${reload} />`}
      ${cluster?.status === "unreachable" && html`<${Failure} error=${{ message: `${cluster.name} cannot be reached: ${cluster.error}` }} />`}
      ${clusters && !cluster && html`<${Failure} error=${{ message: `There is no cluster ${name}.` }} />`}
      ${!clusters && !error && html`<${Loading} />`}
      ${clusters && route.page === "clusters" && html`<${Clusters} clusters=${clusters} />`}
      ${cluster && !wanted && route.page !== "clusters" && html`<${Shown} key=${[name, route.page, route.name].join("/")} route=${here} mayChange=${mayChange} />`}
    </main>`;
}

render(html`<${Page} />`, document.getElementById("page"));
