// Tables: a range is sorted by its width, and what is not proved comes last.

function keyOf(cell) {
  const text = cell.textContent.trim().replaceAll(",", "");
  const range = text.match(/^(-?[\d.e+-]+) to (-?[\d.e+-]+)$/);
  if (range) return Number(range[2]) - Number(range[1]);
  const number = parseFloat(text);
  return Number.isNaN(number) ? null : number;
}

function sort(table, column, falling) {
  const rows = [...table.tBodies[0].rows];
  const words = column === 0 || table.tHead.rows[0].cells[column].classList.contains("words");
  const keys = new Map(rows.map((row) => [row, words ? row.cells[column].textContent : keyOf(row.cells[column])]));
  rows.sort((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    const order = words ? one.localeCompare(other, "en", { numeric: true }) : one - other;
    return falling ? -order : order;
  });
  table.tBodies[0].append(...rows);
}

for (const head of document.querySelectorAll("thead th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), falling = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    sort(table, head.cellIndex, falling);
  });
}
