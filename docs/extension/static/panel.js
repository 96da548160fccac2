// Panels in a page follow its theme; their address is set here, so that it can say which one.
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const chosen = document.body.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return dark.matches ? "dark" : "light";
}

function show() {
  for (const frame of document.querySelectorAll(".panel iframe")) {
    const address = `${frame.dataset.src}&theme=${theme()}&embed=1`;
    if (frame.getAttribute("src") !== address) frame.setAttribute("src", address);
  }
}

show();
new MutationObserver(show).observe(document.body, { attributeFilter: ["data-theme"] });
dark.addEventListener("change", show);

// A frame is as high as what it shows, which it tells by itself.
window.addEventListener("message", ({ source, data }) => {
  const height = data?.posenc?.height;
  if (!Number.isFinite(height)) return;
  for (const frame of document.querySelectorAll(".panel iframe"))
    if (frame.contentWindow === source) frame.style.height = `${height}px`;
});
