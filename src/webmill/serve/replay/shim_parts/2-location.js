// Where a script is: what it would have seen on the web.

const tag = (value) => Object.prototype.toString.call(value);

function makeLocations(global) {
  const stands = new WeakMap(); // by real location
  const made = new WeakSet();

  function standIn(real) {
    const stand = Object.create((global.Location ?? global.WorkerLocation).prototype);
    const read = () => new native.URL(toOriginal(real.href));
    const define = (name, get, set) =>
      Object.defineProperty(stand, name, { get, set, enumerable: true, configurable: true });
    define("href", () => toOriginal(real.href), (value) => void (real.href = toZone(value)));
    for (const name of ["protocol", "host", "hostname", "port"]) {
      define(name, () => read()[name], (value) => {
        const there = read();
        there[name] = value;
        real.href = toZone(there.href);
      });
    }
    for (const name of ["pathname", "search", "hash"]) define(name, () => real[name], (value) => void (real[name] = value));
    define("origin", () => (real.origin === "null" ? "null" : toOriginal(real.origin)));
    define("ancestorOrigins", () => ({ length: 0, contains: () => false, item: () => null }));
    const methods = {
      assign: (url) => real.assign(toZone(url)),
      replace: (url) => real.replace(toZone(url)),
      reload: () => real.reload(),
      toString: () => toOriginal(real.href),
      valueOf: () => stand,
    };
    for (const [name, value] of Object.entries(methods)) Object.defineProperty(stand, name, { value, enumerable: true });
    Object.defineProperty(stand, Symbol.toPrimitive, { value: undefined });
    made.add(stand);
    return stand;
  }

  /** What stands for a location; anything else as it is. */
  return (value) => {
    if (typeof value !== "object" || value === null) return value;
    if (value !== global.location && (tag(value) !== "[object Location]" || made.has(value))) return value;
    if (!stands.has(value)) stands.set(value, standIn(value));
    return stands.get(value);
  };
}

/** The functions that rewritten scripts call (rewrite_script.py). */
function defineNames(global, functions) {
  for (const [name, value] of Object.entries(functions)) Object.defineProperty(global, name, { value, configurable: true });
}

function hasBanner(global) {
  const above = global.location.ancestorOrigins; // Firefox does not tell
  return global.top !== global.self && (!above || above[above.length - 1] === view);
}

/** The outermost window that is archived: the banner around it never was. */
function makeTop(global, nativeParent) {
  return (value) => {
    if (value === null || typeof value !== "object" || value !== global.top || !hasBanner(global)) return value;
    let window = global.self;
    let above = nativeParent.call(global);
    while (above !== global.top) {
      window = above;
      above = above.parent;
      if (above === window) break;
    }
    return window;
  };
}

/** The arguments of postMessage: the origin to reach is in the zone. */
function message(...values) {
  if (typeof values[1] === "string") values[1] = toZoneOrigin(values[1]);
  else if (typeof values[1]?.targetOrigin === "string") {
    values[1] = { ...values[1], targetOrigin: toZoneOrigin(values[1].targetOrigin) };
  }
  return values;
}

function toZoneOrigin(target) {
  const mapped = toZone(target);
  return mapped === target ? target : new native.URL(mapped).origin;
}
