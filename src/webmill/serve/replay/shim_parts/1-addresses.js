// Addresses: where an archived origin is in the zone, and what an address in the zone stands for.

const { scheme, suffix, prefix, view } = CONFIG;
const OWN = "/.webmill-replay/";
const ABSOLUTE = /^(?:(https?):)?[/\\]{2}([^/\\?#]*)/i;
const PLAIN = /^[a-z0-9]+(?:(?:-+|\.)[a-z0-9]+)*$/;
const LABEL = "[0-9]{14}-[a-z2-7]{8}-(?:[hs][0-9]{0,5}-[a-z0-9-]+|x-[a-z2-7]{24})";
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const ZONE_ADDRESS = new RegExp(`(?<!blob:)${escaped(scheme)}//(${LABEL})${escaped(suffix)}`, "g");
const native = { URL: globalThis.URL, XMLHttpRequest: globalThis.XMLHttpRequest, Blob: globalThis.Blob };
const open = native.XMLHttpRequest?.prototype.open;
const zoneOrigins = new Map(); // by origin as it is written
const originals = new Map([[CONFIG.label, CONFIG.origin]]); // by label
const here = new native.URL(CONFIG.origin);

/** Ask the server about a name that does not fit into a label. */
function ask(question) {
  const request = new native.XMLHttpRequest();
  open.call(request, "GET", `${scheme}//${CONFIG.label}${suffix}${OWN}${question}`, false);
  try {
    request.send();
    return request.status === 200 ? request.responseText : null;
  } catch {
    return null;
  }
}

function labelOf(origin) {
  const { protocol, hostname, port } = new native.URL(origin);
  if (PLAIN.test(hostname)) {
    const name = hostname.replaceAll("-", "--").replaceAll(".", "-");
    const label = `${prefix}${protocol === "https:" ? "s" : "h"}${port}-${name}`;
    if (label.length <= 63) return label;
  }
  return ask(`label?origin=${encodeURIComponent(`${protocol}//${hostname}${port ? ":" + port : ""}`)}`);
}

/** The origin in the zone; null for what is there already, or is no origin. */
function zoneOrigin(written, authority) {
  const origin = `${(written || here.protocol.slice(0, -1)).toLowerCase()}://${authority}`;
  if (!zoneOrigins.has(origin)) {
    let label = null;
    try {
      if (authority && !authority.toLowerCase().endsWith(suffix)) label = labelOf(origin);
    } catch {} // not a URL
    if (label) originals.set(label, new native.URL(origin).origin);
    zoneOrigins.set(origin, label && `${scheme}//${label}${suffix}`);
  }
  return zoneOrigins.get(origin);
}

/** The address to ask for. Relative ones and those that are not of the web stay. */
function toZone(value) {
  if (value === null || value === undefined) return value;
  const text = String(value).replace(/^[\0- ]+|[\t\n\r]/g, "");
  const found = ABSOLUTE.exec(text);
  const there = found && zoneOrigin(found[1], found[2]);
  if (!there) return value;
  const rest = text.slice(found[0].length);
  return there + (/^[/\\]/.test(rest) ? rest : `/${rest}`);
}

function originalOf(label) {
  if (!originals.has(label)) {
    const letters = /^([hs])([0-9]*)-(.*)$/.exec(label.slice(24)); // behind time and pass
    if (!letters) originals.set(label, ask(`origin?label=${label}`));
    else {
      const host = letters[3].replaceAll("--", "\0").replaceAll("-", ".").replaceAll("\0", "-");
      const port = letters[2] && `:${letters[2]}`;
      originals.set(label, `${letters[1] === "s" ? "https" : "http"}://${host}${port}`);
    }
  }
  return originals.get(label);
}

/** A text, with every address in the zone replaced by what it stands for. */
function toOriginal(text) {
  if (typeof text !== "string" || !text.includes(suffix) || text.startsWith("blob:")) return text;
  return text.replace(ZONE_ADDRESS, (all, label) => originalOf(label) ?? all);
}

// Markup and style sheets that scripts write: only the origins of absolute addresses in attributes change.
const ATTRIBUTE =
  /(\s(?:href|src|action|formaction|poster|data|xlink:href|background)\s*=\s*["']?\s*)(?:(https?):)?\/\/([^/\\?#\s"'<>&]+)/gi;
const SET = /(\s(?:image)?srcset\s*=\s*)("[^"]*"|'[^']*')/gi;
const IN_SET = /(^|[\s,"'])(?:(https?):)?\/\/([^/\\?#\s"'<>&,]+)/gi;
const IN_STYLE = /(url\(\s*["']?|@import\s+["'])(?:(https?):)?\/\/([^/\\?#\s"'<>&)]+)/gi;
const INTEGRITY = /(<(?:script|link)\b[^>]*?)\sintegrity\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)/gi;
const originIn = (all, before, written, authority) => {
  const there = zoneOrigin(written, authority);
  return there ? before + there : all;
};
const setToZone = (text) => String(text).replace(IN_SET, originIn);
const styleToZone = (text) => (String(text).includes("//") ? String(text).replace(IN_STYLE, originIn) : text);

function markupToZone(markup) {
  const text = String(markup);
  if (!text.includes("//")) return markup;
  const mapped = text
    .replace(ATTRIBUTE, originIn)
    .replace(SET, (all, before, set) => before + setToZone(set))
    .replace(IN_STYLE, originIn)
    .replace(INTEGRITY, "$1");
  return mapped === text ? markup : mapped;
}
