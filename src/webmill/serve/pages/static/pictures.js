// Marks where two pictures differ, in a third one. Without this file both are shown side by side.
const BLOCK = 8; // pixels of a side that are compared as one
const SEEN = 24; // of 255: less difference nobody sees
const MARK = [217, 38, 90];
const VEIL = 0.65; // how far what is the same is faded
const MOST = 20_000_000; // pixels

async function loaded(image) {
  await image.decode();
  return image;
}

function pixelsOf(image, width, height) {
  const canvas = new OffscreenCanvas(width, height);
  const drawn = canvas.getContext("2d", { willReadFrequently: true });
  drawn.fillStyle = "#fff";
  drawn.fillRect(0, 0, width, height);
  drawn.drawImage(image, 0, 0);
  return drawn.getImageData(0, 0, width, height);
}

function differs(one, other, left, top) {
  const { width, height } = one;
  const sums = [0, 0, 0];
  let count = 0;
  for (let y = top; y < Math.min(top + BLOCK, height); y++) {
    for (let x = left; x < Math.min(left + BLOCK, width); x++, count++) {
      const at = 4 * (y * width + x);
      for (let colour = 0; colour < 3; colour++) sums[colour] += Math.abs(one.data[at + colour] - other.data[at + colour]);
    }
  }
  return Math.max(...sums) / count >= SEEN;
}

function paint(pixels, left, top, isChanged) {
  const { width, height, data } = pixels;
  for (let y = top; y < Math.min(top + BLOCK, height); y++) {
    for (let x = left; x < Math.min(left + BLOCK, width); x++) {
      const at = 4 * (y * width + x);
      for (let colour = 0; colour < 3; colour++) {
        const over = isChanged ? MARK[colour] : 255;
        const share = isChanged ? 0.45 : VEIL;
        data[at + colour] = data[at + colour] * (1 - share) + over * share;
      }
    }
  }
}

async function mark(part) {
  const [before, after] = await Promise.all([...part.querySelectorAll("img")].map(loaded));
  const width = Math.max(before.naturalWidth, after.naturalWidth);
  const height = Math.max(before.naturalHeight, after.naturalHeight);
  if (!width || !height || width * height > MOST) return;
  const one = pixelsOf(before, width, height);
  const other = pixelsOf(after, width, height);
  let changed = 0;
  let blocks = 0;
  for (let top = 0; top < height; top += BLOCK) {
    for (let left = 0; left < width; left += BLOCK, blocks++) {
      const isChanged = differs(one, other, left, top);
      changed += isChanged;
      paint(other, left, top, isChanged);
    }
  }
  const figure = part.querySelector("figure[hidden]");
  const canvas = Object.assign(figure.querySelector("canvas"), { width, height });
  canvas.getContext("2d").putImageData(other, 0, 0);
  const share = (100 * changed) / blocks;
  const said = !changed ? "Nothing that can be seen differs." : `${share < 1 ? "Less than 1" : Math.round(share)} % of the picture differs: it is marked.`;
  figure.hidden = false;
  figure.querySelector("figcaption").textContent = said;
}

document.querySelectorAll("[data-pictures]").forEach((part) => mark(part).catch(() => {})); // a picture that cannot be shown
