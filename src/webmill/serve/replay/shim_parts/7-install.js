const installed = Symbol.for("webmill.replay");

function install(global) {
  if (global[installed]) {
    if (global.document && global[installed] !== global.document) {
      Object.defineProperty(global, installed, { value: global.document, configurable: true });
      global.document.currentScript?.remove();
      observe(global); // the first page of a frame keeps the window of its empty one
    }
    return;
  }
  Object.defineProperty(global, installed, { value: global.document ?? true, configurable: true });
  const toLocation = makeLocations(global);
  defineNames(global, {
    __wmLocation: toLocation,
    __wmUrl: toOriginal,
    __wmModule: toZone,
    __wmMessage: message,
    __wmTop: (value) => value,
  });
  if (global.document) installInPage(global);
  else hookRequests(global);
}

function installInPage(global) {
  const script = global.document.currentScript;
  const cookies = JSON.parse(script?.dataset.cookies ?? "[]");
  script?.remove();
  native.getAttribute ??= global.Element.prototype.getAttribute;
  native.setAttribute ??= global.Element.prototype.setAttribute;
  reportMissing(global);
  hookParent(global);
  defineNames(global, { __wmTop: makeTop(global, native.parent) });
  hookRequests(global);
  hookElements(global);
  hookDocument(global, makeJar(global, cookies));
  hookNavigation(global);
  hookFrames(global);
  observe(global);
  reportPlace(global);
}

install(globalThis);
