/* Light, dark, or as the system has it; the choice is kept where the browser lets a file keep one. A page
   that shows this one in a frame asks for parts of it (?parts=timeline,kernels), and is told their height. */
(function () {
  "use strict";
  const root = document.documentElement, KEY = "lab-theme";
  const asked = new URLSearchParams(location.search), parts = (asked.get("parts") || "").split(",");
  let theme = asked.get("theme");
  try { theme = theme || localStorage.getItem(KEY); } catch { /* a file may be refused a store */ }
  root.classList.add("js");

  function set(wanted) {
    theme = wanted === "dark" || wanted === "light" ? wanted : "auto";
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    for (const button of document.querySelectorAll("[data-theme-choice]")) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === theme));
    }
    dispatchEvent(new Event("lab-theme"));
  }
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.addEventListener("click", () => {
      set(button.dataset.themeChoice);
      try { localStorage.setItem(KEY, theme); } catch { /* not kept then */ }
    });
  }
  set(theme);
  if (!asked.has("parts")) return;
  root.classList.add("framed");
  for (const node of document.querySelectorAll("main > *")) node.hidden = !parts.includes(node.dataset.part);
  addEventListener("message", (event) => { if (event.source === parent && event.data.theme) set(event.data.theme); });
  new ResizeObserver(() => parent.postMessage({ height: root.offsetHeight }, "*")).observe(root);
})();
