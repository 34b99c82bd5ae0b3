// The page: its document, its frames, where it goes, and what it tells the banner.

function hookDocument(global, jar) {
  const { Document, Storage } = global;
  for (const name of ["URL", "documentURI", "referrer"]) {
    hook(Document?.prototype, name, { get: (value) => (value.startsWith(view) ? "" : toOriginal(value)) });
  }
  hook(Document?.prototype, "domain", { get: () => here.hostname });
  Object.defineProperty(Document.prototype, "cookie", { get: jar.get, set: jar.set, enumerable: true, configurable: true });
  for (const name of ["localStorage", "sessionStorage"]) {
    if (!storageOf(global, name)) Object.defineProperty(global, name, { value: memoryStorage(), configurable: true });
  }
  const { ServiceWorkerContainer, DOMException } = global;
  if (ServiceWorkerContainer) {
    ServiceWorkerContainer.prototype.register = () =>
      global.Promise.reject(new DOMException("The archive runs no service workers.", "SecurityError"));
  }
  hookConstructor(global, "Audio", first(toZone));
}

function hookNavigation(global) {
  const history = global.History?.prototype;
  for (const name of ["pushState", "replaceState"]) {
    hookCall(history, name, at(2, toZone), (value) => (reportPlace(global), value));
  }
  global.addEventListener("popstate", () => reportPlace(global));
  hookCall(global, "open", first(toZone));
  global.navigation?.addEventListener("navigate", (event) => {
    const there = toZone(event.destination.url);
    if (there === event.destination.url || !event.cancelable || !URL_LIKE.test(there)) return;
    event.preventDefault();
    global.location[event.navigationType === "replace" ? "replace" : "assign"](there);
  });
  global.document.addEventListener("click", (event) => keepWithin(global, event, event.composedPath()), true);
  global.document.addEventListener("submit", (event) => keepWithin(global, event, [event.target]), true);
  global.addEventListener("message", (event) => {
    const url = event.data?.__wmNavigate;
    if (typeof url === "string" && isOutermost(global) && ZONE_ADDRESS.test(`${event.origin}`)) global.location.href = toZone(url);
    ZONE_ADDRESS.lastIndex = 0;
  });
}

/** There is one window: a link to another one is followed here, and one to the whole window in the outermost page. */
function keepWithin(global, event, path) {
  const element = path.find((one) => one?.target !== undefined && /^(?:a|area|form)$/.test(one.localName));
  if (!element || typeof element.target !== "string" || !OUTWARD.test(element.target)) return;
  const isForAll = /^_(?:top|parent)$/i.test(element.target);
  if (isForAll && !isOutermost(global) && element.localName !== "form") {
    event.preventDefault();
    global.__wmTop(global.top).postMessage({ __wmNavigate: element.href }, "*");
  } else element.target = "_self";
}

/** The archived page right below the banner. A page that is checked (`webmill qa`) has no banner around it. */
const isOutermost = (global) => native.parent.call(global) === global.top && hasBanner(global);

/** Tell the banner where the page is. Its own origin proves which site that is. */
function reportPlace(global) {
  if (!isOutermost(global)) return;
  const { pathname, search } = global.location;
  global.top.postMessage({ webmill: { place: pathname + search } }, view);
}

/** Tell the banner what was asked for and is not in the archive. */
function reportMissing(global) {
  if (!global.PerformanceObserver || !hasBanner(global)) return;
  const name = Object.getOwnPropertyDescriptor(global.PerformanceEntry.prototype, "name").get;
  new global.PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.serverTiming?.some((one) => one.name === "webmill-missing")) {
        global.top.postMessage({ webmill: { missing: toOriginal(name.call(entry)), kind: entry.initiatorType } }, view);
      }
    }
  }).observe({ type: "resource", buffered: true });
}

/** Frames that no server has seen (about:blank) get the shim when a script of the page looks into them. */
function hookFrames(global) {
  for (const kind of ["HTMLIFrameElement", "HTMLFrameElement", "HTMLObjectElement"]) {
    hook(global[kind]?.prototype, "contentWindow", { get: (window) => (installWithin(window), window) });
    hook(global[kind]?.prototype, "contentDocument", {
      get: (document) => (document && installWithin(document.defaultView), document),
    });
  }
}

function installWithin(window) {
  try {
    if (window?.document) install(window);
  } catch {} // of another origin: the server has seen it
}

function hookParent(global) {
  const found = Object.getOwnPropertyDescriptor(global, "parent");
  native.parent ??= found.get;
  if (isOutermost(global)) {
    Object.defineProperty(global, "parent", { get: () => global.self, set: found.set, configurable: true, enumerable: true });
  }
}
