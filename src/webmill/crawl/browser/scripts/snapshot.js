// What a page is when it is done: its text, document and links, and what it would load on another screen.
(() => {
  const MOST = {text: 4 << 20, html: 12 << 20, more: 500};
  const absolute = (value, base) => {
    try {
      const url = new URL(value, base || document.baseURI);
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : "";
    } catch { return ""; }
  };
  const roots = [document];
  for (let i = 0; i < roots.length && roots.length < 2000; i++) {
    for (const element of roots[i].querySelectorAll("*")) {
      if (element.shadowRoot) roots.push(element.shadowRoot);
    }
  }
  const all = (selector) => roots.flatMap((root) => [...root.querySelectorAll(selector)]);
  const more = new Set();
  const add = (value) => { const url = value && absolute(value); if (url && more.size < MOST.more) more.add(url); };
  const set = (value) => {
    // Candidates are separated by commas; a URL may hold some, and does not end in one.
    for (const found of (value || "").matchAll(/\s*,*\s*([^\s]*[^\s,])(?:\s+[^,]*)?,?/g)) add(found[1]);
  };
  for (const element of all("img[srcset], source[srcset], link[imagesrcset]")) {
    set(element.getAttribute("srcset") || element.getAttribute("imagesrcset"));
  }
  for (const element of all("[data-src], [data-lazy-src], [data-original], [data-srcset], [data-bg]")) {
    for (const name of ["data-src", "data-lazy-src", "data-original", "data-bg"]) {
      const value = element.getAttribute(name);
      if (value && /^(https?:|\/|\.{1,2}\/|[\w-]+\/)|\.\w{2,5}$/i.test(value)) add(value);
    }
    set(element.getAttribute("data-srcset"));
  }
  for (const element of all("video[src], audio[src], source[src], track[src], embed[src]")) add(element.getAttribute("src"));
  for (const element of all("video[poster]")) add(element.poster);
  for (const element of all("link[rel~=icon][href], link[rel~=apple-touch-icon][href], link[rel=manifest][href]")) {
    add(element.href);
  }
  const type = document.doctype;
  const head = type ? `<!DOCTYPE ${type.name}>\n` : "";
  // Scripts may have given the page another address (history.pushState), by which its links are meant.
  const escape = (text) => text.replace(/&/g, "&amp;").replace(/"/g, "&quot;");
  const base = document.querySelector("base[href]") ? "" : `<base href="${escape(document.baseURI)}">`;
  const outer = document.documentElement ? document.documentElement.outerHTML : "";
  const html = base ? outer.replace(/<head(\s[^>]*)?>/i, (found) => found + base) : outer;
  const shadows = roots.slice(1).map((root) => root.innerHTML).join("\n").slice(0, MOST.html / 4);
  const whole = shadows ? html.replace(/<\/body>\s*<\/html>\s*$/i, "") + shadows + "</body></html>" : html;
  return JSON.stringify({
    url: location.href,
    title: (document.title || "").slice(0, 2000),
    lang: (document.documentElement?.lang || "").slice(0, 50),
    text: (document.body ? document.body.innerText : "").slice(0, MOST.text),
    html: (head + whole).slice(0, MOST.html),
    more: [...more],
    height: document.documentElement ? document.documentElement.scrollHeight : 0,
  });
})()
