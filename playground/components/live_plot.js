// Draws a Plotly figure and keeps it: one newPlot when it appears, Plotly.react from then on.
const { SCRIPT, PALETTE, NEUTRALS } = "CONSTANTS";
const plots = new WeakMap();
const decoder = new TextDecoder();

// Once per page, from our own server. Streamlit's own scripts tell where the app is mounted.
function loadPlotly() {
  return (window.playgroundPlotly ??= new Promise((resolve, reject) => {
    const own = document.querySelector('script[src*="static/js/"]');
    const base = own ? own.src.split("static/js/")[0] : new URL("./", location.href).href;
    const tag = document.createElement("script");
    tag.src = base + SCRIPT;
    tag.onload = () => resolve(window.Plotly);
    tag.onerror = () => {
      window.playgroundPlotly = undefined;
      tag.remove();
      reject(new Error(`could not load ${tag.src}`));
    };
    document.head.append(tag);
  }));
}

// [colour in the figure -> colour in the theme] and the layout that every figure starts from.
function readTheme(root) {
  const css = getComputedStyle(root);
  const get = (name) => css.getPropertyValue(`--st-${name}`).trim();
  const colours = {};
  get("chart-categorical-colors").split(",").forEach((c, i) => PALETTE[i] && (colours[PALETTE[i]] = c));
  const [text, back, grid] = [get("text-color"), get("background-color"), get("border-color")];
  const soft = get("secondary-background-color");
  const mix = (share) => mixed(text, back, share);
  Object.assign(colours, {
    [NEUTRALS.text]: text, [NEUTRALS.muted]: mix(0.68),
    [NEUTRALS.grid]: grid, [NEUTRALS.hidden]: mix(0.16),
  });
  const axis = { gridcolor: mix(0.13), linecolor: mix(0.3), zerolinecolor: mix(0.3), automargin: false };
  const template = { layout: {
    font: { family: get("font"), color: text, size: 14 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    xaxis: axis, yaxis: axis, hoverlabel: { bgcolor: soft, bordercolor: grid, font: { color: text } },
    legend: { bgcolor: "rgba(0,0,0,0)" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: mix(0.55), activecolor: text },
  } };
  return { colours, template, back, name: JSON.stringify([colours, template]) };
}

function mixed(over, under, share) {
  const rgb = (c) => {
    const probe = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    probe.fillStyle = c;
    probe.fillRect(0, 0, 1, 1);
    return probe.getImageData(0, 0, 1, 1).data;
  };
  const [a, b] = [rgb(over), rgb(under)];
  return `rgb(${[0, 1, 2].map((i) => Math.round(a[i] * share + b[i] * (1 - share))).join(",")})`;
}

function save(plot, format) {
  const { data, layout } = plot.root.drawn;
  const picture = { data, layout: { ...layout, paper_bgcolor: plot.theme.back } };
  const { width, height } = plot.root._fullLayout;
  window.Plotly.downloadImage(picture, { format, width, height, scale: format === "png" ? 3 : 1, filename: plot.payload.name });
}

const DISK = { width: 24, height: 24, path: "M12 3v10l4-4 1.4 1.4L12 15.8 6.6 10.4 8 9l4 4V3zM4 18h16v2H4z" };
const button = (plot, format) => ({
  name: `save-${format}`, title: `Download ${format.toUpperCase()}`, icon: DISK, click: () => save(plot, format),
});

function draw(plot) {
  plot.frame = 0;
  const { root } = plot;
  if (plot.gone || !plot.text || !window.Plotly) return;
  if (!root.isConnected || !root.clientWidth || root._dragging) return later(plot);
  const theme = readTheme(root);
  if (plot.drawnText === plot.text && plot.theme.name === theme.name) return;
  plot.theme = theme;
  // The whole string must be a colour, so that no token of a text is taken for one.
  const json = plot.text.replace(/"(#[0-9a-f]{6})"/g, (all, c) => (theme.colours[c] ? `"${theme.colours[c]}"` : all));
  const { figure } = (plot.payload = JSON.parse(json));
  // A hidden cell is null in JSON; undefined makes its hover say so instead of 0.
  for (const { z } of figure.data) z?.forEach((row) => row.forEach((v, i) => v === null && (row[i] = undefined)));
  const layout = { ...figure.layout, template: theme.template, autosize: true };
  root.drawn = { data: figure.data, layout };
  const first = !plot.drawnText;
  plot.drawnText = plot.text;
  root.setAttribute("aria-label", plot.payload.alt);
  root.style.height = `${plot.payload.height}px`;
  if (first) start(plot, figure.data, layout);
  // No config here: another config object would make plotly.js build the figure anew.
  else window.Plotly.react(root, figure.data, layout);
  // For tests: how often the figure was built (counted by what is there), how often changed.
  const container = root.querySelector(".svg-container");
  root.dataset.newplots = Number(root.dataset.newplots ?? 0) + (container !== plot.container);
  root.dataset.updates = Number(root.dataset.updates ?? -1) + 1;
  plot.container = container;
}

function start(plot, data, layout) {
  const { root } = plot;
  window.Plotly.newPlot(root, data, layout, {
    responsive: false, displaylogo: false, scrollZoom: false,
    modeBarButtons: [[button(plot, "png"), button(plot, "svg")], ["zoom2d", "pan2d", "resetScale2d"]],
  });
  root.on("plotly_click", ({ points: [point] }) => {
    if (!plot.payload.clickable || !point) return;
    const { curveNumber: trace, data: { name }, x, y, z = null } = point;
    plot.click({ trace, name, x, y, z });
  });
}

// On the next screen frame: several messages at once draw the last one; a hidden tab draws nothing.
function later(plot) {
  if (!plot.frame && !plot.gone) plot.frame = requestAnimationFrame(() => draw(plot));
}

export default function ({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".live-plot");
  let plot = plots.get(root);
  if (!plot) {
    plot = { root, theme: { name: "" } };
    plots.set(root, plot);
    plot.sizes = new ResizeObserver(() => {
      if (plot.drawnText && root.clientWidth) window.Plotly.Plots.resize(root);
    });
    plot.sizes.observe(root);
  }
  plot.gone = false;
  plot.text = decoder.decode(data);
  plot.click = (point) => setTriggerValue("click", point);
  loadPlotly().then(() => later(plot), (error) => (root.textContent = error.message));
  return () => {
    plot.gone = true;
    cancelAnimationFrame(plot.frame);
    plot.sizes.disconnect();
    plots.delete(root);
    if (plot.drawnText) window.Plotly.purge(root);
  };
}
