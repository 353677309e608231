// Shows an SVG in the page's colours: it draws with `currentColor`, and lets the background through.
// A saved one is given both.
const SCALE = 3; // of a PNG

export default function ({ data, parentElement }) {
  const root = parentElement.querySelector(".drawing");
  const show = (svg, kind) => (svg ? svg.replace("<svg ", `<svg class="${kind}" `) : "");
  const said = JSON.stringify(data);
  if (root.said === said) return; // the page has run again, and nothing has changed
  root.said = said;
  root.querySelector(".pictures").innerHTML = show(data.wide, "wide") + show(data.narrow, "narrow");
  const save = root.querySelector(".save");
  save.replaceChildren(button("SVG", () => saveSvg(root, data)), button("PNG", () => savePng(root, data)));
}

function button(format, click) {
  const made = document.createElement("button");
  Object.assign(made, { type: "button", textContent: format, onclick: click });
  made.ariaLabel = `Save the drawing as ${format}`;
  return made;
}

function standalone(root) {
  const shown = [...root.querySelectorAll("svg")].find((svg) => svg.clientWidth);
  const svg = shown.cloneNode(true);
  const style = getComputedStyle(root);
  const back = style.getPropertyValue("--st-background-color");
  svg.removeAttribute("class");
  // Whoever opens the file may lack the page's font: another one is squeezed into the same room.
  const texts = shown.querySelectorAll("text");
  svg.querySelectorAll("text").forEach((text, i) => {
    text.setAttribute("textLength", texts[i].getComputedTextLength());
    text.setAttribute("lengthAdjust", "spacingAndGlyphs");
  });
  svg.setAttribute("style", `color: ${style.color}; background: ${back}`);
  const { width, height } = svg.viewBox.baseVal;
  return { text: new XMLSerializer().serializeToString(svg), width, height, back };
}

const blobOf = (text) => new Blob([text], { type: "image/svg+xml" });

function saveSvg(root, { name }) {
  download(blobOf(standalone(root).text), `${name}.svg`);
}

async function savePng(root, { name }) {
  const { text, width, height, back } = standalone(root);
  const image = new Image();
  const source = URL.createObjectURL(blobOf(text));
  image.src = source;
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: width * SCALE, height: height * SCALE });
  const pen = canvas.getContext("2d");
  pen.fillStyle = back;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(source);
  canvas.toBlob((blob) => download(blob, `${name}.png`));
}

function download(blob, file) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: file }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}
