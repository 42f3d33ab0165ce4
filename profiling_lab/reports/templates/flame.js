/* Host time by call path, drawn by d3-flame-graph in the colours of the timeline. */
(function () {
  "use strict";
  const flames = JSON.parse(document.getElementById("flame-data").textContent);
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  function size(ns, unit) {
    if (unit) return ns.toLocaleString("en-US") + " " + unit;
    const [scale, word] = STEPS.find(([least]) => ns >= least) || [1, "ns"];
    return +(ns / scale).toPrecision(3) + " " + word;
  }
  for (const place of document.querySelectorAll("[data-flame]")) {
    const tree = flames[place.dataset.flame];
    const said = document.querySelector("[data-flame-said='" + place.dataset.flame + "']");
    const tell = (frame) => {
      said.textContent = frame.data.n + ", " + size(frame.data.v, tree.u) + " (" + (100 * frame.data.v / tree.v).toFixed(1) + "%)";
    };
    let width = 0;
    new ResizeObserver(() => {
      if (place.clientWidth === width) return;
      width = place.clientWidth;
      place.textContent = "";
      const chart = flamegraph().width(width).cellHeight(20).minFrameSize(2).inverted(true)
        .transitionDuration(still ? 0 : 200)
        .getName((frame) => frame.data.n).getValue((frame) => frame.v).getChildren((frame) => frame.c)
        .setColorMapper((frame) => "var(--" + frame.data.k + ")")
        .onHover(tell).onClick(tell);
      d3select(place).datum(tree).call(chart);
    }).observe(place);
  }
})();
