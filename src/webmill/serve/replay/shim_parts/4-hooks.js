// How what the browser offers is wrapped: addresses go in as of the zone, and come out as of the web.

/** Wrap an accessor; a missing one is left out. */
function hook(prototype, name, { get, set }) {
  const found = prototype && Object.getOwnPropertyDescriptor(prototype, name);
  if (!found?.configurable || !(found.get || found.set)) return;
  Object.defineProperty(prototype, name, {
    ...found,
    get: found.get && get ? function () { return get.call(this, found.get.call(this)); } : found.get,
    set: found.set && set ? function (value) { found.set.call(this, set.call(this, value)); } : found.set,
  });
}

/** Wrap a method: `change` gets its arguments, and gives those to call it with. */
function hookCall(owner, name, change, result = (value) => value) {
  const method = owner?.[name];
  if (typeof method !== "function") return;
  const wrapped = {
    [name](...values) {
      return result(method.apply(this, change.call(this, values)));
    },
  }[name];
  Object.defineProperty(wrapped, "length", { value: method.length, configurable: true });
  Object.defineProperty(owner, name, { value: wrapped, writable: true, enumerable: true, configurable: true });
}

/** Wrap a constructor: `change` gets its arguments, and gives those to call it with. */
function hookConstructor(global, name, change) {
  const original = global[name];
  if (typeof original !== "function") return;
  const wrapped = new Proxy(original, {
    construct: (target, values, kind) => Reflect.construct(target, change(values), kind),
  });
  Object.defineProperty(global, name, { value: wrapped, writable: true, configurable: true });
  Object.defineProperty(original.prototype, "constructor", { value: wrapped, writable: true, configurable: true });
}

const first = (map) => (values) => (values.length ? [map(values[0]), ...values.slice(1)] : values);
const at = (number, map) => (values) => values.map((value, index) => (index === number ? map(value) : value));
const PASSED = (value) => value;

/** What pages and workers have in common: requests and workers. */
function hookRequests(global) {
  const request = (value) => (value instanceof global.Request ? value : toZone(value));
  hookCall(global, "fetch", first(request));
  hookConstructor(global, "Request", first(request));
  hook(global.Request?.prototype, "url", { get: toOriginal });
  hook(global.Response?.prototype, "url", { get: toOriginal });
  hookCall(global.XMLHttpRequest?.prototype, "open", at(1, toZone));
  hook(global.XMLHttpRequest?.prototype, "responseURL", { get: toOriginal });
  hookConstructor(global, "EventSource", first(toZone));
  hook(global.EventSource?.prototype, "url", { get: toOriginal });
  hookCall(global, "importScripts", (values) => values.map(toZone));
  hookConstructor(global, "FontFace", at(1, (source) => (typeof source === "string" ? styleToZone(source) : source)));
  hook(global.MessageEvent?.prototype, "origin", { get: toOriginal });
  hook(global.PerformanceEntry?.prototype, "name", { get: toOriginal });
  hookCall(global.navigator && Object.getPrototypeOf(global.navigator), "sendBeacon", first(toZone));
  hookWorkers(global);
  const origin = CONFIG.origin;
  Object.defineProperty(global, "origin", { get: () => origin, set() {}, configurable: true, enumerable: true });
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection", "WebTransport", "cookieStore"]) delete global[name];
}

/** Workers whose script no server has seen get the shim before it. */
function hookWorkers(global) {
  const blobs = new Map(); // by address
  hookCall(global.URL, "createObjectURL", PASSED, PASSED);
  const create = native.URL.createObjectURL;
  const revoke = native.URL.revokeObjectURL;
  global.URL.createObjectURL = (object) => {
    const address = create.call(native.URL, object);
    if (object instanceof native.Blob) blobs.set(address, object);
    return address;
  };
  global.URL.revokeObjectURL = (address) => {
    blobs.delete(address);
    revoke.call(native.URL, address);
  };
  const shim = `${scheme}//${CONFIG.label}${suffix}${CONFIG.shim}`;
  const script = (values) => {
    const [address, options] = values;
    const text = String(address);
    const body = text.startsWith("data:") ? bodyOf(text) : blobs.get(text);
    if (body === undefined) return [toZone(address), ...values.slice(1)];
    const load = options?.type === "module" ? `import ${JSON.stringify(shim)};` : `importScripts(${JSON.stringify(shim)});`;
    const made = new native.Blob([load, body], { type: "text/javascript" });
    return [create.call(native.URL, made), ...values.slice(1)];
  };
  hookConstructor(global, "Worker", script);
  hookConstructor(global, "SharedWorker", (values) => (String(values[0]).startsWith("blob:") ? values : script(values)));
}

function bodyOf(address) {
  const comma = address.indexOf(",");
  const data = address.slice(comma + 1);
  try {
    return /;\s*base64\s*$/i.test(address.slice(0, comma)) ? atob(data) : decodeURIComponent(data);
  } catch {
    return undefined;
  }
}
