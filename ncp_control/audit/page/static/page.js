// Text from files reaches the page as textContent only, never as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const find = (id) => document.getElementById(id);

function element(name, text, ...children) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

// Viridis: equal differences look equal, also to the colour-blind.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];

function shade(fraction) {
  const place = fraction * (VIRIDIS.length - 1), low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return VIRIDIS[low].map((from, c) => Math.round(from + (VIRIDIS[low + 1][c] - from) * (place - low)));
}

// The colours of the neurons.

const neurons = [...document.querySelectorAll(".neuron")];
const labels = [...document.querySelectorAll("text.inside")];
const menu = find("colouring");

function inkOn(circle) {
  const middle = [Number(circle.getAttribute("cx")), Number(circle.getAttribute("cy"))];
  return labels.find((one) => Math.abs(one.getAttribute("x") - middle[0]) < 1 &&
    Math.abs(one.getAttribute("y") - middle[1]) < circle.getAttribute("r"));
}
const inks = neurons.map(inkOn);

function colour() {
  const scale = data.colourings[menu.selectedIndex];
  neurons.forEach((circle, k) => {
    const place = scale?.places[k];
    if (typeof place !== "number") {
      circle.style.fill = "";
      if (inks[k]) inks[k].style.fill = "";
      return;
    }
    const [r, g, b] = shade(place);
    circle.style.fill = `rgb(${r}, ${g}, ${b})`;
    if (inks[k]) inks[k].style.fill = 0.3 * r + 0.59 * g + 0.11 * b > 125 ? "#101418" : "#ffffff";
  });
  find("scale-low").textContent = scale?.low ?? "";
  find("scale-high").textContent = scale?.high ?? "";
}
for (const one of data.colourings) menu.append(element("option", one.name));
find("scale").style.background = `linear-gradient(90deg, ${VIRIDIS.map((c) => `rgb(${c})`)})`;
// The first colouring in which neurons differ.
menu.selectedIndex = Math.max(0, data.colourings.findIndex((one) => one.low !== one.high));
menu.addEventListener("change", colour);
colour();

// What is pointed at, or was clicked.

const wiring = find("wiring");
const hint = find("chosen-title").textContent;
const MOST = 12;
let kept = null;

function near(kind, k) {
  if (kind === "synapse") return [k];
  const own = kind === "neuron"
    ? (one) => one.ends.includes(k)
    : (one) => one.input === k;
  return data.synapses.flatMap((one, e) => own(one) ? [e] : []);
}

function list(title, synapses, name) {
  const shown = synapses.slice(0, MOST).map((one) => element("li", "", element("span", `${one.sign} ${name(one)}`), element("b", one.share)));
  if (synapses.length > MOST) shown.push(element("li", `and ${synapses.length - MOST} more, in the table of synapses`));
  return element("div", "", element("h4", title), element("ol", "", ...shown));
}

function nameOf(one, end) {
  if (end === 0 && one.input !== null) return data.inputs[one.input].title;
  return data.neurons[one.ends[end]].title;
}

function show(target) {
  const facts = find("chosen-facts"), lists = find("chosen-lists");
  facts.replaceChildren();
  lists.replaceChildren();
  for (const one of wiring.querySelectorAll(".near, .chosen")) one.classList.remove("near", "chosen");
  wiring.classList.toggle("pointing", target !== null);
  if (target === null) {
    find("chosen-title").textContent = hint;
    return;
  }
  const [kind, k] = target, one = data[`${kind}s`][k], around = near(kind, k);
  find("chosen-title").textContent = one.title;
  for (const [term, text] of one.facts) facts.append(element("dt", term), element("dd", text));
  wiring.querySelector(`[data-${kind}="${k}"]`)?.classList.add("chosen");
  for (const e of around) wiring.querySelector(`[data-synapse="${e}"]`)?.classList.add("near");
  const most = around.map((e) => data.synapses[e]).sort((a, b) => (parseFloat(b.share) || 0) - (parseFloat(a.share) || 0));
  if (kind === "neuron") {
    lists.append(list("what reaches it", most.filter((own) => own.ends[1] === k), (own) => nameOf(own, 0)));
    lists.append(list("what it reaches", most.filter((own) => own.ends[0] === k && own.input === null), (own) => nameOf(own, 1)));
  }
  if (kind === "input") lists.append(list("what it reaches", most, (own) => nameOf(own, 1)));
}

function targetOf(event) {
  const found = event.target.closest?.("[data-neuron], [data-input], [data-synapse]");
  if (!found) return null;
  const [[kind, k]] = Object.entries(found.dataset);
  return [kind, Number(k)];
}

if (wiring) {
  wiring.addEventListener("pointerover", (event) => event.pointerType === "mouse" && show(targetOf(event) ?? kept));
  wiring.addEventListener("pointerleave", () => show(kept));
  wiring.addEventListener("click", (event) => {
    const target = targetOf(event);
    kept = String(target) === String(kept) ? null : target;
    show(kept);
  });
  wiring.addEventListener("focusin", (event) => show(targetOf(event) ?? kept));
  wiring.addEventListener("keydown", (event) => {
    if (event.key === "Escape") kept = null;
    else if (event.key === "Enter" || event.key === " ") kept = targetOf(event);
    else return;
    event.preventDefault();
    show(kept);
  });
}

