/* Recordings in a page: the report's own part, in a frame that is made when it comes into view. */
(function () {
  "use strict";
  const theme = () => document.body.dataset.theme || "auto", frames = new Set();
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (!isIntersecting) continue;
      near.unobserve(target);
      const frame = document.createElement("iframe");
      frame.title = target.dataset.title;
      frame.src = target.dataset.frame + "&theme=" + theme();
      target.append(frame);
      frames.add(frame);
    }
  }, { rootMargin: "300px" });
  for (const place of document.querySelectorAll("[data-frame]")) near.observe(place);

  addEventListener("message", (event) => {
    for (const frame of frames) {
      if (event.source === frame.contentWindow && event.data.height > 0) frame.style.height = event.data.height + "px";
    }
  });
  new MutationObserver(() => {
    for (const frame of frames) frame.contentWindow.postMessage({ theme: theme() }, "*");
  }).observe(document.body, { attributeFilter: ["data-theme"] });
  // What is wider than the page is scrolled, by keyboard too.
  for (const wide of document.querySelectorAll(".table-wrapper, div.highlight > pre")) wide.tabIndex = 0;
})();
