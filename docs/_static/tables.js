// Lets tables.css stack the rows of a table on a narrow screen. Without this script, tables scroll sideways.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.docutils")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (!heads.length) continue;
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.children].forEach((cell, column) => {
        cell.dataset.head = heads[column] ? `${heads[column]}:` : "";
      });
    }
    table.classList.add("stacked");
  }
  // A message of several sentences is one line of a terminal's output: it is wrapped, as a terminal does.
  for (const block of document.querySelectorAll("pre")) {
    if (block.textContent.split("\n").some((line) => line.length > 180)) block.classList.add("wrapped");
  }
});
