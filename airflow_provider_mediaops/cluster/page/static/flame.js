// Draws the flame graph with d3-flame-graph. What the cluster sent goes into texts and attributes, never into markup;
// the page's policy (require-trusted-types-for) would stop anything else.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);
  let data = JSON.parse(byId("flame-data").textContent);
  let captures = data.stacks.length;
  // What stands before the frames of a stack.
  const places = data.places ?? ["node", "pool", "thread"];
  // There is nothing to choose where there is one capture.
  const chosen = (id, otherwise) => byId(id)?.value ?? otherwise;

  // ---- From stacks to a tree

  const newBranch = (name, kind) => ({ name, kind, amounts: new Array(captures).fill(0), below: new Map() });

  // One branch for each caller, with its amount in each capture; first the places asked for, then the frames.
  const grow = (levels) => {
    const root = newBranch("Everything", "all");
    data.stacks.forEach((stacks, capture) => {
      for (const [part, ...names] of stacks) {
        const steps = levels.map((level) => [names[level], places[level]]);
        for (const name of names.slice(places.length)) steps.push([name, "frame"]);
        let branch = root;
        branch.amounts[capture] += part;
        for (const [name, kind] of steps) {
          if (!branch.below.has(name)) branch.below.set(name, newBranch(data.names[name], kind));
          branch = branch.below.get(name);
          branch.amounts[capture] += part;
        }
      }
    });
    return root;
  };

  const sum = (amounts) => amounts.reduce((total, amount) => total + amount, 0);

  // The tree as the library wants it. Bars keep their order from capture to capture.
  const asBars = (branch, capture, before) => ({
    name: branch.name,
    kind: branch.kind,
    value: capture === "all" ? sum(branch.amounts) / captures : branch.amounts[capture],
    before: before === "" ? null : branch.amounts[before],
    children: [...branch.below.values()]
      .sort((one, other) => sum(other.amounts) - sum(one.amounts))
      .map((child) => asBars(child, capture, before)),
  });

  // ---- What a bar says, and its color

  const figure = (amount) => {
    if (data.unit === "percent") return `${amount.toFixed(1)} %`;
    if (data.unit === "threads") return `${amount.toFixed(1)} threads`;
    const units = ["B", "kB", "MB", "GB", "TB"];
    const step = amount < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(amount) / 10));
    return `${(amount / 1024 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
  };

  // Of a method its class rather than the package before it.
  const shortName = ({ name, kind }) => (kind === "frame" ? name.split(".").slice(-2).join(".") : name);

  let total = 0;

  // What a bar says when it is pointed at, or read aloud.
  const describe = ({ data: bar }) => {
    const what = places.includes(bar.kind) ? `${bar.kind} ${bar.name}` : bar.name;
    const part = total ? `, ${((100 * bar.value) / total).toFixed(1)} % of the graph` : "";
    if (bar.before === null) return `${what}: ${figure(bar.value)}${part}`;
    const [now, then] = [figure(bar.value), figure(bar.before)];
    const change = now === then ? "as in" : `${bar.value > bar.before ? "up" : "down"} from ${then} in`;
    return `${what}: ${now}${part}, ${change} ${data.labels[chosen("flame-before", "")]}`;
  };

  const libraries = [
    ["jdk", /^(java|javax|jdk|sun|com\.sun)\./],
    ["lucene", /^org\.apache\.lucene\./],
    ["server", /^org\.(elasticsearch|opensearch)\./],
    ["netty", /^io\.netty\./],
  ];

  const color = ({ data: bar, highlight }) => {
    if (highlight) return "var(--found)";
    if (bar.before === null) {
      if (bar.kind !== "frame") return "var(--place)";
      return `var(--${libraries.find(([, pattern]) => pattern.test(bar.name))?.[0] ?? "other"})`;
    }
    if (!bar.before) return bar.value ? "var(--new)" : "var(--same)";
    const strength = Math.abs(bar.value - bar.before) / Math.max(bar.value, bar.before);
    const name = bar.value > bar.before ? "more" : "less";
    return `color-mix(in srgb, var(--${name}) ${Math.round(100 * strength)}%, var(--same))`;
  };

  // ---- Drawing

  // What changes moves to its place; but what is drawn anew is there at once, also for a printer.
  const smooth = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 250;
  const place = byId("flame-graph");
  const reset = byId("flame-reset");
  const search = byId("flame-search");
  const graph = flamegraph
    .default()
    .inverted(true)
    .cellHeight(18)
    .minFrameSize(2)
    .resetHeightOnZoom(true)
    .transitionDuration(0)
    .width(place.clientWidth)
    .getName((node) => shortName(node.data))
    .setLabelHandler(describe)
    .setDetailsElement(byId("flame-details"))
    .setColorMapper(color)
    .setSearchMatch((node, term) => node.data.name.toLowerCase().includes(term.toLowerCase()))
    .setSearchHandler((found) => showFound(found))
    .onClick((node) => {
      reset.disabled = !node.parent;
      dress(node);
    });

  let elements = new Map();
  let current = null;

  // Bars can be reached with the keyboard, one of them with Tab and from there the others with the arrows; and the
  // drawing as a whole can be made as wide as a sheet of paper.
  const dress = (focused) => {
    const svg = place.querySelector("svg");
    svg.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Flame graph");
    elements = new Map();
    for (const element of svg.querySelectorAll("g.frame")) {
      const node = element.__data__;
      elements.set(node, element);
      element.setAttribute("tabindex", "-1");
      element.setAttribute("role", "button");
    }
    current = elements.has(focused) ? focused : elements.keys().next().value;
    elements.get(current)?.setAttribute("tabindex", "0");
  };

  const draw = () => {
    const [capture, before] = [chosen("flame-capture", 0), chosen("flame-before", "")];
    const levels = byId("flame-levels").value;
    const bars = asBars(grow(levels ? levels.split(",").map(Number) : []), capture, before);
    total = bars.value;
    if (place.querySelector("svg")) graph.update(bars);
    else {
      d3.select(place).datum(bars).call(graph);
      graph.transitionDuration(smooth);
    }
    byId("flame-legend").hidden = before !== "";
    byId("flame-legend-changes").hidden = before === "";
    reset.disabled = true;
    if (search.value) graph.search(search.value);
    dress(null);
  };

  // Of bars above one another only the outermost counts.
  const showFound = (found) => {
    const drawn = found.filter((node) => node.data.value);
    const outermost = drawn.filter((node) => !node.ancestors().slice(1).some((caller) => caller.highlight));
    const amount = figure(sum(outermost.map((node) => node.data.value)));
    byId("flame-found").textContent = `${amount} in ${drawn.length} ${drawn.length === 1 ? "bar" : "bars"}`;
  };

  const neighbour = (node, key) => {
    const siblings = (node.parent?.children ?? [node]).filter((each) => elements.has(each));
    const position = siblings.indexOf(node);
    return {
      ArrowUp: node.parent,
      ArrowDown: node.children?.find((child) => elements.has(child)),
      ArrowLeft: siblings[position - 1],
      ArrowRight: siblings[position + 1],
    }[key];
  };

  place.addEventListener("keydown", (event) => {
    if (event.key === "Escape") graph.resetZoom();
    else if (event.key === "Enter" || event.key === " ") graph.zoomTo(current);
    else if (neighbour(current, event.key)) dress(neighbour(current, event.key));
    else if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    elements.get(current).focus();
  });
  place.addEventListener("focusin", (event) => {
    const node = event.target.__data__;
    if (node) {
      current = node;
      byId("flame-details").textContent = describe(node);
    }
  });
  for (const id of ["flame-capture", "flame-before", "flame-levels"]) byId(id)?.addEventListener("change", draw);
  search.addEventListener("input", () => {
    byId("flame-found").textContent = "";
    if (search.value) graph.search(search.value);
    else graph.clear();
    dress(current);
  });
  reset.addEventListener("click", () => graph.resetZoom());
  // A page that draws other stacks at the reader's choice, of the same places, sends them.
  document.addEventListener("flame-data", (event) => {
    data = event.detail;
    captures = data.stacks.length;
    draw();
  });
  byId("flame-controls").addEventListener("submit", (event) => event.preventDefault());
  byId("flame-controls").hidden = false;
  byId("flame-details").hidden = false;
  new ResizeObserver(() => {
    if (place.clientWidth && place.clientWidth !== graph.width()) {
      graph.transitionDuration(0).width(place.clientWidth).update();
      graph.transitionDuration(smooth);
      dress(current);
    }
  }).observe(place);
  draw();
  byId("flame-missing").hidden = true;
})();
