// Updates the banner when a link in the archived page is followed, and lists what the page misses. With a replay zone the
// browser tells which archived site has sent a message; without one, what a page reports of itself is shown only with the
// signature of the server, and only if it is the page in our frame.

const frame = document.getElementById("page");
const banner = document.getElementById("banner");
const [zoneScheme, zoneSuffix] = (frame.dataset.zone ?? "").split(/:(.*)/s);
let reported = true;

let isUpdating = false;
let next = null;
let shownPlace = frame.src;

const isOfZone = (origin) => zoneSuffix && origin.startsWith(`${zoneScheme}://`) && origin.endsWith(zoneSuffix);

addEventListener("message", (event) => {
  const said = event.data?.webmill;
  if (isOfZone(event.origin)) hearZone(event, said ?? {});
  else if (event.source === frame.contentWindow && Array.isArray(said)) {
    const [timestamp, url, stamp] = said.map(String);
    report(new URLSearchParams({ at: `/web/${timestamp}/${url}`, stamp }));
  }
});

function hearZone(event, said) {
  if (typeof said.missing === "string") noteMissing(said.missing, String(said.kind ?? ""));
  if (typeof said.place !== "string" || !said.place.startsWith("/") || event.source !== frame.contentWindow) return;
  const place = event.origin + said.place;
  if (reported && place === shownPlace) return; // said at the start, and by the server
  if (!reported) forgetMissing();
  shownPlace = place;
  report(new URLSearchParams({ place }));
}

function report(params) {
  reported = true;
  next = params;
  if (!isUpdating) update();
}

// One request at a time, and not too often: a page may send any number of messages.
async function update() {
  isUpdating = true;
  while (next) {
    const params = next;
    next = null;
    try {
      await show(params);
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
  showSlider();
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

// --- the slider

function showSlider() {
  const label = banner.querySelector(".shown-slider");
  if (!label) return;
  label.hidden = false;
  const slider = label.querySelector("input");
  const times = slider.dataset.times.split(" ");
  const said = document.getElementById("shown-time");
  const timeOf = () => times[Number(slider.value)];
  const tell = () => slider.setAttribute("aria-valuetext", said.textContent);
  tell();
  slider.addEventListener("input", () => {
    said.textContent = readable(timeOf());
    tell();
  });
  slider.addEventListener("change", () => location.assign(`/web/${timeOf()}/${slider.dataset.url}`));
}

const readable = (time) =>
  time.replace(/^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)$/, "$1-$2-$3 $4:$5:$6");

// --- what is missing. A page says so of itself; it is shown as text.

const MOST_LISTED = 200;
const missing = new Set();
const missingBox = document.getElementById("missing");
const missingList = document.getElementById("missing-list");

function noteMissing(url, kind) {
  if (missing.has(url) || missing.size >= MOST_LISTED || url.length > 4000) return;
  missing.add(url);
  const line = document.createElement("li");
  const name = document.createElement("bdi");
  name.textContent = url;
  name.className = "url";
  if (missingList.dataset.save !== undefined && /^https?:\/\//.test(url)) {
    const link = document.createElement("a");
    link.href = missingList.dataset.save + encodeURIComponent(url);
    link.append(name);
    line.append(link);
  } else line.append(name);
  if (kind) line.append(` (${kind.slice(0, 20)})`);
  missingList.append(line);
  document.getElementById("missing-count").textContent = missing.size === MOST_LISTED ? `${missing.size} or more` : missing.size;
  missingBox.hidden = false;
}

function forgetMissing() {
  missing.clear();
  missingList.replaceChildren();
  missingBox.hidden = true;
}

showSlider();
