// What moves on a page: figures, pieces of HTML, and the socket on which the server sends them.
// It draws a Plotly figure and keeps it: one newPlot when it appears, Plotly.react from then on.
const { SCRIPT, PALETTE, NEUTRALS, TEMPLATE } = "CONSTANTS";
const plots = new Map(); // root element -> the figure, or slider, that is in it
const newest = new Map(); // key of an element -> { number, text }: the newest that the stream told
const themes = new Map();
const decoder = new TextDecoder();

// Where the app is mounted: this script is in its folder `assets/`.
const BASE = new URL("..", import.meta.url).href;
const scriptUrl = () => BASE + SCRIPT;

// Once per page; a connection may fail for a moment.
const loadPlotly = () => (window.playgroundPlotly ??= fetchPlotly(5));
async function fetchPlotly(tries) {
  const tag = document.createElement("script");
  tag.src = scriptUrl();
  const loaded = new Promise((resolve, reject) => Object.assign(tag, { onload: resolve, onerror: reject }));
  document.head.append(tag);
  try {
    await loaded;
  } catch {
    tag.remove();
    if (tries <= 1) {
      window.playgroundPlotly = undefined;
      throw new Error(`could not load ${tag.src}`);
    }
    await new Promise((wait) => setTimeout(wait, 1000));
    return fetchPlotly(tries - 1);
  }
}

// What each colour of the figure becomes in the visitor's theme, and the layout below all figures.
function readTheme(root) {
  const css = getComputedStyle(root);
  const get = (name) => css.getPropertyValue(`--st-${name}`).trim();
  const names = ["text", "background", "secondary-background", "border"];
  const [text, back, soft, border] = names.map((n) => get(`${n}-color`));
  const [font, palette] = [get("font"), get("chart-categorical-colors")];
  const name = [text, back, soft, border, font, palette].join();
  if (themes.has(name)) return themes.get(name);

  const mix = mixer(text, back);
  const colours = {
    [NEUTRALS.text]: text,
    [NEUTRALS.muted]: mix(0.68),
    [NEUTRALS.grid]: border,
    [NEUTRALS.hidden]: mix(0.16),
    [NEUTRALS.paper]: back,
  };
  palette.split(",").forEach((colour, i) => PALETTE[i] && (colours[PALETTE[i]] = colour.trim()));
  const { data, layout } = JSON.parse(recolour(JSON.stringify(TEMPLATE), colours));
  layout.font.family = font;
  layout.hoverlabel = { bgcolor: soft, bordercolor: border, font: { color: text } };
  layout.modebar = { bgcolor: layout.paper_bgcolor, color: mix(0.55), activecolor: text };
  const theme = { name, colours, back, template: { data, layout } };
  themes.set(name, theme);
  return theme;
}

// The whole string must be a colour, so that no token of a text is taken for one.
const recolour = (json, colours) =>
  json.replace(/"(#[0-9a-f]{6})"/g, (all, hex) => (colours[hex] ? `"${colours[hex]}"` : all));

// share -> colour between two CSS colours, of whatever notation: a canvas reads them.
function mixer(over, under) {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const [a, b] = [over, under].map((colour) => {
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return pen.getImageData(0, 0, 1, 1).data;
  });
  return (share) => `rgb(${[0, 1, 2].map((i) => Math.round(a[i] * share + b[i] * (1 - share)))})`;
}

// On the next screen frames, for 30 ms of each at most: several messages draw the last one, a
// hidden tab draws nothing, and the page stays answerable while many figures change.
let queue = new Set();
function later(plot) {
  if (!queue.size) requestAnimationFrame(drawQueue);
  queue.add(plot);
}

function drawQueue() {
  const [todo, start] = [[...queue], performance.now()];
  queue = new Set();
  for (const plot of todo)
    if (performance.now() - start > 30 || plot.root._dragging) later(plot);
    else
      try {
        draw(plot);
      } catch (error) {
        reportError(error); // and the others are drawn
      }
  if ([...queue].every((plot) => plot.root._dragging)) sayDrawn();
}

// What is said of a figure, as its caption, and the figure itself, as JSON: with most knobs the one
// changes without the other. A quotation mark within a text has a backslash, so this is the key.
function halves(text) {
  const [before, after] = text.split(/,"figure":(.*)/s);
  return [JSON.parse(before + "}"), after.slice(0, -1)];
}

