/* The timeline of a report. uPlot gives the time axis and the cursor; lanes are drawn by a hook. */
(function () {
  "use strict";
  const root = document.documentElement;

  const data = JSON.parse(document.getElementById("report-data").textContent);
  const KINDS = data.kinds.map((kind) => kind.id);
  const LEVELS = [0.4, 0.6, 0.8, 1];
  // Where in a lane a kind is drawn (top and height as parts of it): the form tells kinds apart too.
  const FORM = {
    copy_in: [0.45, 0.55], copy_out: [0, 0.55], copy_device: [0.225, 0.55], memset: [0.35, 0.3],
    os: [0.3, 0.7], collective: [0.15, 0.7],
  };
  const GUTTER = 148, NARROW = 620, AXIS = 30, PAD = 26, MIN_SPAN_NS = 50, MARGIN = 400;
  const HEIGHT = { kernel: 28, api: 18, wait: 18, nvtx: 20, operator: 18, python: 18, os: 14 };

  function unpack(packed) {
    const text = atob(packed.data);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const type = { Uint8Array, Uint16Array, Uint32Array, Float32Array, Float64Array }[packed.type];
    return new type(bytes.buffer);
  }
  for (const section of data.sections) {
    for (const lane of section.lanes) {
      for (const key of ["start", "end", "reach", "kind", "name", "launch"]) lane[key] = unpack(lane[key]);
    }
    for (const series of section.series) {
      series.time = unpack(series.time);
      series.value = unpack(series.value);
    }
    for (const key of Object.keys(section.gaps)) {
      const gap = section.gaps[key];
      section.gaps[key] = { start: unpack(gap.start), end: unpack(gap.end) };
    }
  }

  // -- numbers ----------------------------------------------------------------------------------
  const STEPS = [[1, "ns"], [1e3, "µs"], [1e6, "ms"], [1e9, "s"]];
  function time(ns) {
    const size = Math.abs(ns);
    if (size < 1000 && Number.isInteger(size)) return ns + " ns";
    const step = STEPS.find((s) => size / s[0] < 999.5) || STEPS[3];
    const value = size / step[0];
    const whole = String(Math.floor(value)).length;
    return (ns < 0 ? "-" : "") + value.toFixed(Math.max(0, 3 - whole)) + " " + step[1];
  }
  const BYTES = [[1, "B"], [1e3, "kB"], [1e6, "MB"], [1e9, "GB"], [1e12, "TB"]];
  function amount(value, unit) {
    if (unit === "pct") return +value.toFixed(1) + "%";
    if (unit !== "bytes") return +value.toPrecision(4) + (unit ? " " + unit : "");
    const step = BYTES.find((s) => value / s[0] < 999.5) || BYTES[4];
    return +(value / step[0]).toPrecision(3) + " " + step[1];
  }
  const exact = (ns) => Math.round(ns).toLocaleString("en-US") + " ns";
  function ticks(u, splits) {
    const span = u.scales.x.max - u.scales.x.min;
    const step = STEPS.reduce((best, s) => (span / s[0] >= 2 ? s : best), STEPS[0]);
    const gap = splits.length > 1 ? (splits[1] - splits[0]) / step[0] : 1;
    let digits = 0;
    while (digits < 9 && Math.abs(gap * 10 ** digits - Math.round(gap * 10 ** digits)) > 1e-6) digits++;
    return splits.map((at) => +(at / step[0]).toFixed(digits) + " " + step[1]);
  }

  // -- searches ---------------------------------------------------------------------------------
  function first(array, passes) {
    let low = 0, high = array.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (passes(array[middle])) high = middle; else low = middle + 1;
    }
    return low;
  }

  // -- colours ----------------------------------------------------------------------------------
  let look = null;
  function readLook() {
    const style = getComputedStyle(root);
    const value = (name) => style.getPropertyValue("--" + name).trim();
    look = { ink: value("ink"), dim: value("dim"), line: value("line"), accent: value("accent"),
      page: value("page"), soft: value("soft"), idleFill: value("idle-fill"),
      fill: KINDS.map(value), on: KINDS.map((kind) => value("on-" + kind)) };
    look.pixel = look.fill.map((colour) => LEVELS.map((level) => pixel(colour, level)));
    const ratio = devicePixelRatio || 1;
    look.idle = hatch(value("idle-line"), 7 * ratio, ratio);
    look.stripes = hatch("rgba(0,0,0,.3)", 6 * ratio, 1.6 * ratio);
  }
  /* A colour as one number, in the order of bytes that image data has. */
  function pixel(colour, alpha) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const ctx = canvas.getContext("2d", { willReadFrequently: true });
    ctx.fillStyle = colour;
    ctx.fillRect(0, 0, 1, 1);
    const bytes = ctx.getImageData(0, 0, 1, 1).data;
    bytes[3] = Math.round(alpha * 255);
    return new Uint32Array(bytes.buffer)[0];
  }
  function hatch(colour, step, width) {
    const size = Math.max(4, Math.round(step));
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const ctx = tile.getContext("2d");
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    for (const shift of [-size, 0, size]) {
      ctx.beginPath(); ctx.moveTo(shift, size); ctx.lineTo(shift + size, 0); ctx.stroke();
    }
    return ctx.createPattern(tile, "repeat");
  }

  // -- the view, common to all charts -----------------------------------------------------------
  const whole = Math.max(1, ...data.sections.map((section) => section.duration));
  const view = { start: 0, end: whole };
  const charts = [];
  let moving = false, restTimer = 0;  // while the view moves, only what is on the screen is drawn
  let mark = null, chosen = null, printing = false;
  let found = null;  // what is looked for: per section, for each of its names 1 where it matches

  function setView(start, end, say) {
    let span = Math.min(Math.max(end - start, MIN_SPAN_NS), whole);
    const middle = (start + end) / 2;
    start = Math.min(Math.max(middle - span / 2, 0), whole - span);
    view.start = start;
    view.end = start + span;
    moving = true;
    clearTimeout(restTimer);
    restTimer = setTimeout(() => { moving = false; redraw(); }, 200);
    for (const chart of charts) {
      if (chart.u && !chart.figure.hidden) chart.u.setScale("x", { min: view.start, max: view.end });
    }
    if (say !== false) sayRange();
  }
  const rangeText = document.getElementById("range");
  let rangeTimer = 0;
  function sayRange() {
    clearTimeout(rangeTimer);
    rangeTimer = setTimeout(() => {
      rangeText.textContent = view.end - view.start >= whole ? ""
        : time(view.start) + " to " + time(view.end) + ", " + time(view.end - view.start) + " wide";
    }, 120);
  }
  function zoom(factor, at) {
    const centre = at === undefined ? (view.start + view.end) / 2 : at;
    const span = Math.min(Math.max((view.end - view.start) * factor, MIN_SPAN_NS), whole);
    const part = (centre - view.start) / (view.end - view.start);
    setView(centre - part * span, centre - part * span + span);
  }
  function pan(part) {
    const step = (view.end - view.start) * part;
    setView(view.start + step, view.end + step);
  }

  // -- one chart --------------------------------------------------------------------------------
  function rowsOf(section, narrow) {
    const groups = [];
    for (const item of [...section.lanes, ...section.series]) {
      if (!groups.includes(item.group)) groups.push(item.group);
    }
    const rows = [];
    let y = 0;
    for (const group of groups) {
      if (y) y += 10;
      rows.push({ group, y, height: 26 });
      y += 26;
      section.lanes.forEach((lane, index) => {
        if (lane.group !== group) return;
        const kind = lane.device !== null ? "kernel" : KINDS[lane.kind[0]] || "kernel";
        const height = HEIGHT[kind] || 20;
        if (narrow && lane.label) y += 17;
        rows.push({ lane, index, y, height, ofGroup: group });
        y += height + 5;
      });
      for (const series of section.series) {
        if (series.group !== group) continue;
        if (narrow) y += 17;
        rows.push({ series, y, height: 40, ofGroup: group, until: section.duration });
        y += 46;
      }
    }
    return { rows, height: y + 4 };
  }

  function Chart(index, figure) {
    const section = data.sections[index];
    const chart = { index, section, figure, plot: figure.querySelector(".plot"), u: null };
    const hint = document.createElement("div");
    hint.className = "hint";
    hint.appendChild(document.createElement("span")).textContent =
      "Click the timeline first, or hold Ctrl, to zoom";

    chart.build = function (forcedWidth) {
      if (figure.hidden) return;
      const width = forcedWidth || chart.plot.clientWidth;
      if (!width) return;
      if (chart.u) chart.u.destroy();
      chart.plot.textContent = "";
      const narrow = width < NARROW;
      chart.plot.classList.toggle("narrow", narrow);
      chart.gutter = narrow ? 0 : GUTTER;
      chart.width = width;
      chart.layout = rowsOf(section, narrow);
      labels(chart, narrow);
      const holder = document.createElement("div");
      holder.style.marginLeft = chart.gutter + "px";
      chart.plot.append(holder, hint);
      chart.u = new uPlot({
        width: width - chart.gutter,
        height: chart.layout.height + AXIS,
        padding: [0, PAD, 0, PAD],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false, setScale: false }, points: { show: false } },
        scales: {
          x: { time: false, min: view.start, max: view.end, range: (u, low, high) => [low, high] },
          y: { range: [0, 1] },
        },
        axes: [
          { side: 0, size: AXIS, values: ticks, space: 90, font: "12px " + getComputedStyle(document.body).fontFamily,
            stroke: () => look.dim, grid: { stroke: () => look.line, width: 1 },
            ticks: { stroke: () => look.line, size: 5 } },
          { show: false },
        ],
        series: [{}, { scale: "y", show: false }],
        hooks: { draw: [(u) => draw(chart, u)] },
      }, [[view.start, view.end], [0, 0]], holder);
      listen(chart);
    };
    chart.hint = function () {
      hint.classList.add("on");
      clearTimeout(chart.hintTimer);
      chart.hintTimer = setTimeout(() => hint.classList.remove("on"), 1200);
    };
    return chart;
  }

  function labels(chart, narrow) {
    for (const row of chart.layout.rows) {
      const text = row.group || (row.lane ? row.lane.label : row.series.label);
      if (!text) continue;
      const label = document.createElement("div");
      label.className = "lane-label" + (row.group ? " group" : "");
      label.textContent = text;
      const above = narrow && !row.group;
      const height = above ? 16 : row.height;
      label.style.top = AXIS + row.y - (above ? 17 : 0) + "px";
      label.style.height = label.style.lineHeight = height + "px";
      label.style.left = narrow ? PAD + "px" : "0";
      label.style.maxWidth = (row.group || narrow ? chart.width - 2 * PAD : GUTTER - 12) + "px";
      if (row.group) {
        const about = [chart.section.devices[row.group], chart.section.notes[row.group]];
        const more = about.filter(Boolean).join(", ");
        if (more) label.appendChild(document.createElement("span")).textContent = more;
      } else if (row.series) {
        const top = label.appendChild(document.createElement("span"));
        top.className = "top";
        top.textContent = "0–" + row.series.top;
        if (!above) label.style.lineHeight = height / 2 + "px";
      }
      label.title = row.series ? text + ", 0–" + row.series.top : label.textContent;
      chart.plot.appendChild(label);
    }
  }

  function draw(chart, u) {
    const ctx = u.ctx, box = u.bbox, ratio = uPlot.pxRatio || devicePixelRatio || 1;
    const v0 = u.scales.x.min, v1 = u.scales.x.max;
    const at = { v0, v1, k: box.width / (v1 - v0), left: box.left, top: box.top, width: box.width, ratio };
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    const screen = moving && chart.u ? chart.u.over.getBoundingClientRect().top : 0;
    for (const row of chart.layout.rows) {
      const above = screen + row.y;
      if (moving && !printing && (above > innerHeight + MARGIN || above + row.height < -MARGIN)) continue;
      if (!row.group && chart.section.gaps[row.ofGroup] && row.lane) {
        drawGaps(ctx, at, chart.section.gaps[row.ofGroup], row);
      }
      if (row.lane && !found) drawLane(ctx, at, chart.section, row, null, 1);
      else if (row.lane) {
        drawLane(ctx, at, chart.section, row, null, 0.16);
        drawLane(ctx, at, chart.section, row, found[chart.index].match, 1);
      }
      else if (row.series) drawSeries(ctx, at, row);
    }
    drawEnd(ctx, at, chart, box);
    if (mark && mark.section === chart.index) drawMark(ctx, at, chart, box);
    ctx.restore();
  }

  function drawGaps(ctx, at, gaps, row) {
    const from = first(gaps.end, (end) => end > at.v0), to = first(gaps.start, (start) => start >= at.v1);
    const y = at.top + row.y * at.ratio, height = row.height * at.ratio;
    for (let i = from; i < to; i++) {
      const x0 = Math.max(-4, (gaps.start[i] - at.v0) * at.k), x1 = Math.min(at.width + 4, (gaps.end[i] - at.v0) * at.k);
      if (x1 - x0 < 3 * at.ratio) continue;
      ctx.fillStyle = look.idleFill;
      ctx.fillRect(at.left + x0, y, x1 - x0, height);
      ctx.fillStyle = look.idle;
      ctx.fillRect(at.left + x0, y, x1 - x0, height);
    }
  }

  // Kinds that have the same form share a strip: one row of pixels, stretched to the form's height.
  const FORMS = [], formOf = KINDS.map((kind) => {
    const form = FORM[kind] || [0, 1], known = FORMS.findIndex((other) => String(other) === String(form));
    return known >= 0 ? known : FORMS.push(form) - 1;
  });
  const strip = document.createElement("canvas"), stripCtx = strip.getContext("2d");
  let stripData = null, pixels = null;
  function drawStrip(ctx, at, columns, top, tall) {
    if (!stripData || stripData.width !== columns.length) {
      strip.width = columns.length;
      strip.height = 1;
      stripData = stripCtx.createImageData(columns.length, 1);
      pixels = new Uint32Array(stripData.data.buffer);
    }
    pixels.set(columns);
    stripCtx.putImageData(stripData, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(strip, 0, 0, columns.length, 1, at.left, top, columns.length, tall);
  }

  /* Rectangles of some pixels are drawn as they are. Narrower ones go into a strip, which costs the
     same however many they are; those below a pixel and a half are added up per column of pixels, and
     the column takes the look of the kind that covers most of it. */
  const covered = new Float64Array(KINDS.length);
  function drawLane(ctx, at, section, row, only, strength) {
    const lane = row.lane, ratio = at.ratio, last = LEVELS.length - 1;
    const y = at.top + row.y * ratio, height = row.height * ratio;
    const from = first(lane.reach, (reach) => reach > at.v0);
    const to = first(lane.start, (start) => start >= at.v1);
    const wide = KINDS.map(() => []), strips = FORMS.map(() => null);
    const columns = Math.ceil(at.width), narrow = 4 * ratio;
    const stripOf = (kind) => strips[formOf[kind]] || (strips[formOf[kind]] = new Uint32Array(columns));
    let column = -1;
    function flush() {
      if (column < 0) return;
      let best = 0, total = 0;
      for (let kind = 0; kind < covered.length; kind++) {
        total += covered[kind];
        if (covered[kind] > covered[best]) best = kind;
      }
      covered.fill(0);
      // A match must be seen however short it is.
      const level = only ? last : Math.min(last, Math.floor(total * LEVELS.length));
      stripOf(best)[column] = look.pixel[best][level];
      column = -1;
    }
    for (let i = from; i < to; i++) {
      const end = lane.end[i];
      if (end < at.v0 || (only && !only[lane.name[i]])) continue;
      const kind = lane.kind[i];
      let x0 = (lane.start[i] - at.v0) * at.k, x1 = (end - at.v0) * at.k;
      if (x1 - x0 >= 1.5) {
        // Whole pixels: crisp edges, and several times cheaper to fill.
        x0 = Math.round(Math.max(x0, -4));
        x1 = Math.max(x0 + 1, Math.round(Math.min(x1, at.width + 4)));
        if (x1 - x0 > narrow) wide[kind].push(x0, x1, i);
        else {
          flush();
          stripOf(kind).fill(look.pixel[kind][last], Math.max(0, x0), Math.max(0, x1));
        }
      } else {
        const here = Math.max(0, x0 | 0);
        if (here !== column) { flush(); column = here; }
        covered[kind] += Math.max(x1 - x0, 0.02);
      }
    }
    flush();
    ctx.globalAlpha = strength;
    FORMS.forEach((form, index) => {
      if (strips[index]) drawStrip(ctx, at, strips[index], Math.round(y + form[0] * height), Math.round(form[1] * height));
    });
    for (let kind = 0; kind < KINDS.length; kind++) {
      const form = FORM[KINDS[kind]] || [0, 1];
      const top = Math.round(y + form[0] * height), tall = Math.round(form[1] * height);
      ctx.fillStyle = look.fill[kind];
      const boxes = wide[kind];
      for (let i = 0; i < boxes.length; i += 3) {
        const width = boxes[i + 1] - boxes[i];
        // A hairline between neighbours, so that two are not taken for one.
        ctx.fillRect(at.left + boxes[i], top, width > 4 * ratio ? width - ratio : width, tall);
      }
      if (!boxes.length) continue;
      if (KINDS[kind] === "graph") {
        ctx.fillStyle = look.page;
        for (let i = 0; i < boxes.length; i += 3) {
          ctx.fillRect(at.left + boxes[i], top + 2 * ratio, boxes[i + 1] - boxes[i], ratio);
          ctx.fillRect(at.left + boxes[i], top + tall - 3 * ratio, boxes[i + 1] - boxes[i], ratio);
        }
      } else if (KINDS[kind] === "wait") {
        ctx.fillStyle = look.stripes;
        for (let i = 0; i < boxes.length; i += 3) ctx.fillRect(at.left + boxes[i], top, boxes[i + 1] - boxes[i], tall);
      } else if (KINDS[kind] === "nvtx") {
        ctx.strokeStyle = look.dim;
        ctx.lineWidth = ratio;
        for (let i = 0; i < boxes.length; i += 3) {
          if (boxes[i + 1] - boxes[i] > 3 * ratio) ctx.strokeRect(at.left + boxes[i] + ratio / 2, top + ratio / 2, boxes[i + 1] - boxes[i] - 2 * ratio, tall - ratio);
        }
      }
      if (tall < 13 * ratio || KINDS[kind] === "wait") continue;
      ctx.fillStyle = look.on[kind];
      ctx.font = 11 * ratio + "px " + font();
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      for (let i = 0; i < boxes.length; i += 3) {
        const x0 = Math.max(boxes[i], 0), room = (Math.min(boxes[i + 1], at.width) - x0) / ratio - 9;
        if (room < 26) continue;
        const name = section.names[lane.name[boxes[i + 2]]][0];
        const most = Math.floor(room / 6.5);
        ctx.fillText(name.length > most ? name.slice(0, most - 1) + "…" : name, at.left + x0 + 5 * ratio, top + tall / 2 + ratio / 2);
      }
    }
    ctx.globalAlpha = 1;
  }
  let family = "";
  const font = () => family || (family = getComputedStyle(document.body).fontFamily);

  /* A value that holds until the next one: a line in steps with what is below it filled. */
  function drawSteps(ctx, at, row) {
    const { time: times, value: values, maximum } = row.series, ratio = at.ratio;
    const y = at.top + row.y * ratio, height = row.height * ratio;
    ctx.fillStyle = look.soft;
    ctx.fillRect(at.left, y, at.width, height);
    const from = Math.max(0, first(times, (t) => t > at.v0) - 1), to = first(times, (t) => t >= at.v1);
    if (from >= to) return;
    const up = (value) => Math.round(y + height - Math.min(1, Math.max(0, value / maximum)) * height);
    const x = (t) => Math.max(0, Math.min(at.width, Math.round((t - at.v0) * at.k)));
    const thick = Math.max(1, Math.round(1.5 * ratio)), foot = Math.round(y + height);
    ctx.fillStyle = look.fill[0];
    // Rectangles and no path: a path of thousands of steps takes longer than a frame to draw.
    function level(from, to, value) {
      if (to <= from) return;
      const top = up(value);
      ctx.globalAlpha = 0.25;
      ctx.fillRect(at.left + from, top, to - from, foot - top);
      ctx.globalAlpha = 1;
      ctx.fillRect(at.left + from, Math.min(top, foot - thick), to - from, thick);
    }
    // Of all values within a column of pixels the highest and the lowest are joined.
    let column = x(times[from]), low = values[from], high = low, last = low;
    function join() {
      if (high !== low) ctx.fillRect(at.left + column, up(high), thick, up(low) - up(high) + thick);
    }
    for (let i = from + 1; i < to; i++) {
      const here = x(times[i]);
      if (here !== column) {
        join();
        level(column, here, last);
        column = here;
        low = Math.min(last, values[i]);
        high = Math.max(last, values[i]);
      } else {
        low = Math.min(low, values[i]);
        high = Math.max(high, values[i]);
      }
      last = values[i];
    }
    join();
    level(column, x(row.until), last);
  }

  function drawSeries(ctx, at, row) {
    if (row.series.holds) { drawSteps(ctx, at, row); return; }
    const { time: times, value: values, maximum } = row.series, ratio = at.ratio;
    const y = at.top + row.y * ratio, height = row.height * ratio;
    ctx.fillStyle = look.soft;
    ctx.fillRect(at.left, y, at.width, height);
    const from = first(times, (t) => t > at.v0), to = Math.min(times.length, first(times, (t) => t >= at.v1) + 1);
    ctx.fillStyle = look.fill[0];
    let column = -1, sum = 0, weight = 0;
    function bar(x, width, value) {
      const tall = Math.min(1, Math.max(0, value / maximum)) * height;
      ctx.globalAlpha = 0.35;
      ctx.fillRect(at.left + x, y + height - tall, width, tall);
      ctx.globalAlpha = 1;
      ctx.fillRect(at.left + x, y + height - tall - ratio / 2, width, 1.5 * ratio);
    }
    for (let i = from; i < to; i++) {
      // A sample covers the time since the one before it.
      const before = i ? times[i - 1] : times[0] - (times.length > 1 ? times[1] - times[0] : 0);
      const x0 = Math.max(0, (before - at.v0) * at.k), x1 = Math.min(at.width, (times[i] - at.v0) * at.k);
      if (x1 <= x0) continue;
      if (x1 - x0 >= 1) {
        if (weight) { bar(column, 1, sum / weight); weight = sum = 0; column = -1; }
        bar(x0, x1 - x0, values[i]);
      } else {
        if ((x0 | 0) !== column) { if (weight) bar(column, 1, sum / weight); column = x0 | 0; weight = sum = 0; }
        sum += values[i] * (x1 - x0);
        weight += x1 - x0;
      }
    }
    if (weight) bar(column, 1, sum / weight);
  }

  function drawEnd(ctx, at, chart, box) {
    const x = at.left + (chart.section.duration - at.v0) * at.k;
    if (x >= box.left + box.width - 1) return;
    ctx.fillStyle = look.page;
    ctx.fillRect(x, box.top, box.left + box.width - x, box.height);
    ctx.fillStyle = look.dim;
    ctx.fillRect(x, box.top, at.ratio, box.height);
    const room = (box.left + box.width - x) / at.ratio;
    if (room > 110) {
      ctx.font = 12 * at.ratio + "px " + font();
      ctx.textBaseline = "top";
      ctx.textAlign = "left";
      ctx.fillText("End, " + time(chart.section.duration), x + 8 * at.ratio, box.top + 5 * at.ratio);
    }
  }

  function drawMark(ctx, at, chart, box) {
    const x0 = at.left + (mark.start - at.v0) * at.k, x1 = at.left + (mark.end - at.v0) * at.k;
    const width = Math.max(x1 - x0, 3 * at.ratio);
    let y = box.top, height = box.height;
    const row = chart.layout.rows.find((r) => r.lane && r.index === mark.lane);
    if (row) { y = at.top + (row.y - 3) * at.ratio; height = (row.height + 6) * at.ratio; }
    ctx.strokeStyle = look.accent;
    ctx.lineWidth = 2 * at.ratio;
    ctx.strokeRect(x0 - at.ratio, y + at.ratio, width + 2 * at.ratio, height - 2 * at.ratio);
  }

  // -- a launch and what it launched -------------------------------------------------------------
  /* Where a launch's other side is: of a call its first operation on a device, of an operation its call. */
  function other(section, index, i) {
    const lane = section.lanes[index], launch = lane.launch.length ? lane.launch[i] : 0;
    if (!launch) return null;
    if (!section.launches) {
      section.launches = new Map();
      section.lanes.forEach((lane, index) => {
        lane.launch.forEach((number, i) => {
          const key = lane.rank + ":" + number, side = lane.device === null ? "host" : "device";
          if (!number) return;
          if (!section.launches.has(key)) section.launches.set(key, {});
          const known = section.launches.get(key)[side];
          if (!known || lane.start[i] < section.lanes[known[0]].start[known[1]]) section.launches.get(key)[side] = [index, i];
        });
      });
    }
    return section.launches.get(lane.rank + ":" + launch)[lane.device === null ? "device" : "host"] || null;
  }
  function follow(chart) {
    const to = chosen && chosen.chart === chart && other(chart.section, chosen.lane, chosen.i);
    if (!to) { say.textContent = chosen ? "Nothing of its launch is recorded here." : "Choose an operation first."; return; }
    const from = chart.section.lanes[chosen.lane], lane = chart.section.lanes[to[0]];
    const start = Math.min(from.start[chosen.i], lane.start[to[1]]), end = Math.max(from.end[chosen.i], lane.end[to[1]]);
    if (start < view.start || end > view.end) setView(start - (end - start) * 0.15, end + (end - start) * 0.15);
    chosen = { chart, lane: to[0], i: to[1] };
    point(chart, ...to);
    say.textContent = laneName(lane) + ": " + tell(chart.section, lane, to[1]);
  }

  // -- pointing ---------------------------------------------------------------------------------
  const tip = document.getElementById("tip");
  function hit(chart, x, y) {
    const u = chart.u, width = u.over.clientWidth;
    const scale = (view.end - view.start) / width, t = view.start + x * scale;
    const row = chart.layout.rows.find((r) => !r.group && y >= r.y - 2 && y <= r.y + r.height + 2);
    if (!row) return null;
    if (row.series) {
      const later = first(row.series.time, (at) => (row.series.holds ? at > t : at >= t));
      const i = row.series.holds ? later - 1 : later;
      return i >= 0 && i < row.series.time.length ? { row, t, value: row.series.value[i] } : null;
    }
    const lane = row.lane, reach = 2 * scale;
    const from = first(lane.reach, (at) => at >= t - reach), to = first(lane.start, (at) => at > t + reach);
    let best = -1, distance = Infinity, count = 0;
    for (let i = to - 1; i >= from && to - i < 5000; i--) {
      if (lane.end[i] < t - reach) continue;
      const off = Math.max(lane.start[i] - t, t - lane.end[i], 0);
      if (lane.end[i] >= t - scale / 2 && lane.start[i] <= t + scale / 2) count++;
      if (off < distance) { distance = off; best = i; }
    }
    return best < 0 ? null : { row, t, i: best, count };
  }
  function showTip(chart, found, clientX, clientY) {
    tip.textContent = "";
    const add = (parent, tag, text, name) => {
      const node = document.createElement(tag);
      if (name) node.className = name;
      node.textContent = text;
      parent.appendChild(node);
      return node;
    };
    const table = document.createElement("dl");
    const line = (label, text) => { add(table, "dt", label); add(table, "dd", text); };
    if (found.row.series) {
      add(tip, "b", found.row.series.label);
      line("Value", amount(found.value, found.row.series.unit));
      line("At", time(found.t));
    } else {
      const lane = found.row.lane, [name, detail, shape] = chart.section.names[lane.name[found.i]];
      add(tip, "b", name);
      if (detail) add(tip, "div", detail.length > 240 ? detail.slice(0, 239) + "…" : detail, "dim");
      if (shape) add(tip, "div", shape, "dim");
      line("Kind", data.kinds[lane.kind[found.i]].label);
      if (lane.device !== null) line("On", lane.group + ", " + lane.label);
      line("Start", time(lane.start[found.i]));
      line("Duration", time(lane.end[found.i] - lane.start[found.i]));
      line("Exactly", exact(lane.end[found.i] - lane.start[found.i]));
      const to = other(chart.section, found.row.index, found.i);
      if (to) {
        const its = chart.section.lanes[to[0]], launched = lane.device === null;
        const after = launched ? its.start[to[1]] - lane.end[found.i] : lane.start[found.i] - its.end[to[1]];
        line(launched ? "Launched" : "Launched by", chart.section.names[its.name[to[1]]][0]);
        line("From call to start", after > 0 ? time(after) : "during the call");
        add(tip, "div", "Click, then L: there and back.", "dim");
      }
      if (found.count > 1) add(tip, "div", "One of " + found.count + " within this pixel; zoom in to tell them apart.", "dim");
    }
    tip.appendChild(table);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (clientY + 18 + box.height > innerHeight ? Math.max(8, clientY - box.height - 12) : clientY + 18) + "px";
  }
  const hideTip = () => { tip.hidden = true; };

  function listen(chart) {
    const over = chart.u.over, pointers = new Map();
    let grabbed = null, pinch = null, moved = false;
    const local = (event) => {
      const box = over.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top, width: box.width };
    };
    over.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      chart.plot.focus({ preventScroll: true });
      pointers.set(event.pointerId, local(event));
      moved = false;
      grabbed = { x: local(event).x, start: view.start, end: view.end };
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        pinch = { gap: Math.max(10, Math.abs(a.x - b.x)), x: (a.x + b.x) / 2, start: view.start, end: view.end };
      }
    });
    over.addEventListener("pointermove", (event) => {
      const point = local(event);
      if (pointers.has(event.pointerId)) {
        pointers.set(event.pointerId, point);
        if (pinch && pointers.size === 2) {
          const [a, b] = [...pointers.values()];
          const span = (pinch.end - pinch.start) * pinch.gap / Math.max(10, Math.abs(a.x - b.x));
          const centre = pinch.start + (pinch.x / point.width) * (pinch.end - pinch.start);
          const start = centre - ((a.x + b.x) / 2 / point.width) * span;
          setView(start, start + span);
          return;
        }
        if (!moved && Math.abs(point.x - grabbed.x) < 4) return;
        if (!moved) { moved = true; over.setPointerCapture(event.pointerId); chart.plot.classList.add("moving"); hideTip(); }
        const shift = (grabbed.x - point.x) / point.width * (grabbed.end - grabbed.start);
        setView(grabbed.start + shift, grabbed.end + shift);
        return;
      }
      const found = hit(chart, point.x, point.y);
      if (found) showTip(chart, found, event.clientX, event.clientY); else hideTip();
    });
    function release(event) {
      if (event.type === "pointerup" && !moved && pointers.size === 1) {
        const at = local(event), pressed = hit(chart, at.x, at.y);
        if (pressed && pressed.row.lane) {
          chosen = { chart, lane: pressed.row.index, i: pressed.i };
          mark = { section: chart.index, start: pressed.row.lane.start[pressed.i], end: pressed.row.lane.end[pressed.i], lane: pressed.row.index };
          say.textContent = tell(chart.section, pressed.row.lane, pressed.i);
          redraw();
        }
      }
      const tapped = event.type === "pointerup" && event.pointerType !== "mouse" && !moved && pointers.size === 1;
      pointers.delete(event.pointerId);
      if (pointers.size < 2) pinch = null;
      if (!pointers.size) chart.plot.classList.remove("moving");
      else { const [left] = pointers.values(); grabbed = { x: left.x, start: view.start, end: view.end }; }
      if (tapped) {
        const point = local(event), found = hit(chart, point.x, point.y);
        if (found) showTip(chart, found, event.clientX, event.clientY); else hideTip();
      }
    }
    over.addEventListener("pointerup", release);
    over.addEventListener("pointercancel", release);
    over.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hideTip(); });
    over.addEventListener("dblclick", (event) => {
      const point = local(event), found = hit(chart, point.x, point.y);
      if (!found || found.row.series) { setView(0, whole); return; }
      const start = found.row.lane.start[found.i], end = found.row.lane.end[found.i];
      setView(start - (end - start) * 0.15, end + (end - start) * 0.15);
    });
    over.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (sideways) { event.preventDefault(); pan(event.deltaX / over.clientWidth); return; }
      if (!(event.ctrlKey || event.metaKey || document.activeElement === chart.plot)) { chart.hint(); return; }
      event.preventDefault();
      hideTip();
      const point = local(event), lines = event.deltaMode === 1 ? 16 : 1;
      const strength = event.ctrlKey ? 0.01 : 0.0022;
      zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * lines)) * strength), view.start + (point.x / point.width) * (view.end - view.start));
    }, { passive: false });
  }

  // -- choosing operations by keys, and finding them by name -------------------------------------
  const say = document.getElementById("say");
  let tipStays = 0;
  function tell(section, lane, i) {
    const [name] = section.names[lane.name[i]];
    return name + ", " + data.kinds[lane.kind[i]].label + ", starts at " + time(lane.start[i])
      + ", lasts " + time(lane.end[i] - lane.start[i]);
  }
  const laneName = (lane) => lane.group + ", " + (lane.label || "nested");
  /* Goes down by lanes or on by operations; with no choice yet, to the first operation in view. */
  function choose(chart, down, on) {
    const lanes = chart.section.lanes;
    if (!lanes.length) return;
    const rows = chart.layout.rows.filter((row) => row.lane).map((row) => row.index);
    let moved = "";
    if (!chosen || chosen.chart !== chart) {
      chosen = { chart, lane: rows[0], i: -1 };
      down = 0;
      moved = laneName(lanes[chosen.lane]) + ": ";
    }
    if (down) {
      const to = rows.indexOf(chosen.lane) + down;
      if (to < 0 || to >= rows.length) return;
      chosen.lane = rows[to];
      moved = laneName(lanes[chosen.lane]) + ": ";
    }
    const lane = lanes[chosen.lane];
    if (moved || chosen.i < 0) chosen.i = Math.min(lane.count - 1, first(lane.reach, (reach) => reach > view.start));
    else chosen.i = Math.min(lane.count - 1, Math.max(0, chosen.i + on));
    point(chart, chosen.lane, chosen.i);
    say.textContent = moved + tell(chart.section, lane, chosen.i);
  }
  /* Marks an operation and brings it into view, without a change of scale where it fits. */
  function point(chart, index, i) {
    const lane = chart.section.lanes[index], start = lane.start[i], end = lane.end[i];
    mark = { section: chart.index, start, end, lane: index };
    const span = Math.max(view.end - view.start, end - start);
    if (start < view.start || end > view.end) {
      const from = (start + end) / 2 - span / 2;
      setView(from, from + span);
    }
    redraw();
    const row = chart.layout.rows.find((r) => r.lane === lane);
    let box = chart.u.over.getBoundingClientRect();
    if (box.top + row.y < 0 || box.top + row.y + row.height > innerHeight) {
      tipStays = performance.now() + 300;  // the scroll event of this comes later
      scrollBy({ top: box.top + row.y - innerHeight / 2, behavior: "instant" });
      box = chart.u.over.getBoundingClientRect();
    }
    const x = box.left + (start - view.start) / (view.end - view.start) * box.width;
    showTip(chart, { row, t: start, i, count: 1 }, Math.max(box.left, x), box.top + row.y + row.height);
  }
  function fill(chart) {
    if (!chosen || chosen.chart !== chart) return;
    const lane = chart.section.lanes[chosen.lane], start = lane.start[chosen.i], end = lane.end[chosen.i];
    hideTip();
    setView(start - (end - start) * 0.15, end + (end - start) * 0.15);
  }

  const find = document.getElementById("find"), foundText = document.getElementById("found");
  const steps = [...document.querySelectorAll("[data-find]")];
  let matches = [], matchAt = -1, findTimer = 0;
  function search() {
    const wanted = find.value.trim().toLowerCase();
    matches = [];
    matchAt = -1;
    found = null;
    if (wanted) {
      found = data.sections.map((section) => ({
        match: Uint8Array.from(section.names, ([name, detail, shape]) =>
          +(name.toLowerCase().includes(wanted) || detail.toLowerCase().includes(wanted) || shape.includes(wanted))),
      }));
      for (const chart of charts) {
        if (chart.figure.hidden) continue;
        const match = found[chart.index].match;
        chart.section.lanes.forEach((lane, index) => {
          for (let i = 0; i < lane.count; i++) if (match[lane.name[i]]) matches.push([lane.start[i], chart, index, i]);
        });
      }
      matches.sort((a, b) => a[1].index - b[1].index || a[0] - b[0]);
    }
    foundText.textContent = !wanted ? "" : matches.length.toLocaleString("en-US") + (matches.length === 1 ? " match" : " matches");
    for (const button of steps) button.disabled = !matches.length;
    redraw();
  }
  function nextMatch(step) {
    if (!matches.length) return;
    matchAt = matchAt < 0 ? (step > 0 ? 0 : matches.length - 1) : (matchAt + step + matches.length) % matches.length;
    const [, chart, index, i] = matches[matchAt], lane = chart.section.lanes[index];
    chosen = { chart, lane: index, i };
    // Close enough that the operation is seen, with something of its neighbourhood.
    const span = Math.min(view.end - view.start, Math.max((lane.end[i] - lane.start[i]) * 12, MIN_SPAN_NS));
    const middle = (lane.start[i] + lane.end[i]) / 2;
    setView(middle - span / 2, middle + span / 2);
    point(chart, index, i);
    foundText.textContent = (matchAt + 1).toLocaleString("en-US") + " of " + matches.length.toLocaleString("en-US");
    say.textContent = laneName(lane) + ": " + tell(chart.section, lane, i);
  }
  find.addEventListener("input", () => { clearTimeout(findTimer); findTimer = setTimeout(search, 120); });
  find.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); clearTimeout(findTimer); if (!found) search(); nextMatch(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { find.value = ""; search(); hideTip(); }
  });
  for (const button of steps) button.addEventListener("click", () => nextMatch(button.dataset.find === "on" ? 1 : -1));

  // -- the page ---------------------------------------------------------------------------------
  readLook();
  for (const figure of document.querySelectorAll(".chart")) {
    const chart = Chart(+figure.dataset.chart, figure);
    charts.push(chart);
    chart.build();
    chart.plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = {
        ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
        ArrowUp: () => choose(chart, -1, 0), ArrowDown: () => choose(chart, 1, 0),
        n: () => choose(chart, 0, 1), p: () => choose(chart, 0, -1), Enter: () => fill(chart),
        "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), "0": () => setView(0, whole),
        "/": () => find.focus(), l: () => follow(chart),
        Escape: () => { mark = chosen = null; hideTip(); redraw(); },
      }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (act) { event.preventDefault(); act(); }
    });
    new ResizeObserver(() => {
      const width = chart.plot.clientWidth;
      if (width && !printing && Math.abs(width - chart.width) >= 1) chart.build();
    }).observe(chart.plot);
  }
  // Its own argument keeps uPlot from setting the scale back to what is drawn now.
  function redraw() { for (const chart of charts) if (chart.u) chart.u.redraw(false); }

  function show(which) {
    for (const button of document.querySelectorAll("[data-show]")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === which));
    }
    for (const chart of charts) {
      const hidden = which !== "all" && which !== String(chart.index);
      const appears = chart.figure.hidden && !hidden;
      chart.figure.hidden = hidden;
      if (appears) chart.build();
    }
    search();
  }
  for (const button of document.querySelectorAll("[data-show]")) {
    button.addEventListener("click", () => show(button.dataset.show));
  }
  const zooms = { in: () => zoom(0.5), out: () => zoom(2), fit: () => setView(0, whole) };
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", zooms[button.dataset.zoom]);
  }
  for (const button of document.querySelectorAll(".goto")) {
    button.addEventListener("click", () => {
      const place = button.dataset, start = +place.start, end = +place.end;
      mark = { section: +place.section, start, end, lane: +place.lane };
      chosen = null;
      hideTip();
      const chart = charts.find((c) => c.index === mark.section);
      if (!chart) return;
      if (chart.figure.hidden) show(String(chart.index));
      const room = Math.max((end - start) * 0.4, MIN_SPAN_NS);
      setView(start - room, end + room);
      redraw();
      // The marked lane into view; of a page that is higher than the screen that is not the middle.
      const row = chart.layout.rows.find((r) => r.lane && r.index === mark.lane);
      const top = chart.plot.getBoundingClientRect().top + AXIS + (row ? row.y : 0);
      scrollBy({ top: top - innerHeight / 3 });
      chart.plot.focus({ preventScroll: true });
      say.textContent = "The timeline shows " + time(view.start) + " to " + time(view.end);
    });
  }
  addEventListener("scroll", () => { if (performance.now() > tipStays) hideTip(); }, { passive: true });
  addEventListener("lab-theme", relook);
  function relook() { family = ""; readLook(); redraw(); }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", relook);
  matchMedia("(resolution: 1dppx)").addEventListener("change", relook);

  // Paper is white and of another width: the drawing is made anew for it, and then for the screen.
  let themeBefore;
  function beforePrint() {
    if (printing) return;
    printing = true;
    themeBefore = root.dataset.theme;
    root.dataset.theme = "light";
    for (const node of document.querySelectorAll("details")) node.open = true;
    readLook();
    for (const chart of charts) chart.build(680);
  }
  function afterPrint() {
    printing = false;
    if (themeBefore === undefined) delete root.dataset.theme; else root.dataset.theme = themeBefore;
    readLook();
    for (const chart of charts) chart.build();
  }
  addEventListener("beforeprint", beforePrint);
  addEventListener("afterprint", afterPrint);

  // A link to a place: ns from the window's start.
  const asked = new URLSearchParams(location.search), from = parseFloat(asked.get("start")), to = parseFloat(asked.get("end"));
  if (from < to) setView(from, to);

  // For anyone who drives the page from the console.
  window.labTimeline = { setView, show, view, charts, whole };
  root.dataset.ready = "";
})();
