"use strict";
(function () {
  const root = document.documentElement;
  const key = "deqcli-theme";
  function stored(value) {
    // A page opened from a file may have no storage; the toggle works without.
    try {
      if (value) localStorage.setItem(key, value);
      return localStorage.getItem(key);
    } catch (error) {
      return null;
    }
  }
  const before = stored();
  if (before === "light" || before === "dark") root.dataset.theme = before;
  document.getElementById("theme").addEventListener("click", function () {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    stored(root.dataset.theme);
  });

  for (const button of document.querySelectorAll(".enlarge")) {
    const plot = button.closest("article").querySelector(".plot");
    function toggle() {
      const large = plot.classList.toggle("large");
      button.setAttribute("aria-pressed", large);
      button.textContent = large ? "fit" : "enlarge";
    }
    button.addEventListener("click", toggle);
  }

  // What is shown has every word that is typed, in its text or, for the contents, its article's.
  const filter = document.getElementById("filter");
  const parts = [...document.querySelectorAll("[data-filter]")].map(function (part) {
    const source = part.dataset.text ? document.getElementById(part.dataset.text) : part;
    const also = part.dataset.also || "";
    return { part: part, text: (source.textContent + " " + also).toLowerCase() };
  });
  const folds = [...document.querySelectorAll("#verdicts details:has(tr)")];
  function apply() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const { part, text } of parts) {
      part.hidden = !words.every(function (word) { return text.includes(word); });
    }
    const shown = {};
    for (const kind of ["article", "tr"]) {
      shown[kind] = document.querySelectorAll(kind + "[data-filter]:not([hidden])").length;
    }
    for (const section of document.querySelectorAll("main > section")) {
      const mine = section.querySelectorAll("[data-filter]");
      section.hidden = words.length > 0 && ![...mine].some(function (part) { return !part.hidden; });
    }
    for (const fold of folds) {
      fold.open = words.length > 0 && fold.querySelector("tr[data-filter]:not([hidden])") !== null;
    }
    document.getElementById("matches").textContent = words.length
      ? "figures: " + shown.article + ", numbers: " + shown.tr
      : "";
  }
  filter.addEventListener("input", apply);
  filter.form.addEventListener("submit", function (event) { event.preventDefault(); });
  // A page that is shown again may have kept what was typed.
  apply();
})();
