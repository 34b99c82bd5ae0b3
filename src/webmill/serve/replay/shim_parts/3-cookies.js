// A jar of its own for each archived origin, for as long as the tab: no cookie is ever set or sent.

const JAR = "__wm cookies";

function makeJar(global, first) {
  let memory = "[]";
  const store = storageOf(global, "sessionStorage");
  const read = () => JSON.parse(store?.getItem(JAR) ?? memory);
  const write = (cookies) => {
    memory = JSON.stringify(cookies.slice(-180));
    try {
      store?.setItem(JAR, memory);
    } catch {} // full
  };

  function add(line, { isFromServer }) {
    const [pair, ...attributes] = String(line).split(";");
    const named = pair.includes("=") ? pair : `=${pair}`;
    const [name, value] = [named.slice(0, named.indexOf("=")).trim(), named.slice(named.indexOf("=") + 1).trim()];
    const about = {};
    for (const attribute of attributes) {
      const [key, ...rest] = attribute.split("=");
      about[key.trim().toLowerCase()] = rest.join("=").trim();
    }
    if ((!name && !value) || "httponly" in about || ("secure" in about && here.protocol !== "https:")) return;
    const domain = (about.domain ?? "").replace(/^\./, "").toLowerCase();
    if (domain && here.hostname !== domain && !here.hostname.endsWith(`.${domain}`)) return;
    const path = about.path?.startsWith("/") ? about.path : defaultPath(global.location.pathname);
    const kept = read().filter((one) => one.name !== name || one.path !== path);
    const same = read().length !== kept.length;
    if (isFromServer && same) return; // what the page made of it since counts
    const age = Number(about["max-age"]);
    const end = about["max-age"] ? Date.now() + age * 1000 : Date.parse(about.expires ?? "");
    // Archived dates of expiry are over: they count only in what scripts set now.
    if (Number.isNaN(end) || isFromServer || end > Date.now()) {
      kept.push({ name, value, path, end: Number.isNaN(end) || isFromServer ? null : end });
    }
    write(kept);
  }

  for (const line of first) add(line, { isFromServer: true });
  return {
    get: () =>
      read()
        .filter((one) => (one.end === null || one.end > Date.now()) && isWithin(global.location.pathname, one.path))
        .sort((one, other) => other.path.length - one.path.length)
        .map((one) => (one.name ? `${one.name}=${one.value}` : one.value))
        .join("; "),
    set: (line) => add(line, { isFromServer: false }),
  };
}

const defaultPath = (path) => path.slice(0, Math.max(1, path.lastIndexOf("/")));
const isWithin = (path, folder) =>
  path === folder || (path.startsWith(folder) && (folder.endsWith("/") || path[folder.length] === "/"));

function storageOf(global, name) {
  try {
    return global[name];
  } catch {
    return null;
  }
}

/** Storage in memory, where the browser gives none. */
function memoryStorage() {
  const values = new Map();
  const methods = {
    getItem: (key) => values.get(String(key)) ?? null,
    setItem: (key, value) => void values.set(String(key), String(value)),
    removeItem: (key) => void values.delete(String(key)),
    clear: () => values.clear(),
    key: (number) => [...values.keys()][number] ?? null,
  };
  return new Proxy(methods, {
    get: (_, key) => (key === "length" ? values.size : (methods[key] ?? values.get(key))),
    set: (_, key, value) => (methods.setItem(key, value), true),
    has: (_, key) => key in methods || values.has(key),
    deleteProperty: (_, key) => (values.delete(key), true),
    ownKeys: () => [...values.keys()],
    getOwnPropertyDescriptor: (_, key) =>
      values.has(key) ? { value: values.get(key), enumerable: true, configurable: true, writable: true } : undefined,
  });
}
