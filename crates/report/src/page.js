// Tables are sorted by the column whose title is pressed; without this they stand as they are.
for (const table of document.querySelectorAll("table.sort")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  // A number, a text, or null for nothing.
  const key = (row, column) => {
    const { dataset, textContent } = row.cells[column];
    return dataset.v === undefined ? textContent : dataset.v === "" ? null : Number(dataset.v);
  };
  // Numbers before texts; nothing is last in both directions.
  const compare = (x, y, sign) => {
    if (x === null || y === null) return (x === null) - (y === null);
    if (typeof x !== typeof y) return typeof x === "number" ? -sign : sign;
    return sign * (typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true }));
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
      const rows = [...body.rows].sort((a, b) => compare(key(a, column), key(b, column), sign));
      body.append(...rows);
    });
  });
}
