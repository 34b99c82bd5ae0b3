// Enhancements only: every page works without this file.

// A live part reloads itself: <div data-live="/crawl?past=…" data-every="2">. It rests while the tab is hidden, and when
// the reader presses "Stop updating".
let isStopped = false;

function keepLive(part) {
  async function turn() {
    if (!document.hidden && !isStopped) await refresh(part);
    if (part.dataset.live) setTimeout(turn, 1000 * Number(part.dataset.every || 2));
  }
  setTimeout(turn, 1000 * Number(part.dataset.every || 2));
}

async function refresh(part) {
  if (part.contains(document.activeElement)) return; // never replace what has the keyboard focus
  const open = [...part.querySelectorAll("details")].map((details) => details.open);
  try {
    const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("[data-part]");
    part.replaceChildren(...next.childNodes);
    if (next.dataset.live) part.dataset.live = next.dataset.live;
    else delete part.dataset.live; // the crawl has ended
    part.querySelectorAll("details").forEach((details, place) => { details.open = open[place] || false; });
    part.classList.remove("stale");
  } catch {
    part.classList.add("stale"); // the content is outdated; the next turn tries again
  }
}

function offerStop(place) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Stop updating";
  button.addEventListener("click", () => {
    isStopped = !isStopped;
    button.textContent = isStopped ? "Go on updating" : "Stop updating";
  });
  place.append(button);
}

if (document.querySelector("[data-live]")) document.querySelectorAll("[data-stop]").forEach(offerStop);
document.querySelectorAll("[data-live]").forEach(keepLive);

// A page that waits for something reloads itself.
document.querySelectorAll("[data-reload]").forEach((part) => {
  setTimeout(() => location.reload(), 1000 * Number(part.dataset.reload));
});

// "/" focuses the search field, unless the reader is typing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, [contenteditable]")) return;
  const field = document.querySelector('input[type="search"]');
  if (field) {
    event.preventDefault();
    field.focus();
  }
});

// Titles of documents, while the reader types: <input list="titles" data-suggest="/api/suggest">.
function offerTitles(field) {
  let asked = 0;
  field.addEventListener("input", (event) => {
    if (event.inputType === "insertReplacementText") return; // one of the offered titles was chosen
    const turn = ++asked;
    setTimeout(async () => {
      if (turn !== asked || field.value.trim().length < 2) return;
      try {
        const answer = await fetch(`${field.dataset.suggest}?q=${encodeURIComponent(field.value)}`);
        if (!answer.ok || turn !== asked) return;
        const { titles } = await answer.json();
        field.list.replaceChildren(...titles.map((title) => Object.assign(document.createElement("option"), { value: title })));
      } catch { /* without suggestions it is a search field all the same */ }
    }, 150);
  });
}

document.querySelectorAll("[data-suggest]").forEach(offerTitles);
