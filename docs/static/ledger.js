// The filters of the ledger of claims; the address keeps them, so that a selection can be sent to somebody.
(function () {
  const form = document.getElementById("ledger-filters");
  if (!form) return;
  const claims = [...document.querySelectorAll("#ledger .claim")];
  const fields = ["part", "protocol", "classifier"];

  function restore() {
    const asked = new URLSearchParams(location.search);
    if (asked.has("verdict")) {
      const wanted = asked.get("verdict").split(",");
      form.querySelectorAll("[name=verdict]").forEach((box) => { box.checked = wanted.includes(box.value); });
    }
    for (const name of [...fields, "words"]) if (asked.has(name)) form.elements[name].value = asked.get(name);
  }

  function apply() {
    const boxes = [...form.querySelectorAll("[name=verdict]")];
    const verdicts = boxes.filter((box) => box.checked).map((box) => box.value);
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (field, value) => form.elements[field].value === "*" || form.elements[field].value === value;
    let shown = 0;
    for (const claim of claims) {
      const text = claim.textContent.toLowerCase();
      const here = fits("part", claim.dataset.part) && words.every((word) => text.includes(word));
      let some = false;
      for (const finding of claim.querySelectorAll(".finding")) {
        const fit = verdicts.includes(finding.dataset.verdict) && fits("protocol", finding.dataset.protocol)
          && fits("classifier", finding.dataset.classifier);
        finding.hidden = !fit;
        some = some || fit;
      }
      claim.hidden = !(here && some);
      if (!claim.hidden) shown += 1;
    }
    form.querySelector("output").textContent = `${shown} of ${claims.length} sentences`;
    const address = new URLSearchParams();
    if (verdicts.length < boxes.length) address.set("verdict", verdicts.join(","));
    for (const name of fields) if (form.elements[name].value !== "*") address.set(name, form.elements[name].value);
    if (words.length) address.set("words", words.join(" "));
    const query = address.toString();
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : "") + location.hash);
  }

  restore();
  for (const kind of ["input", "change"]) form.addEventListener(kind, apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
})();
