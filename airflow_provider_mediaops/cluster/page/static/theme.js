// Shows the page dark or light as Airflow is: within a tab as the page around it, alone as the reader has chosen there.
(() => {
  "use strict";

  const outer = (() => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // a page of another server
    }
  })();

  const chosen = () => {
    if (outer) return outer.classList.contains("dark") ? "dark" : "light";
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // the browser keeps nothing
    }
  };

  const show = () => {
    const theme = chosen();
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme; // as the system is
  };

  show();
  if (outer) new MutationObserver(show).observe(outer, { attributes: true, attributeFilter: ["class"] });
  else addEventListener("storage", show);
})();
