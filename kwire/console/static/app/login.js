// The form with which people log in to a cluster (`kwire console --login`).

import { ask } from "./api.js";
import { Failure, html, useState } from "./ui.js";

export const logOut = () => ask("logout", { method: "POST" }).catch(() => {});

export function Login({ clusters, name, done }) {
  const [failure, setFailure] = useState(null);
  const [waiting, setWaiting] = useState(false);
  const chosen = clusters.includes(name) ? name : clusters[0];
  const send = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setWaiting(true);
    setFailure(null);
    try {
      const body = { cluster: given.get("cluster"), user: given.get("user"), password: given.get("password") };
      await ask("login", { method: "POST", body });
      done();
    } catch (error) {
      setFailure(error);
    }
    setWaiting(false);
  };
  return html`<form class="login" onSubmit=${send} aria-busy=${waiting}>
    <h1>Log in</h1>
    <label>Cluster
      <select name="cluster">${clusters.map((each) => html`<option key=${each} value=${each} selected=${each === chosen}>${each}</option>`)}</select>
    </label>
    <label>Name <input name="user" autocomplete="username" required maxlength="256" /></label>
    <label>Password <input name="password" type="password" autocomplete="current-password" required maxlength="1024" /></label>
    <${Failure} error=${failure} />
    <button type="submit" class="main" disabled=${waiting}>${waiting ? "Logging in…" : "Log in"}</button>
    <p class="quiet">The cluster checks the password, and its access control decides what you see.</p>
  </form>`;
}