function draw(plot) {
  const { root } = plot;
  // Out of sight: the ResizeObserver asks again.
  if (plot.gone || !root.clientWidth || !window.Plotly) return;
  const theme = readTheme(root);
  const same = plot.theme === theme && plot.size === sizeOf(root);
  if (plot.drawn === plot.text && same) return;
  const first = plot.drawn === undefined;
  const [about, picture] = halves(plot.text);
  plot.drawn = plot.text;
  plot.about = about;
  root.setAttribute("aria-label", about.alt);
  if (plot.picture === picture && same) return;
  Object.assign(plot, { theme, picture });
  const { data, layout } = parse(plot);
  // A finger on a figure moves the page.
  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  magnify(root);
  const width = Math.max(root.clientWidth, layout.meta.wide ?? 0);
  Object.assign(layout, { template: theme.template, width, dragmode });
  const height = onPhone(layout, about.height);
  root.style.height = `${height}px`;
  fitBars(layout);
  layout.height = root.clientHeight;
  plot.free = layout.height === height; // else a style of the page wants another one
  if (plot.free) {
    stack(layout);
    grow(layout, plot.legends?.[legendOf(plot, data)] ?? 0);
  }
  setHeight(plot, layout);
  // No config here: another config object would make plotly.js build the figure again.
  const done = first ? start(plot, data, layout) : window.Plotly.react(root, data, layout);
  done.then(() => makeRoomForLegend(plot, data, layout));
  // For tests: how often the figure was built (read off what is on the page), how often changed.
  const container = root.querySelector(".svg-container");
  root.dataset.newplots = Number(root.dataset.newplots ?? 0) + (container !== plot.container);
  root.dataset.updates = Number(root.dataset.updates ?? -1) + 1;
  plot.container = container;
}

function parse({ picture, theme }) {
  const { data, layout } = JSON.parse(recolour(picture, theme.colours));
  // A hidden cell is null in JSON; undefined makes its hover say so instead of 0.
  for (const { z } of data)
    z?.forEach((row) => row.forEach((v, i) => v === null && (row[i] = undefined)));
  return { data, layout };
}

// The number at the end of a colour bar reaches beyond it, and half a number beyond both.
function fitBars({ width, margin: { l, r }, meta: { small }, ...layout }) {
  for (const name of Object.keys(layout).filter((k) => k.startsWith("coloraxis"))) {
    const bar = layout[name].colorbar ?? {};
    const middle = l + (bar.x ?? 0.5) * (width - l - r);
    const room = 2 * (Math.min(middle, width - middle) - 1.2 * small);
    if (bar.len > room) bar.len = room;
  }
}

// On a phone a chart whose lines come and go is low, to be seen together with the knobs, and all
// lines of its legend are.
const LOW = 304; // pixels
function onPhone({ legend }, height) {
  if (!phone.matches || !legend?.maxheight) return height;
  delete legend.maxheight;
  return Math.min(height, LOW);
}

const sizeOf = (root) => `${root.clientWidth} ${root.clientHeight} ${root.style.transform}`;

// Letters grow with those of the page, and all else in the figure with them.
const LETTERS = 18.4; // pixels, see stage.css: up to there a figure is drawn as it is
function magnify(root) {
  const scale = Math.max(1, parseFloat(getComputedStyle(document.documentElement).fontSize) / LETTERS);
  root.style.setProperty("--scale", scale);
  root.style.transform = scale > 1 ? `scale(${scale})` : "";
}

// --- what fits ---------------------------------------------------------------------------------

const LABELS = ["labelalias", "tickvals", "ticktext", "tick0", "dtick", "tickfont"]; // of an axis
const NARROW = 700; // pixels: from there on panels are side by side as the figure says
const named = (layout, letter) => Object.keys(layout).filter((k) => k.match(`^${letter}axis\\d*$`));

