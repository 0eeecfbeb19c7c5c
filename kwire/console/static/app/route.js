// Places in the page: #/CLUSTER/PAGE/NAME?tab=…, so that a link leads there.

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((each) => {
    try {
      return decodeURIComponent(each);
    } catch {
      return each;
    }
  });
  return { cluster: parts[0] || "", page: parts[1] || "topics", name: parts[2] || "", query: new URLSearchParams(query) };
}

export function place(cluster, page, name = "", query = {}) {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") parameters.set(key, value);
  }
  const path = [cluster, page, name].filter((each) => each !== "").map(encodeURIComponent).join("/");
  const text = parameters.toString();
  return "#/" + path + (text ? "?" + text : "");
}

// Change parameters of the place: `push` adds an entry to the history.
export function alter(route, changes, push = false) {
  const query = { ...Object.fromEntries(route.query), ...changes };
  const target = place(route.cluster, route.page, route.name, query);
  if (push) location.hash = target;
  else {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}
