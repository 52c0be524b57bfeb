// SPDX-License-Identifier: GPL-2.0-or-later
// Search, and links to what is in a closed table.  All else of the page works without a script.
(() => {
  const box = document.getElementById("searching");
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  if (!box) return;
  box.hidden = false;
  const rows = [...document.querySelectorAll("main tbody tr, main article")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  let timer = 0;
  const search = () => {
    const words = input.value.trim().toLowerCase();
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = words !== "" && !texts[index].includes(words);
      shown += row.hidden ? 0 : 1;
    });
    for (const table of document.querySelectorAll("main details"))
      if (words !== "") table.open = [...table.querySelectorAll("tbody tr")].some((row) => !row.hidden);
    found.textContent = words === "" ? "" : ` ${shown} rows`;
    document.dispatchEvent(new CustomEvent("lockline-search", { detail: words }));
  };
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 120);
  });
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const table = target && target.closest("details");
    if (table) table.open = true;
    if (target) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();
})();
