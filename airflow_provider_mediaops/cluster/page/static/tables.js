// Sorts tables by a click on a heading. Without it they stay as they were written, the highest figures first.
(() => {
  "use strict";

  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  };

  const sortBy = (heading) => {
    const column = heading.cellIndex;
    const body = heading.closest("table").tBodies[0];
    const rows = [...body.rows];
    const isText = typeof keyOf(rows[0], column) === "string";
    // The first click makes figures fall and names rise.
    const rises = { ascending: false, descending: true }[heading.getAttribute("aria-sort")] ?? isText;
    rows.sort((one, other) => {
      const [a, b] = rises ? [keyOf(one, column), keyOf(other, column)] : [keyOf(other, column), keyOf(one, column)];
      return isText ? a.localeCompare(b) : a - b;
    });
    body.append(...rows);
    for (const each of heading.parentNode.cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
  };

  for (const heading of document.querySelectorAll("thead th")) {
    if (heading.closest("table").tBodies[0].rows.length > 1) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => sortBy(heading));
      heading.replaceChildren(button);
    }
  }
})();
