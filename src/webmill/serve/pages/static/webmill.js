// Niceties only: every page works without this file.

// A live part asks for itself again: <div data-live="/crawl/now" data-every="2">. It stops while nobody looks.
function keepLive(part) {
  const pause = 1000 * Number(part.dataset.every || 2);
  async function turn() {
    if (!document.hidden) await refresh(part);
    setTimeout(turn, pause);
  }
  setTimeout(turn, pause);
}

async function refresh(part) {
  if (part.contains(document.activeElement)) return; // never pull the ground from under a keyboard
  const open = [...part.querySelectorAll("details")].map((details) => details.open);
  try {
    const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    part.replaceChildren(...next.childNodes);
    part.dataset.live = next.dataset.live;
    part.querySelectorAll("details").forEach((details, place) => { details.open = open[place] || false; });
    part.classList.remove("stale");
  } catch {
    part.classList.add("stale"); // what is shown is old; the next turn tries again
  }
}

document.querySelectorAll("[data-live]").forEach(keepLive);

// "/" goes to the search field, as on many sites, unless somebody is writing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = document.querySelector('input[type="search"]');
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