// In a narrow figure, panels below each other: as many side by side as have `meta.stack` pixels.
function stack(layout) {
  const { width, height, margin: { l, r, t, b }, meta } = layout;
  if (meta.wide || width >= NARROW) return;
  const [across, down] = [width - l - r, height - t - b];
  const panels = named(layout, "x").map((name) => {
    const [x, y] = [layout[name], layout[name.replace("x", "y")]];
    const [[left, right], [low, high]] = [x.domain ?? [0, 1], y.domain ?? [0, 1]];
    return { x, y, left, high, share: right - left, tall: (high - low) * down };
  });
  const inRow = ({ high }) => panels.filter((other) => Math.abs(other.high - high) < 0.01);
  const most = Math.max(...panels.map((panel) => inRow(panel).length));
  const columns = Math.max(1, Math.min(most, Math.floor(across / meta.stack)));
  if (columns === most) return;
  panels.sort((a, b) => b.high - a.high || a.left - b.left);
  // What the panel at the left end says for its row, it said for all of them.
  for (const panel of panels) {
    const { y } = inRow(panel).reduce((a, b) => (a.left < b.left ? a : b));
    panel.y.title ??= y.title;
    if (panel.y.showticklabels === false && y.showticklabels !== false) {
      for (const part of LABELS) panel.y[part] ??= y[part];
      panel.y.showticklabels = true;
    }
    panel.y.automargin = true;
  }
  const gap = 34 / across;
  const wide = (1 - gap * (columns - 1)) / columns;
  const [span, title] = [({ range: [a, b] }) => Math.abs(b - a), 2.2 * layout.font.size];
  const labels = (axis) => (axis.visible === false ? 0 : layout.meta.below);
  const rows = [];
  for (let i = 0; i < panels.length; i += columns) rows.push(panels.slice(i, i + columns));
  let top = 0;
  for (const row of rows) {
    const square = ({ x, y, tall }) =>
      y.scaleanchor ? (wide * across * span(y)) / span(x) : tall;
    const tall = Math.max(...row.map(square));
    row.forEach((panel, i) => Object.assign(panel, { at: i * (wide + gap), top, tall }));
    top += tall + title + Math.max(...row.map(({ x }) => labels(x)));
  }
  const last = rows.at(-1)[0];
  const whole = last.top + last.tall;
  for (const { x, y, at, top, tall } of panels) {
    x.domain = [at, Math.min(at + wide, 1)];
    y.domain = [Math.max(1 - (top + tall) / whole, 0), 1 - top / whole];
  }
  layout.height = Math.ceil(whole + t + b);
  // Colour bars share the width.
  const bars = Object.keys(layout).filter((k) => k.startsWith("coloraxis"));
  bars.forEach((name, i) => {
    const bar = layout[name].colorbar;
    bar.len = Math.min(bar.len ?? Infinity, across / bars.length - 30);
    bar.x = (i + 0.5) / bars.length;
  });
}

function setHeight(plot, { height }) {
  const { root } = plot;
  root.style.height = `${height}px`;
  plot.size = sizeOf(root);
  const seen = `${height * root.style.getPropertyValue("--scale")}px`;
  root.parentElement.style.height = seen;
  // Streamlit gives it the height that the server knows of.
  root.closest(".stElementContainer").style.minHeight = seen;
}

const legendOf = (plot, data) => [plot.root.clientWidth, ...data.map((t) => t.showlegend !== false && t.name)].join();

function grow(layout, pixels) {
  layout.height += pixels;
  layout.margin.b += pixels;
}

// The server does not know how many rows a legend takes here: it is measured once, as drawn.
// Plotly keeps the plot away from it, but not what is written below the plot.
function makeRoomForLegend(plot, data, layout) {
  const [{ root }, { showlegend, legend }, key] = [plot, layout, legendOf(plot, data)];
  plot.legends ??= {};
  if (plot.gone || !plot.free || !showlegend || !legend?.yref || legend.maxheight || key in plot.legends) return;
  const drawn = root.querySelector(".legend .bg");
  if (!drawn) return; // no line has a name yet
  const needed = drawn.getBBox().height + layout.meta.below;
  const missing = (plot.legends[key] = Math.max(0, Math.ceil(needed - layout.margin.b)));
  if (!missing) return;
  grow(layout, missing);
  setHeight(plot, layout);
  window.Plotly.react(root, data, layout);
}

function start(plot, data, layout) {
  const { root } = plot;
  root.textContent = "";
  const done = window.Plotly.newPlot(root, data, layout, {
    responsive: false,
    displayModeBar: false,
    scrollZoom: false,
  });
  root.on("plotly_click", ({ points: [point] }) => {
    if (!plot.about.clickable || !point) return;
    const { curveNumber: trace, data: { name }, x, y, z = null } = point;
    plot.click({ trace, name, x, y, z });
  });
  return done;
}

