// Tables are sorted by the column whose title is pressed; without this they stand as they are.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.classList.contains("n") ? Number(cell.dataset.v ?? -Infinity) : cell.textContent;
  };
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        return sign * (typeof x === "number" ? x - y || 0 : x.localeCompare(y, "en", { numeric: true }));
      });
      body.append(...rows);
    });
  });
}
