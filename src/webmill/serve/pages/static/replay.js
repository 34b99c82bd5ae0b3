// Updates the banner when a link in the archived page is followed. What a page reports of itself is shown only with the
// signature of the server, and only if it is the page in our frame.

const frame = document.getElementById("page");
const banner = document.getElementById("banner");
let reported = true;

let isUpdating = false;
let next = null;

addEventListener("message", (event) => {
  const shown = event.data?.webmill;
  if (event.source !== frame.contentWindow || !Array.isArray(shown)) return;
  reported = true;
  next = shown.map(String);
  if (!isUpdating) update();
});

// One request at a time, and not too often: a page may send any number of messages.
async function update() {
  isUpdating = true;
  while (next) {
    const [timestamp, url, stamp] = next;
    next = null;
    try {
      await show(new URLSearchParams({ at: `/web/${timestamp}/${url}`, stamp }));
    } catch {
      banner.textContent = "The archive does not respond; this banner may be out of date.";
    }
    await new Promise((done) => setTimeout(done, 500));
  }
  isUpdating = false;
}

async function show(params) {
  const answer = await fetch(`/web-banner?${params}`);
  if (!answer.ok) return;
  banner.innerHTML = await answer.text();
  const { here, title } = banner.firstElementChild.dataset;
  document.title = title;
  history.replaceState(null, "", here);
}

// An image or text in the frame has no script to report it: then the banner must not keep showing the previous page.
frame.addEventListener("load", () => {
  if (!reported) {
    setTimeout(() => {
      if (!reported) banner.textContent = "You followed a link to an archived file.";
    }, 1000);
  }
  reported = false;
});