// --- a saved picture ------------------------------------------------------------------------

// In letters of the figure; its width by its height. One plot is drawn with larger letters.
const SLIDE = { width: 76, single: 56, shape: 16 / 9 };
const EDGE = 1; // letter between the caption and the edge of the picture
const SPARE = 1.2; // times the room beside the plot: another program may take a wider font
const PNG_SCALE = 2;

// The title and what stands below it, in lines that fit: { text, size, bold }.
function captionLines({ title, caption }, family, width, size) {
  const pen = document.createElement("canvas").getContext("2d");
  return [{ text: title, size: 1.3 * size, bold: true }, ...caption.map((text) => ({ text, size }))]
    .filter(({ text }) => text)
    .flatMap((line) => {
      pen.font = `${line.bold ? "bold " : ""}${line.size}px ${family}`;
      const rows = [""];
      for (const word of line.text.split(/\s+/)) {
        const longer = `${rows.at(-1)} ${word}`.trim();
        if (rows.at(-1) && SPARE * pen.measureText(longer).width > width) rows.push(word);
        else rows[rows.length - 1] = longer;
      }
      return rows.map((text) => ({ ...line, text }));
    });
}

// The figure as it is meant, with panels side by side, and what the visitor hid or enlarged.
function unstacked(plot) {
  const { data, layout } = parse(plot);
  const now = plot.root;
  data.forEach((trace, i) => (trace.visible = now.data[i].visible));
  for (const name of [...named(layout, "x"), ...named(layout, "y")]) {
    const { range, autorange } = now.layout[name];
    Object.assign(layout[name], { range, autorange });
  }
  return { data, layout };
}

// Of the shape of a slide: the figure, and above it its caption, if it takes one along.
function slide(plot, withCaption) {
  const { about, theme } = plot;
  const { data, layout } = unstacked(plot);
  const { margin, font: { size } } = layout;
  const { family } = theme.template.layout.font;
  const edge = EDGE * size;
  const tall = (line) => 1.4 * line.size;
  const letters = named(layout, "x").length > 1 ? SLIDE.width : SLIDE.single;
  let [width, lines, above] = [letters * size, [], 0];
  if (withCaption)
    for (let i = 0; i < 2; i++) { // a wider one may have fewer lines
      lines = captionLines(about, family, width - 2 * edge, size);
      above = lines.reduce((sum, line) => sum + tall(line), 2 * edge);
      width = Math.max(width, SLIDE.shape * (about.height + above));
    }
  const height = width / SLIDE.shape;
  const [l, r] = [SPARE * margin.l, SPARE * margin.r];
  let top = margin.t + above - edge;
  const notes = lines.map((line) => {
    const text = line.text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    const at = { x: 0, y: 1, xref: "paper", yref: "paper", xanchor: "left", yanchor: "top" };
    const shift = { xshift: edge - l, yshift: top, font: { size: line.size } };
    top -= tall(line);
    return { ...at, ...shift, showarrow: false, align: "left", text: line.bold ? `<b>${text}</b>` : text };
  });
  Object.assign(layout, {
    template: theme.template,
    paper_bgcolor: theme.back,
    width,
    height,
    margin: { ...margin, l, r, t: margin.t + above },
    annotations: [...(layout.annotations ?? []), ...notes],
  });
  return { data, layout };
}

// The page's own font, as a style rule that needs no other file; empty if it is one of the system.
async function fontRule(family) {
  const first = family.split(",")[0].replaceAll('"', "").trim();
  const rules = [...document.styleSheets]
    .filter(({ href }) => !href || href.startsWith(BASE)) // others do not let themselves be read
    .flatMap((sheet) => [...sheet.cssRules]);
  const face = rules.find(
    (rule) =>
      rule instanceof CSSFontFaceRule &&
      rule.style.fontFamily.replaceAll('"', "") === first &&
      rule.style.fontStyle !== "italic",
  );
  const [, address] = face?.cssText.match(/url\("?([^")]+)"?\)/) ?? [];
  if (!address) return "";
  const from = face.parentStyleSheet.href ?? document.baseURI;
  const reader = new FileReader();
  reader.readAsDataURL(await (await fetch(new URL(address, from))).blob());
  await new Promise((done) => (reader.onload = done));
  return face.cssText.replace(/url\([^)]+\)/, `url(${reader.result})`);
}

