// SPDX-License-Identifier: GPL-2.0-or-later
// Draws what a page's data hold, in place of the drawings that the page has without scripts.
import { BarChart, HeatmapChart } from "echarts/charts";
import {
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import flamegraph from "d3-flame-graph";
import { select } from "d3-selection";

echarts.use([
  BarChart,
  HeatmapChart,
  AriaComponent,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkAreaComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
]);

const COLORS = 12;
const HEATS = 8;

const duration = (ns) => {
  for (const [limit, unit, size] of [
    [1e3, "ns", 1],
    [1e6, "us", 1e3],
    [1e9, "ms", 1e6],
  ])
    if (Math.abs(ns) < limit) return `${Number((ns / size).toPrecision(3))} ${unit}`;
  return `${Number((ns / 1e9).toPrecision(3))} s`;
};
const seconds = (ns) => `${Number((ns / 1e9).toFixed(3))}`;
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

function style() {
  const values = getComputedStyle(document.documentElement);
  const one = (name) => values.getPropertyValue(`--${name}`).trim();
  const many = (letter, number) => Array.from({ length: number }, (_, index) => one(letter + index));
  return { ink: one("ink"), line: one("line"), panel: one("panel"), doubt: one("doubt"), rows: many("c", COLORS), heat: many("h", HEATS) };
}

// What all charts share.  Tooltips are drawn, not written as HTML: a name cannot become a part of the page.
function common(theme, words) {
  return {
    animation: false,
    aria: { enabled: true, label: { description: words }, decal: { show: false } },
    textStyle: { color: theme.ink, fontFamily: "system-ui, sans-serif" },
    grid: { left: 70, right: 16, top: 30, bottom: 62 },
    tooltip: {
      renderMode: "richText",
      confine: true,
      backgroundColor: theme.panel,
      borderColor: theme.line,
      textStyle: { color: theme.ink },
      transitionDuration: 0,
    },
  };
}
const axis = (theme, more) => ({
  axisLabel: { color: theme.ink },
  axisLine: { lineStyle: { color: theme.line } },
  splitLine: { lineStyle: { color: theme.line } },
  nameTextStyle: { color: theme.ink },
  ...more,
});
const zoom = (theme) => [
  { type: "slider", bottom: 8, height: 22, textStyle: { color: theme.ink }, borderColor: theme.line },
  { type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
];

// A chart and what its cursor says; points: how many places the cursor has, words: of a place, place: to draw it there,
// step: which one of `steps` along the axis it is, of charts that zoom.
const drawn = [];

// Half of what is shown, or twice, around one step; [first, last] stay within the chart.
function zoomed([first, last], steps, around, closer) {
  const wide = Math.max(1, Math.min(steps, closer ? Math.floor((last - first + 1) / 2) : (last - first + 1) * 2));
  const begin = Math.max(0, Math.min(steps - wide, around - Math.floor(wide / 2)));
  return [begin, begin + wide - 1];
}

function chart(name, height, option, cursor) {
  const figure = document.getElementById(`${name}-chart`);
  const live = figure && figure.querySelector(".live");
  if (!live) return null;
  live.hidden = false;
  live.style.height = `${height}px`;
  figure.classList.add("drawn");
  const made = echarts.init(live);
  made.setOption(option(style()));
  drawn.push({ made, option });
  new ResizeObserver(() => made.resize()).observe(live);
  live.tabIndex = 0;
  live.setAttribute("role", "application");
  const keys = cursor.step ? "Arrow keys move along it, + and - zoom, 0 shows all." : "Arrow keys move along it.";
  live.setAttribute("aria-label", `${figure.querySelector("figcaption").textContent} ${keys}`);
  const status = document.createElement("p");
  status.className = "note";
  status.setAttribute("aria-live", "polite");
  live.after(status);
  let at = -1;
  const zoomBy = (key) => {
    const { startValue, endValue } = made.getOption().dataZoom[0];
    const around = cursor.step(Math.max(0, at));
    const [first, last] =
      key === "0" ? [0, cursor.steps() - 1] : zoomed([startValue, endValue], cursor.steps(), around, key !== "-");
    made.dispatchAction({ type: "dataZoom", startValue: first, endValue: last });
    status.textContent = cursor.span(first, last);
  };
  live.addEventListener("keydown", (event) => {
    if (cursor.step && ["+", "=", "-", "0"].includes(event.key) && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      zoomBy(event.key);
      return;
    }
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    const last = cursor.points() - 1;
    at = event.key === "Home" ? 0 : event.key === "End" ? last : Math.min(last, Math.max(0, at + step));
    made.dispatchAction({ type: "showTip", ...cursor.place(at) });
    status.textContent = cursor.words(at);
  });
  return made;
}

// For charts along the recording's time.
const spans = (data) => ({
  steps: () => data.steps.length,
  span: (first, last) => `shows ${seconds(data.steps[first][0])} to ${seconds(data.steps[last][1])} s`,
});

function timeline(data) {
  if (!data.steps?.length) return;
  const threads = (row, index) => row[1][index] / Math.max(1, data.steps[index][1] - data.steps[index][0]);
  const at = (index) => `${seconds(data.steps[index][0])} to ${seconds(data.steps[index][1])} s`;
  const words = (index) => {
    const rows = data.locks.filter((row) => row[1][index]).sort((a, b) => b[1][index] - a[1][index]);
    return [at(index), ...rows.slice(0, 8).map((row) => `${row[0]}: ${threads(row, index).toFixed(2)} threads`)];
  };
  const option = (theme) => ({
    ...common(theme, "Threads that wait, on average, over time, by lock."),
    legend: { type: "scroll", bottom: 34, textStyle: { color: theme.ink }, data: data.locks.map((row) => row[0]) },
    grid: { left: 70, right: 16, top: 30, bottom: 92 },
    tooltip: {
      ...common(theme, "").tooltip,
      trigger: "axis",
      formatter: (parts) => words(parts[0].dataIndex).join("\n"),
    },
    xAxis: axis(theme, { type: "category", data: data.steps.map((step) => `${seconds(step[0])} s`) }),
    yAxis: axis(theme, { type: "value", name: "threads" }),
    dataZoom: zoom(theme),
    series: data.locks.map((row, index) => ({
      name: row[0],
      type: "bar",
      stack: "all",
      barCategoryGap: 0,
      color: theme.rows[index % COLORS],
      data: row[1].map((_, step) => threads(row, step)),
    })),
  });
  const made = chart("timeline", 380, option, {
    points: () => data.steps.length,
    place: (index) => ({ seriesIndex: 0, dataIndex: index }),
    words: (index) => words(index).join(", "),
    step: (index) => index,
    ...spans(data),
  });
  const told = document.getElementById("zoomed");
  made?.on("datazoom", () => {
    const { startValue, endValue } = made.getOption().dataZoom[0];
    const whole = startValue === 0 && endValue === data.steps.length - 1;
    const from = seconds(data.steps[startValue][0] + 1e6);
    const to = seconds(data.steps[endValue][1] - 1e6);
    told.textContent = whole ? "" : `The same part as text: lockline report --from ${from} --to ${to}`;
  });
}

function heat(data) {
  if (!data.cpus?.length) return;
  const cells = [];
  data.cpus.forEach((row, y) => row[1].forEach((value, x) => value && cells.push([x, y, Math.log10(value), value])));
  const most = Math.max(...cells.map((cell) => cell[2]), 1);
  const height = Math.min(900, 160 + 14 * data.cpus.length);
  const name = (row) => (/^\d+$/.test(row[0]) ? `CPU ${row[0]}` : row[0]);
  const words = (cell) =>
    `${name(data.cpus[cell[1]])}, ${seconds(data.steps[cell[0]][0])} s: waits for ${duration(cell[3])}`;
  const option = (theme) => ({
    ...common(theme, "Waiting on each CPU over time."),
    tooltip: { ...common(theme, "").tooltip, formatter: (part) => words(part.data) },
    xAxis: axis(theme, { type: "category", data: data.steps.map((step) => `${seconds(step[0])} s`) }),
    yAxis: axis(theme, {
      type: "category",
      data: data.cpus.map(name),
      inverse: true,
      // A label needs 16 pixels; rows may be thinner.
      axisLabel: { color: theme.ink, interval: Math.ceil((16 * data.cpus.length) / (height - 92)) - 1 },
    }),
    visualMap: {
      show: false,
      min: Math.max(0, most - 4),
      max: most,
      dimension: 2,
      inRange: { color: theme.heat },
    },
    dataZoom: zoom(theme),
    series: [{ type: "heatmap", data: cells, progressive: 8000, itemStyle: { borderWidth: 0 } }],
  });
  chart("heat", height, option, {
    points: () => cells.length,
    place: (index) => ({ seriesIndex: 0, dataIndex: index }),
    words: (index) => words(cells[index]),
    step: (index) => cells[index][0],
    ...spans(data),
  });
}

function histogram(data) {
  if (!data.histograms?.length) return;
  let shown = 0;
  const one = () => data.histograms[shown];
  const words = (index) => `from ${duration(one().buckets[index][0])}: ${one().buckets[index][1].toLocaleString("en")} waits`;
  const option = (theme) => {
    const short = one().buckets.filter((bucket) => bucket[0] < one().trusted).length;
    return {
      ...common(theme, "Waits by length."),
      // No slider below it.
      grid: { left: 70, right: 16, top: 30, bottom: 28 },
      tooltip: { ...common(theme, "").tooltip, trigger: "axis", formatter: (parts) => words(parts[0].dataIndex) },
      xAxis: axis(theme, { type: "category", data: one().buckets.map((bucket) => duration(bucket[0])) }),
      // From a half on, or a single wait would have no height.
      yAxis: axis(theme, {
        type: "log",
        name: "waits",
        min: 0.5,
        axisLabel: { color: theme.ink, formatter: (waits) => (waits < 1 ? "" : waits.toLocaleString("en")) },
      }),
      series: [
        {
          type: "bar",
          barCategoryGap: 0,
          color: theme.rows[0],
          // A logarithm has no place for none.
          data: one().buckets.map((bucket) => bucket[1] || null),
          markArea: short
            ? {
                silent: true,
                itemStyle: { color: theme.doubt, opacity: 0.8 },
                label: { color: theme.ink, position: "insideTopLeft" },
                data: [[{ name: `under ${duration(one().trusted)}: may be more than 10% off`, xAxis: 0 }, { xAxis: short - 1 }]],
              }
            : undefined,
        },
      ],
    };
  };
  const made = chart("histogram", 280, option, {
    points: () => one().buckets.length,
    place: (index) => ({ seriesIndex: 0, dataIndex: index }),
    words,
  });
  if (!made || data.histograms.length < 2) return;
  const label = document.createElement("label");
  label.textContent = "Lock ";
  const choice = document.createElement("select");
  data.histograms.forEach((each, index) => {
    const item = document.createElement("option");
    item.value = String(index);
    item.textContent = each.name;
    choice.append(item);
  });
  choice.addEventListener("change", () => {
    shown = Number(choice.value);
    made.setOption(option(style()), { notMerge: true });
  });
  label.append(choice);
  document.getElementById("histogram-chart").prepend(label);
}

function flame(name, root) {
  const figure = document.getElementById(`${name}-chart`);
  const live = figure?.querySelector(".live");
  if (!live || !root.value) return;
  live.hidden = false;
  figure.classList.add("drawn");
  const status = document.createElement("p");
  status.className = "note";
  status.setAttribute("aria-live", "polite");
  const share = (value) => `${((value / root.value) * 100).toFixed(1)}%`;
  const unknown = (node) => node.data.name === "[any task]";
  const under = (node) => node.ancestors().some(unknown);
  const say = (node) => {
    status.textContent = `${node.data.name}: ${duration(node.value)}, ${share(node.value)} of all`;
  };
  const made = flamegraph()
    .width(live.clientWidth || 900)
    .cellHeight(20)
    .minFrameSize(1)
    .transitionDuration(still ? 0 : 200)
    .inverted(true)
    .selfValue(false)
    // What has no stack comes last: it is large, and says nothing.
    .sort((a, b) => unknown(a) - unknown(b) || b.value - a.value)
    .label((node) => `${node.data.name}: ${duration(node.value)}, ${share(node.value)}`)
    .setColorMapper((node) => {
      const tint = [...node.data.name].reduce((sum, letter) => sum + letter.codePointAt(0), 0) % 5;
      return node.highlight ? "var(--c0)" : under(node) ? "var(--line)" : `var(--f${tint})`;
    })
    .onClick((node) => say(node));
  select(live).datum(root).call(made);
  live.after(status);
  const reset = document.createElement("button");
  reset.type = "button";
  reset.textContent = "Show all";
  reset.addEventListener("click", () => {
    made.resetZoom();
    status.textContent = "";
  });
  live.before(reset);
  new ResizeObserver(() => {
    if (live.clientWidth && Math.abs(live.clientWidth - made.width()) > 20) {
      made.width(live.clientWidth);
      made.update();
    }
  }).observe(live);
  const search = (words) => (words ? made.search(words) : made.clear());
  document.addEventListener("lockline-search", (event) => search(event.detail));
  const asked = document.getElementById("search")?.value.trim().toLowerCase();
  if (asked) search(asked);
  // The cursor is a frame: down to its largest callee, up to its caller, left and right to the caller's others.
  let at = null;
  // A zoom draws the frames anew.
  const mark = () => select(live).selectAll("g.frame").classed("at", (node) => node === at);
  live.tabIndex = 0;
  live.setAttribute("role", "application");
  const words = figure.querySelector("figcaption").textContent;
  live.setAttribute("aria-label", `${words} Arrow keys move from frame to frame, Enter zooms, Escape shows all.`);
  live.addEventListener("keydown", (event) => {
    const frames = new Map(select(live).selectAll("g.frame").nodes().map((box) => [select(box).datum(), box]));
    const drawnOf = (nodes) => (nodes ?? []).filter((node) => frames.has(node)).sort((a, b) => a.x0 - b.x0);
    const beside = (step) => {
      const others = drawnOf(at.parent?.children);
      return others[others.indexOf(at) + step];
    };
    const [first] = [...frames.keys()].sort((a, b) => a.depth - b.depth);
    if (!frames.has(at)) at = null;
    let next;
    if (event.key === "Escape") reset.click();
    else if (event.key === "Enter" && at) made.zoomTo(at);
    else if (event.key === "Enter") return;
    else if (!["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight", "Home"].includes(event.key)) return;
    else if (!at || event.key === "Home") next = first;
    else if (event.key === "ArrowDown") next = drawnOf(at.children)[0];
    else if (event.key === "ArrowUp") next = at.parent;
    else next = beside(event.key === "ArrowLeft" ? -1 : 1);
    event.preventDefault();
    if (next) {
      at = next;
      say(at);
    }
    mark();
  });
}

async function read() {
  const element = document.getElementById("data");
  if (!element) return {};
  if (!("packed" in element.dataset)) return JSON.parse(element.textContent);
  const bytes = Uint8Array.from(atob(element.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// A chart is drawn when it comes near the window, one at a time, so that keys and clicks are answered in between.
async function start() {
  const charts = { timeline, heat, histogram };
  const near = [];
  let data;
  let busy = false;
  const draw = async () => {
    if (busy) return;
    busy = true;
    data ??= await read();
    for (let figure = near.shift(); figure; figure = near.shift()) {
      const name = figure.dataset.chart;
      if (name in charts) charts[name](data);
      else if (data.flames?.[name]) flame(name, data.flames[name]);
      figure.dataset.shown = "yes";
      await new Promise((done) => setTimeout(done));
    }
    busy = false;
  };
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries)
        if (isIntersecting) {
          seen.unobserve(target);
          near.push(target);
        }
      if (near.length) draw();
    },
    { rootMargin: "100px" },
  );
  for (const figure of document.querySelectorAll("figure[data-chart]")) seen.observe(figure);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const { made, option } of drawn) made.setOption(option(style()), { notMerge: true });
  });
}

start();
