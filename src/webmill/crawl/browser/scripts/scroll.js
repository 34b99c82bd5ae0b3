// One screen further down. Returns whether there is more below.
(() => {
  const page = document.scrollingElement || document.documentElement;
  if (!page) return false;
  const before = window.scrollY;
  window.scrollBy({top: Math.max(window.innerHeight * 0.9, 200), behavior: "instant"});
  for (const element of document.querySelectorAll("[data-webmill-scrolls]")) element.scrollTop += element.clientHeight;
  return window.scrollY > before;
})()
