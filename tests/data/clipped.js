// Words that are broken, and what is cut off beyond what scrolls, of all that is shown.
() => {
  const found = [];
  const seen = (element) => element.checkVisibility() && !element.closest(".quiet, svg");
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (!seen(text.parentElement) || text.parentElement.closest("pre")) continue;
    for (const word of text.data.matchAll(/[\p{L}\p{N}.%]+/gu)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
      if (word[0].length <= 20 && lines.size > 1) found.push(`broken: ${word[0]}`);
    }
  }
  for (const element of document.querySelectorAll("main *")) {
    const scrolls = element.matches(".scroll, .wide") && innerWidth < 1000;
    const holds = element.matches("input") || getComputedStyle(element).display === "inline";
    if (seen(element) && !scrolls && !holds && element.scrollWidth > element.clientWidth + 1)
      found.push(`cut off: ${element.outerHTML.slice(0, 100)}`);
  }
  return found;
}
