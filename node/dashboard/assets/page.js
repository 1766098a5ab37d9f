// Puts newer pieces of the page in place as the peer sends them, and sends forms without a reload. The page works without it.
"use strict";
(() => {
  // The server has escaped what it sends; a policy of our own says so, and no other may make HTML here.
  const made = window.trustedTypes ? trustedTypes.createPolicy("apoidea", { createHTML: (text) => text }) : { createHTML: (text) => text };
  const link = document.getElementById("link");
  const said = document.getElementById("said");
  let stream = null, again = 0, quiet = 0, heard = Date.now(), gone = false;

  const busy = (part) => {
    const at = document.activeElement;
    return part.querySelector("button:active") || at && part.contains(at) && at.matches("input, select, .outcomes a:focus-visible"); // a pressed button, a field, a link
  };

  const late = new Map(); // pieces that wait until their place is not in use
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

  // The title of the tab has the words of the headline, whoever wrote that.
  const title = () => { document.title = document.getElementById("headline").textContent + document.body.dataset.title; };
  const headline = (word, why) => {
    const state = document.getElementById("state");
    state.querySelector(".state").className = "state gone";
    document.getElementById("headline").textContent = word;
    state.querySelector(".why").textContent = why;
    state.querySelector(".holds")?.remove();
    title();
  };

  // A peer that lives is heard every second.
  setInterval(() => {
    if (gone || document.hidden || Date.now() - heard < 4000) return;
    gone = true;
    const at = new Date(heard).toTimeString().slice(0, 8);
    headline("No answer", `This peer has not answered since ${at}: it has ended or hangs. Below is its last state.`);
    document.querySelector("#walk p").textContent = `State unknown since ${at}.`;
    for (const words of document.querySelectorAll("#ring .said")) words.textContent = `at ${at}`;
    open(); // a stream begins with the whole page
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
      if (stream.readyState === EventSource.CLOSED) again = setTimeout(open, 3000); // refused: too many pages, or the peer restarts
    };
  };
  const close = () => { clearTimeout(again); if (stream) stream.close(); stream = null; };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
      headline("Not updated", "The page is not updated while it is hidden.");
    } else {
      heard = Date.now();
      open();
    }
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (e) => { if (e.persisted) open(); });
  requestAnimationFrame(() => setTimeout(() => { if (!document.hidden && !stream) open(); })); // the page is painted first

  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.hasAttribute("data-send")) return;
    e.preventDefault();
    if (e.submitter?.dataset.confirm && !confirm(e.submitter.dataset.confirm)) return;
    const body = new URLSearchParams(new FormData(form, e.submitter));
    if (form.hasAttribute("aria-busy")) return;
    form.setAttribute("aria-busy", "true"); // and no button is disabled, which would lose the focus
    let text = "No answer from the peer.", ok = false;
    try {
      const res = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "text/plain" }, redirect: "error" });
      text = await res.text();
      ok = res.ok;
    } catch { /* what is said stays */ }
    form.removeAttribute("aria-busy");
    said.textContent = text;
    said.classList.toggle("bad", !ok);
    clearTimeout(quiet);
    if (ok) quiet = setTimeout(() => { said.textContent = ""; }, 15000); // it stands over the page wherever that is scrolled to
  });
})();
