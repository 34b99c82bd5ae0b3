// Click the first of some elements that is seen. Returns what was clicked, or "".
((rules) => {
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || element.disabled) return false;
    if (element.localName === "summary" && element.closest("details")?.open) return false;
    const style = getComputedStyle(element);
    return style.visibility !== "hidden" && style.display !== "none";
  };
  const leads = (element) => {  // to another page, which a crawler visits by itself
    const link = element.closest("a[href]");
    return link && !/^(#|javascript:)/i.test(link.getAttribute("href") || "#");
  };
  const buttons = () => [...document.querySelectorAll("button, [role=button], a:not([href]), a[href^='#'], summary, input[type=button]")];
  for (const rule of rules) {
    const words = rule.text ? new RegExp(rule.text, "iu") : null;
    let found;
    try {
      found = rule.selector ? [...document.querySelectorAll(rule.selector)] : buttons();
    } catch { continue; }
    for (const element of found.slice(0, 2000)) {
      const label = (element.innerText || element.value || element.getAttribute("aria-label") || "").trim().slice(0, 200);
      if (words && !words.test(label)) continue;
      if (!seen(element) || leads(element)) continue;
      element.click();
      return rule.name || rule.selector || label;
    }
  }
  return "";
})
