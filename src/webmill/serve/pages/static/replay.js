// Keeps the banner true when a link in the archived page is followed. What a page says of itself is shown only with the
// server's stamp on it, and only when it is the page in our frame.

const frame = document.getElementById("page");
const banner = document.getElementById("banner");
let told = true;

let asking = false;
let next = null;

addEventListener("message", (event) => {
  const shown = event.data?.webmill;
  if (event.source !== frame.contentWindow || !Array.isArray(shown)) return;
  told = true;
  next = shown.map(String);
  if (!asking) ask();
});

// One at a time, and not too often: a page may send as many messages as it likes.
async function ask() {
  asking = true;
  while (next) {
    const [timestamp, url, stamp] = next;
    next = null;
    try {
      await show(new URLSearchParams({ at: `/web/${timestamp}/${url}`, stamp }));
    } catch {
      banner.textContent = "The archive does not answer: what is shown below may be another page.";
    }
    await new Promise((done) => setTimeout(done, 500));
  }
  asking = false;
}

async function show(asked) {
  const answer = await fetch(`/web-banner?${asked}`);
  if (!answer.ok) return;
  banner.innerHTML = await answer.text();
  const { here, title } = banner.firstElementChild.dataset;
  document.title = title;
  history.replaceState(null, "", here);
}

// A picture or a text in the frame has no script that could tell: then the banner must not go on about the page before.
frame.addEventListener("load", () => {
  if (!told) {
    setTimeout(() => {
      if (!told) banner.textContent = "This is a file of the archive that you followed a link to.";
    }, 1000);
  }
  told = false;
});
