// SPDX-License-Identifier: GPL-2.0-or-later
// Search, links to what is in a closed table, and the start of the charts.  All else of the page works without a script.
(() => {
  const box = document.getElementById("searching");
  const input = document.getElementById("search");
  const found = document.getElementById("found");
  if (!box) return;
  box.hidden = false;
  let rows, texts;
  let timer = 0;
  const search = () => {
    rows ??= [...document.querySelectorAll("main tbody tr, main article")];
    texts ??= rows.map((row) => row.textContent.toLowerCase());
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
  // The script of the charts is large: it is read once a chart comes near the window, and the page has answered before.
  const code = document.getElementById("charts");
  const figures = document.querySelectorAll("figure[data-chart]");
  if (!code || !figures.length) return;
  const seen = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      setTimeout(() => {
        const script = document.createElement("script");
        script.textContent = code.textContent;
        document.body.append(script);
      });
    },
    { rootMargin: "100px" },
  );
  for (const figure of figures) seen.observe(figure);
})();
