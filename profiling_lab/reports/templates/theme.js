/* Light, dark, or as the system has it; the choice is kept where the browser lets a file keep one. */
(function () {
  "use strict";
  const root = document.documentElement, KEY = "lab-theme";
  const asked = new URLSearchParams(location.search).get("theme");
  let theme = asked;
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
})();
