"use strict";
// Asks what there is, and loads the report anew when that has changed, where the reader was.
const EVERY = 2000; // ms
const said = document.querySelector("[role=status]");
const links = document.querySelector("nav");
const report = document.querySelector("iframe");
let shown = null;

function loadAnew(address) {
  const place = report.src ? report.contentWindow.scrollY : 0;
  report.addEventListener("load", () => report.contentWindow.scrollTo(0, place), { once: true });
  if (report.src) report.contentWindow.location.reload();
  else report.src = address;
}

function list(state) {
  const of = (name) => {
    const link = document.createElement("a");
    link.href = "?" + encodeURIComponent(name);
    link.textContent = name;
    if (name === state.shown) link.setAttribute("aria-current", "page");
    return link;
  };
  links.replaceChildren(...(state.pages.length > 1 ? state.pages.map(of) : []));
}

async function look() {
  try {
    const asked = await fetch("state" + location.search);
    const state = await asked.json();
    said.textContent = state.said;
    list(state);
    const now = state.shown + "/" + state.version;
    if (now !== shown) loadAnew("report" + location.search);
    shown = now;
  } catch {
    said.textContent = "servsim has ended; this is what it showed last";
  }
  setTimeout(look, EVERY);
}

look();
