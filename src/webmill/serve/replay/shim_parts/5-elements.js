// Elements: addresses in properties, attributes and markup.

const URL_PROPERTIES = {
  HTMLAnchorElement: ["href"],
  HTMLAreaElement: ["href"],
  HTMLBaseElement: ["href"],
  HTMLButtonElement: ["formAction"],
  HTMLEmbedElement: ["src"],
  HTMLFormElement: ["action"],
  HTMLFrameElement: ["src"],
  HTMLIFrameElement: ["src"],
  HTMLImageElement: ["src", "currentSrc", "lowsrc", "longDesc"],
  HTMLInputElement: ["src", "formAction"],
  HTMLLinkElement: ["href"],
  HTMLMediaElement: ["src", "currentSrc"],
  HTMLObjectElement: ["data", "codeBase"],
  HTMLScriptElement: ["src"],
  HTMLSourceElement: ["src"],
  HTMLTrackElement: ["src"],
  HTMLVideoElement: ["poster"],
  SVGAnimatedString: ["baseVal"],
};
const SET_PROPERTIES = { HTMLImageElement: ["srcset"], HTMLSourceElement: ["srcset"], HTMLLinkElement: ["imageSrcset"] };
const URL_ATTRIBUTE = /^(?:href|src|action|formaction|poster|data|xlink:href|background|cite|longdesc|lowsrc|codebase)$/i;
const SET_ATTRIBUTE = /^(?:image)?srcset$/i;
const IN_MARKUP = [
  ["Element", "innerHTML"],
  ["Element", "outerHTML"],
  ["ShadowRoot", "innerHTML"],
];
const OBSERVED = ["href", "src", "srcset", "imagesrcset", "action", "formaction", "poster", "data", "style", "xlink:href"];
const OUTWARD = /^_(?:blank|new|top|parent)$/i;

function attributeToZone(name, value) {
  if (URL_ATTRIBUTE.test(name)) return toZone(value);
  if (SET_ATTRIBUTE.test(name)) return setToZone(value);
  if (name === "style") return styleToZone(value);
  if (name === "srcdoc") return pageToZone(value);
  return value;
}

const pageToZone = (markup) => `<script src="${CONFIG.shim}"></script>${markupToZone(markup)}`;
const pageToOriginal = (markup) => toOriginal(markup).replace(`<script src="${CONFIG.shim}"></script>`, "");

function hookElements(global) {
  for (const [kind, names] of Object.entries(URL_PROPERTIES)) {
    for (const name of names) hook(global[kind]?.prototype, name, { get: toOriginal, set: toZone });
  }
  for (const [kind, names] of Object.entries(SET_PROPERTIES)) {
    for (const name of names) hook(global[kind]?.prototype, name, { get: toOriginal, set: setToZone });
  }
  for (const kind of ["HTMLAnchorElement", "HTMLAreaElement"]) hookLink(global[kind]?.prototype);
  for (const [kind, name] of IN_MARKUP) hook(global[kind]?.prototype, name, { get: toOriginal, set: markupToZone });
  hook(global.HTMLIFrameElement?.prototype, "srcdoc", { get: pageToOriginal, set: pageToZone });
  for (const kind of ["HTMLScriptElement", "HTMLLinkElement"]) hook(global[kind]?.prototype, "integrity", { set: () => "" });
  hook(global.Node?.prototype, "baseURI", { get: toOriginal });
  hookAttributes(global);
  hookMarkup(global);
  hook(global.CSSStyleDeclaration?.prototype, "cssText", { set: styleToZone });
  hookCall(global.CSSStyleDeclaration?.prototype, "setProperty", at(1, (value) => styleToZone(value ?? "")));
  for (const name of ["insertRule", "replace", "replaceSync"]) hookCall(global.CSSStyleSheet?.prototype, name, first(styleToZone));
}

function hookLink(prototype) {
  const href = prototype && Object.getOwnPropertyDescriptor(prototype, "href")?.get;
  if (!href) return;
  for (const name of ["protocol", "host", "hostname", "port", "origin"]) {
    hook(prototype, name, {
      get(value) {
        const address = href.call(this); // of the web already
        return URL_LIKE.test(address) ? new native.URL(address)[name] : value;
      },
    });
  }
  Object.defineProperty(prototype, "toString", { value() { return href.call(this); }, writable: true, configurable: true });
}

const URL_LIKE = /^https?:/i;

function hookAttributes(global) {
  const { Element, Attr } = global;
  const change = (name, value) => (name === "integrity" ? "" : attributeToZone(String(name), value));
  hookCall(Element?.prototype, "setAttribute", (values) =>
    values.length > 1 ? [values[0], change(String(values[0]).toLowerCase(), values[1])] : values);
  hookCall(Element?.prototype, "setAttributeNS", (values) =>
    values.length > 2 ? [values[0], values[1], change(String(values[1]).toLowerCase(), values[2])] : values);
  hookCall(Element?.prototype, "getAttribute", PASSED, toOriginal);
  hookCall(Element?.prototype, "getAttributeNS", PASSED, toOriginal);
  hook(Attr?.prototype, "value", { get: toOriginal, set(value) { return attributeToZone(this.name, value); } });
}

function hookMarkup(global) {
  hookCall(global.Element?.prototype, "insertAdjacentHTML", at(1, markupToZone));
  for (const kind of ["Element", "ShadowRoot"]) hookCall(global[kind]?.prototype, "setHTMLUnsafe", first(markupToZone));
  hookCall(global.Document?.prototype, "write", (values) => values.map(markupToZone));
  hookCall(global.Document?.prototype, "writeln", (values) => values.map(markupToZone));
  hookCall(global.Range?.prototype, "createContextualFragment", first(markupToZone));
  hookCall(global.DOMParser?.prototype, "parseFromString", (values) =>
    values[1] === "text/html" ? [markupToZone(values[0]), ...values.slice(1)] : values);
  hookCall(global.XMLSerializer?.prototype, "serializeToString", PASSED, toOriginal);
}

/** Mend what came another way: parsers of the browser's own, clones of foreign documents, styles of elements. */
function observe(global) {
  const { getAttribute, setAttribute } = native;
  const mend = (element, name) => {
    const value = getAttribute.call(element, name);
    if (!value?.includes("//") || value.includes(suffix)) return;
    const mapped = attributeToZone(name, value);
    if (mapped !== value) setAttribute.call(element, name, mapped);
  };
  const mendAll = (element) => {
    for (const name of OBSERVED) if (element.hasAttribute?.(name)) mend(element, name);
    if (element.localName === "style") mendStyle(element);
  };
  const mendStyle = (element) => {
    const sheet = element.textContent;
    const mapped = styleToZone(sheet);
    if (mapped !== sheet) element.textContent = mapped;
  };
  new global.MutationObserver((records) => {
    for (const { type, target, attributeName, addedNodes } of records) {
      if (type === "attributes") mend(target, attributeName);
      else {
        if (target.localName === "style") mendStyle(target);
        for (const node of addedNodes) {
          if (node.nodeType !== 1) continue;
          mendAll(node);
          if (node.firstElementChild) for (const inner of node.querySelectorAll("*")) mendAll(inner);
        }
      }
    }
  }).observe(global.document, { subtree: true, childList: true, attributes: true, attributeFilter: OBSERVED });
}
