// Draws the strips of a digest, and sends the stacks of the chosen time to the flame graph. What the cluster sent goes
// into texts and attributes, never into markup.
(() => {
  "use strict";

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("digest-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";

  const make = (tag, text = "", className = "") => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (className) element.className = className;
    return element;
  };

  const draw = (tag, attributes) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };

  const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  const number = (value) => value.toLocaleString("en");
  const counted = (value, label) => `${number(value)} ${value === 1 ? label.replace("captures", "capture") : label}`;

  const figure = (amount, unit) => {
    if (unit === "percent") return `${amount.toFixed(1)} %`;
    if (unit === "threads") return `${amount.toFixed(1)} threads`;
    const units = ["B", "kB", "MB", "GB", "TB"];
    const step = amount < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(amount) / 10));
    return `${(amount / 1024 ** step).toFixed(step ? 1 : 0)} ${units[step]}`;
  };

  const [series, from, to, pool] = ["series", "from", "to", "pool"].map((name) => byId(`brush-${name}`));
  const shown = () => data.series[series.value];

  // ---- Strips

  // The columns are those of all series, so that strips stand above one another at the same time.
  const start = Math.min(...data.series.flatMap((one) => one.spans.map(([span]) => span)));
  const end = Math.max(...data.series.flatMap((one) => one.spans.map(([span]) => span)));
  const columns = Math.round((end - start) / data.width) + 1;
  const columnOf = (span) => Math.round((span - start) / data.width);

  const line = (name, title) => {
    const row = make("div", "", "row");
    const label = make("span", name, "name");
    label.title = name;
    const svg = draw("svg", { viewBox: `0 0 ${columns} 1`, preserveAspectRatio: "none", role: "img" });
    svg.setAttribute("aria-label", title);
    row.append(label, svg);
    return [row, svg];
  };

  const title = (element, text) => {
    const about = draw("title", {});
    about.textContent = text;
    element.append(about);
  };

  const chosen = [];

  const strip = (one, position) => {
    const box = make("div", "", "strip");
    box.append(make("h3", counted(one.captures, one.label)));
    const captures = new Map(one.spans.map(([span, count]) => [columnOf(span), count]));
    const means = one.pools.flatMap((row) =>
      row.cells.map(([span, , amount]) => amount / captures.get(columnOf(span))),
    );
    const highest = Math.max(...means);
    one.pools.forEach((row, place) => {
      const [element, svg] = line(row.pool, `${row.pool}, ${one.label}`);
      for (const column of captures.keys()) {
        svg.append(draw("rect", { x: column, width: 1, height: 1, class: "none" }));
      }
      for (const [span, seen, amount] of row.cells) {
        const [column, count] = [columnOf(span), captures.get(columnOf(span))];
        const mean = amount / count;
        const cell = draw("rect", { x: column, width: 1, height: 1, class: "hot" });
        cell.setAttribute("fill-opacity", highest ? (0.1 + (0.9 * mean) / highest).toFixed(3) : 0.1);
        title(cell, `${moment(span)}: ${figure(mean, one.unit)} on average, in ${seen} of ${count} captures`);
        svg.append(cell);
      }
      brush(svg, position, place);
      const frame = draw("rect", { y: 0, height: 1, class: "chosen", visibility: "hidden" });
      svg.append(frame);
      chosen.push({ frame, position, place });
      box.append(element);
    });
    const [counts, svg] = line("captures", `Captures, ${one.label}`);
    const most = Math.max(...captures.values());
    for (const [column, count] of captures) {
      const bar = draw("rect", { x: column, y: 1 - count / most, width: 1, height: count / most, class: "count" });
      title(bar, `${moment(start + column * data.width)}: ${count} captures`);
      svg.append(bar);
    }
    brush(svg, position, null);
    const row = make("div", "", "row");
    const axis = make("div", "", "axis");
    axis.append(make("span", moment(start)), make("span", `${moment(end + data.width)} UTC`));
    row.append(make("span"), axis);
    box.append(counts, row);
    byId("strips").append(box);
  };

  // ---- The chosen time

  const brush = (svg, position, place) => {
    let first = null;
    const columnAt = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * columns)));
    };
    const choose = (event) => {
      const column = columnAt(event);
      select(position, Math.min(first, column), Math.max(first, column), place);
    };
    svg.addEventListener("pointerdown", (event) => {
      first = columnAt(event);
      svg.setPointerCapture(event.pointerId);
      choose(event);
    });
    svg.addEventListener("pointermove", (event) => {
      if (first !== null) choose(event);
    });
    for (const name of ["pointerup", "pointercancel"]) {
      svg.addEventListener(name, () => {
        if (first !== null) sendStacks();
        first = null;
      });
    }
  };

  const options = (element, texts) => {
    element.replaceChildren(
      ...texts.map(([value, text]) => {
        const option = make("option", text);
        option.value = value;
        return option;
      }),
    );
  };

  const select = (position, first, last, place) => {
    if (series.value !== String(position)) {
      series.value = position;
      listPools();
    }
    [from.value, to.value] = [first, last];
    if (place !== null) pool.value = place;
    show();
  };

  const listPools = () => options(pool, shown().pools.map((row, place) => [place, row.pool]));

  const show = () => {
    const [first, last] = [Number(from.value), Math.max(Number(from.value), Number(to.value))];
    to.value = last;
    for (const { frame, position, place } of chosen) {
      const isChosen = String(position) === series.value && String(place) === pool.value;
      frame.setAttribute("visibility", isChosen ? "visible" : "hidden");
      frame.setAttribute("x", first);
      frame.setAttribute("width", last - first + 1);
    }
    listCaptures(first, last);
  };

  const isWithin = (span, first, last) => columnOf(span) >= first && columnOf(span) <= last;

  const listCaptures = (first, last) => {
    const one = shown();
    const row = one.pools[pool.value];
    const cells = row ? row.cells.filter(([span]) => isWithin(span, first, last)) : [];
    const seen = cells.reduce((sum, [, count]) => sum + count, 0);
    const total = one.spans.reduce((sum, [span, count]) => sum + (isWithin(span, first, last) ? count : 0), 0);
    const time = `${moment(start + first * data.width)} to ${moment(start + (last + 1) * data.width)} UTC`;
    const name = row?.pool ?? "No thread pool";
    byId("cell-title").textContent = `${name}: in ${number(seen)} of ${number(total)} ${one.label}, ${time}`;
    const named = cells
      .flatMap(([, , , captures]) => captures)
      .sort(([, , one], [, , other]) => other - one)
      .slice(0, 10);
    byId("cell-captures").replaceChildren(
      ...named.map(([path, taken, amount]) => {
        const item = make("li");
        const text = data.prefix + path;
        const link = data.base === null ? make("code", text) : make("a", text);
        if (data.base !== null) link.href = data.base + path.split("/").map(encodeURIComponent).join("/");
        item.append(`${moment(taken)}, ${figure(amount, one.unit)}: `, link);
        return item;
      }),
    );
    byId("cell-more").textContent =
      seen > named.length ? `Named are the hottest of each cell: ${named.length} of ${number(seen)}.` : "";
  };

  const sendStacks = () => {
    const one = shown();
    const [first, last] = [Number(from.value), Number(to.value)];
    const captures = one.spans.reduce((sum, [span, count]) => sum + (isWithin(span, first, last) ? count : 0), 0);
    const stacks = [];
    for (const [names, amounts] of one.stacks) {
      let sum = 0;
      for (let place = 0; place < amounts.length; place += 2) {
        const span = one.spans[amounts[place]][0];
        if (isWithin(span, first, last)) sum += amounts[place + 1];
      }
      if (sum > 0) stacks.push([sum / captures, ...names]);
    }
    const time = `${moment(start + first * data.width)} to ${moment(start + (last + 1) * data.width)} UTC`;
    byId("flame-range").textContent = `${counted(captures, one.label)}, ${time}; the average of a capture.`;
    const detail = { labels: [], unit: one.unit, names: data.names, stacks: [stacks] };
    document.dispatchEvent(new CustomEvent("flame-data", { detail }));
  };

  const showAndSend = () => {
    show();
    sendStacks();
  };

  data.series.forEach(strip);
  options(series, data.series.map((one, position) => [position, one.label]));
  const spans = Array.from({ length: columns }, (_, column) => [column, moment(start + column * data.width)]);
  options(from, spans);
  options(to, spans);
  listPools();
  to.value = columns - 1;
  series.addEventListener("change", () => {
    listPools();
    showAndSend();
  });
  for (const control of [from, to, pool]) control.addEventListener("change", showAndSend);
  byId("brush-all").addEventListener("click", () => {
    [from.value, to.value] = [0, columns - 1];
    showAndSend();
  });
  byId("brush").addEventListener("submit", (event) => event.preventDefault());
  byId("brush").hidden = false;
  byId("strips-missing").hidden = true;
  showAndSend();
})();
