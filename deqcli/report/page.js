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
})();
