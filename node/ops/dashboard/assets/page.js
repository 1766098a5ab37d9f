// Replaces parts of the page with those that the peer sends, and submits forms without a reload. The page works without it.
"use strict";
(() => {
  // The server escapes all content, so this policy trusts it; no other policy may create HTML here.
  const made = window.trustedTypes ? trustedTypes.createPolicy("apoidea", { createHTML: (text) => text }) : { createHTML: (text) => text };
  const link = document.getElementById("link");
  const said = document.getElementById("said");
  let stream = null, again = 0, quiet = 0, heard = Date.now(), gone = false;

  const busy = (part) => {
    const at = document.activeElement;
    return part.querySelector("button:active") || at && part.contains(at) && at.matches("input, select, .outcomes a:focus-visible"); // a pressed button, a field or a link is in use
  };

  const late = new Map(); // parts that wait while their element is in use
  const place = ({ id, html }) => {
    const part = document.getElementById(id);
    if (!part || !part.hasAttribute("data-part")) return;
    late.delete(id);
    if (busy(part)) {
      late.set(id, html);
      return;
    }
    const at = part.contains(document.activeElement) ? document.activeElement.id : "";
    const top = part.scrollTop;
    part.innerHTML = made.createHTML(html);
    part.scrollTop = top;
    if (at && at !== id) (document.getElementById(at) || part.querySelector("button"))?.focus();
  };

  const flush = () => setTimeout(() => { for (const [id, html] of [...late]) place({ id, html }); });
  document.addEventListener("focusout", flush);
  document.addEventListener("click", flush);

  const tell = (live) => {
    link.textContent = live ? link.dataset.liveWord : link.dataset.lost;
    link.classList.toggle("lost", !live);
  };

  // The title of the tab repeats the headline.
  const title = () => { document.title = document.getElementById("headline").textContent + document.body.dataset.title; };
  const headline = (word, why) => {
    const state = document.getElementById("state");
    state.querySelector(".state").className = "state gone";
    document.getElementById("headline").textContent = word;
    state.querySelector(".why").textContent = why;
    state.querySelector(".holds")?.remove();
    title();
  };

  // A running peer sends an event every second.
  setInterval(() => {
    if (gone || document.hidden || Date.now() - heard < 4000) return;
    gone = true;
    const at = new Date(heard).toTimeString().slice(0, 8);
    headline("Not responding", `No response since ${at}: the peer stopped or is overloaded. This page shows its last state.`);
    document.querySelector("#walk p").textContent = `State unknown since ${at}.`;
    for (const words of document.querySelectorAll("#ring .said")) words.textContent = `at ${at}`;
    open(); // a stream starts with the whole page
  }, 500);

  const open = () => {
    clearTimeout(again);
    if (stream) stream.close();
    stream = new EventSource(document.body.dataset.live);
    stream.onopen = () => tell(true);
    stream.addEventListener("part", (e) => place(JSON.parse(e.data)));
    stream.addEventListener("beat", () => {
      heard = Date.now();
      gone = false;
      title();
    });
    stream.onerror = () => {
      tell(false);
      if (stream.readyState === EventSource.CLOSED) again = setTimeout(open, 3000); // rejected: too many pages, or the peer restarts
    };
  };
  const close = () => { clearTimeout(again); if (stream) stream.close(); stream = null; };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
      headline("Not updated", "Updates stop while the page is hidden.");
    } else {
      heard = Date.now();
      open();
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });
  requestAnimationFrame(() => setTimeout(() => { if (!document.hidden && !stream) open(); })); // after the first paint

  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.hasAttribute("data-send")) return;
    e.preventDefault();
    if (e.submitter?.dataset.confirm && !confirm(e.submitter.dataset.confirm)) return;
    const body = new URLSearchParams(new FormData(form, e.submitter));
    if (form.hasAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true"); // a disabled button would lose the focus
    let text = "The peer did not respond.", ok = false;
    try {
      const res = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "text/plain" }, redirect: "error" });
      text = await res.text();
      ok = res.ok;
    } catch { /* keep the text above */ }
    form.removeAttribute("aria-busy");
    said.textContent = text;
    said.classList.toggle("bad", !ok);
    clearTimeout(quiet);
    if (ok) quiet = setTimeout(() => { said.textContent = ""; }, 15000); // it covers part of the page
  });
})();