async function save(plot, format) {
  const { about: { name }, theme } = plot;
  const rule = await fontRule(theme.template.layout.font.family);
  if (format === "html") return savePage(plot, rule);
  const figure = slide(plot, true);
  const { width, height } = figure.layout;
  const as = { format: "svg", imageDataOnly: true, width, height };
  const drawn = await window.Plotly.toImage(figure, as);
  const svg = drawn.replace(">", `><style>${rule}</style>`);
  const file = new Blob([svg], { type: "image/svg+xml" });
  if (format === "svg") return download(file, `${name}.svg`);
  const image = new Image();
  image.src = URL.createObjectURL(file);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: PNG_SCALE * width, height: PNG_SCALE * height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((blob) => download(blob, `${name}.png`));
}

function download(file, name) {
  const href = URL.createObjectURL(file);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

// A page that needs nothing else: plotly.js and the figure are in it.
async function savePage(plot, rule) {
  const { about: { name, alt, title, caption }, theme: { back, template } } = plot;
  const figure = slide(plot, false);
  const { width, height } = figure.layout;
  Object.assign(figure.layout, { width: undefined, autosize: true });
  const { color, family } = template.layout.font;
  const words = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const safe = (text) => text.replaceAll("<", "\\u003c");
  const plotly = await (await fetch(scriptUrl())).text();
  const script = plotly.replaceAll("</script", "<\\/script");
  const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>${words(title)}</title><style>${rule}</style>
<body style="margin:1rem;background:${back};color:${color};font-family:${words(family.replaceAll('"', "'"))}">
<h1 style="font-size:1.3rem">${words(title)}</h1>
${caption.map((line) => `<p>${words(line)}</p>`).join("\n")}
<div id="plot" role="img" style="height:${height}px;max-width:${width}px"></div>
<script>${script}</script>
<script>document.getElementById("plot").ariaLabel = ${safe(JSON.stringify(alt))};
Plotly.newPlot("plot", ${safe(JSON.stringify(figure))}, {}, { responsive: true });
</script></body></html>`;
  download(new Blob([page], { type: "text/html" }), `${name}.html`);
}

// --- what is on the page ---------------------------------------------------------------------

const readPart = (text) => JSON.parse(text.slice(0, text.indexOf(",", text.indexOf('"number"'))) + "}");

// A part came, with the page or on the stream; the newer one of the two is shown.
function put(plot, text) {
  const { key, number } = readPart(text);
  const told = newest.get(key);
  plot.key = key;
  plot.text = number && told && told.number > number ? told.text : text;
  plot.draw ? plot.draw() : later(plot);
}

export function mountPlot({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".live-plot");
  let plot = plots.get(root);
  if (!plot) {
    plot = { root };
    plot.sizes = new ResizeObserver(() => {
      later(plot);
    });
    plots.set(root, plot);
    plot.sizes.observe(root);
    for (const button of root.parentElement.querySelectorAll(".save-plot button"))
      button.onclick = () => {
        button.parentElement.open = false;
        if (plot.about) save(plot, button.textContent.toLowerCase());
      };
  }
  plot.click = (point) => setTriggerValue("click", point);
  put(plot, decoder.decode(data));
  loadPlotly().then(() => later(plot), (error) => (root.textContent = error.message));
  return () => {
    plot.gone = true;
    plot.sizes.disconnect();
    plots.delete(root);
    if (plot.drawn !== undefined) window.Plotly.purge(root);
  };
}

export function mountSlider({ data, parentElement, setTriggerValue }) {
  const root = parentElement.querySelector(".live-slider");
  const [label, input, output] = root.children;
  const slider = plots.get(root) ?? { root };
  slider.draw = () => {
    const { label: text, values, value, words } = JSON.parse(slider.text);
    const show = () => (output.value = input.ariaValueText = words[input.value]);
    label.textContent = text;
    input.max = values.length - 1;
    input.disabled = values.length < 2;
    if (!slider.held) input.value = values.indexOf(value);
    show();
    input.oninput = () => ((slider.held = true), show());
    input.onchange = () => {
      slider.held = false;
      setTriggerValue("value", values[input.value]);
    };
  };
  plots.set(root, slider);
  put(slider, decoder.decode(data));
  return () => plots.delete(root);
}

// Streamlit has put the words of the page's last run there, which may be older.
function putHtml() {
  for (const element of document.querySelectorAll("[data-live]")) {
    const told = newest.get(element.dataset.live);
    if (!told || told.number <= Number(element.dataset.newest)) continue;
    element.innerHTML = JSON.parse(told.text).html;
    element.dataset.newest = told.number;
  }
}

// --- the stream ------------------------------------------------------------------------------

const stream = { wait: 0 };

// One for the tab, on all pages; closed while nobody sees it, opened again if it breaks.
function connect() {
  clearTimeout(stream.timer);
  const want = stream.token && !document.hidden ? stream.token : undefined;
  if (stream.socket && stream.of !== want) {
    stream.socket.onclose = null;
    stream.socket.close();
    stream.socket = undefined;
  }
  if (!want || stream.socket) return;
  const socket = new WebSocket(BASE.replace("http", "ws") + "live/" + want);
  Object.assign(stream, { socket, of: want });
  socket.onmessage = ({ data }) => {
    stream.wait = 0;
    hear(data.split("\n"));
  };
  socket.onclose = () => {
    stream.socket = undefined;
    stream.wait = Math.min(30000, 2 * stream.wait || 500);
    stream.timer = setTimeout(connect, stream.wait);
  };
}
document.addEventListener("visibilitychange", connect);

function hear([head, ...texts]) {
  for (const text of texts) {
    const { key, number } = readPart(text);
    newest.set(key, { number, text });
  }
  for (const plot of plots.values()) {
    const told = newest.get(plot.key);
    if (told && told.text !== plot.text) put(plot, told.text);
  }
  putHtml();
  stream.drawing = true;
  // Also if no figure has changed.
  if (!queue.size) requestAnimationFrame(sayDrawn);
  const { turn } = JSON.parse(head);
  if (turn > (stream.turn ?? 0)) askForTurn(turn);
  stream.turn = turn;
}

// A rerun tells the server what every knob says here: not while a script run is still on its way
// that turns some of them itself, for its news would be undone.
function askForTurn(turn) {
  const state = document.querySelector("[data-testid=stApp]")?.dataset.testScriptState;
  if (state && state !== "notRunning") setTimeout(askForTurn, 50, turn);
  else stream.onTurn(turn);
}

function sayDrawn() {
  if (stream.drawing && stream.socket?.readyState === WebSocket.OPEN) stream.socket.send("drawn");
  stream.drawing = false;
}

export function mountStream({ data: { token }, setTriggerValue, setStateValue }) {
  if (token !== stream.token) {
    Object.assign(stream, { token, turn: 0, wait: 0, narrow: false });
    newest.clear();
  }
  stream.onTurn = (turn) => setTriggerValue("turn", turn);
  phone.onchange = () => {
    if (phone.matches !== stream.narrow) setStateValue("narrow", (stream.narrow = phone.matches));
  };
  phone.onchange();
  connect();
  loadPlotly().catch(() => {}); // before there is a figure, which would say what is wrong
  return () => {};
}

// --- what was chosen -------------------------------------------------------------------------

// Once the address says something else, be it a knob or a page, something was chosen. A list gives
// up the keys then: the next one is meant for a button, and not to search the list again. And on a
// phone, where the sidebar lies over the page, it closes.
const phone = matchMedia("(max-width: 700px)");
const chosen = () => {
  const { pathname, searchParams } = new URL(location);
  const knobs = [...searchParams].filter(([key]) => !key.startsWith("more_"));
  return pathname + JSON.stringify(knobs.sort());
};
const giveUpKeys = () => {
  const list = document.activeElement?.closest(".stSelectbox");
  if (list && !list.querySelector("[aria-expanded=true]")) document.activeElement.blur();
};
let before = chosen();
window.navigation?.addEventListener("currententrychange", () => {
  const now = chosen();
  if (now === before) return;
  before = now;
  setTimeout(giveUpKeys, 50); // when the list has closed
  if (phone.matches) document.querySelector("[data-testid=stSidebarCollapseButton] button")?.click();
});
