// A click on a heading sorts its table by that column; another click turns it around.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), table = button.closest("table");
    const column = [...head.parentNode.children].indexOf(head);
    const rises = head.getAttribute("aria-sort") === "descending";
    const value = (row) => row.children[column].dataset.value ?? row.children[column].textContent;
    const order = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === "" || y === "") return (x === "") - (y === "");  // What is unknown goes last either way.
      const numbers = x - y;
      return (Number.isNaN(numbers) ? x.localeCompare(y) : numbers) * (rises ? 1 : -1);
    };
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rises ? "ascending" : "descending");
    table.tBodies[0].append(...[...table.tBodies[0].rows].sort(order));
  });
}
