// A button on each block of code that copies it; formulas and calls, which are text, have none.
const WORDS = {
  en: { copy: "Copy", copied: "Copied", failed: "Press Ctrl+C" },
  zh: { copy: "复制", copied: "已复制", failed: "请按 Ctrl+C" },
};
const words = WORDS[document.documentElement.lang.startsWith("zh") ? "zh" : "en"];

async function copied(block) {
  const text = block.textContent.replace(/\n+$/, "\n");
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain http there is no clipboard but for what is selected.
    window.getSelection().selectAllChildren(block);
    return document.execCommand("copy");
  }
}

for (const block of document.querySelectorAll('[class*="highlight-"]:not(.highlight-text) pre')) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = words.copy;
  button.addEventListener("click", async () => {
    button.textContent = (await copied(block)) ? words.copied : words.failed;
    setTimeout(() => (button.textContent = words.copy), 1500);
  });
  block.parentElement.append(button);
}
