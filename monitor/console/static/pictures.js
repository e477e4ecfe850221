/* Pictures as large as the screen, or in their own size. A page's pictures are buttons (`elements.figure`).
   In: clicks on `.enlarge`, keys. Out: a dialog over the page. Never: an address that the page does not show already. */
(() => {
  const word = (name) => ((window.databusTexts || {}).viewer || {})[name] || name;
  const element = (tag, classes, more) => Object.assign(document.createElement(tag), { className: classes, ...more });
  const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

  /* All pictures that are shown together with this one. */
  const beside = (button) => [...(button.closest(".detail") || document.body).querySelectorAll(".enlarge")];

  const open = (origin) => {
    const buttons = beside(origin);
    const several = buttons.length > 1;
    let at = buttons.indexOf(origin);
    const viewer = element("dialog", "viewer");
    const caption = element("span", "caption"), count = element("span", "count");
    const image = element("img", ""), frame = element("div", "frame", { tabIndex: 0 });
    const button = (name, text, act) => {
      const made = element("button", "header-button " + name, { type: "button", textContent: text, title: word(name), onclick: act });
      made.setAttribute("aria-label", word(name));
      return made;
    };
    const show = (step) => {
      at = (at + step + buttons.length) % buttons.length;
      const shown = buttons[at].querySelector("img");
      image.src = shown.src; image.alt = shown.alt;
      caption.textContent = shown.alt;
      viewer.setAttribute("aria-label", shown.alt);
      count.textContent = several ? `${at + 1} / ${buttons.length}` : "";
      frame.scrollTo(0, 0);
    };
    const size = button("original", "1:1", () => {
      const original = viewer.classList.toggle("own-size");
      size.setAttribute("aria-pressed", original);
    });
    size.setAttribute("aria-pressed", false);
    const steps = several ? [button("previous", "‹", () => show(-1)), button("next", "›", () => show(1))] : [];
    const bar = element("div", "viewer-bar");
    bar.append(caption, count, ...steps, size, button("close", "✕", () => viewer.close()));
    frame.append(image); viewer.append(bar, frame);

    const leave = () => viewer.close(); // Back closes what lies below, too
    viewer.addEventListener("keydown", (event) => {
      event.stopPropagation(); // the panel below closes on Escape as well
      if (event.key === "Escape") { event.preventDefault(); viewer.close(); }
      if (several && event.key in STEPS) { event.preventDefault(); show(STEPS[event.key]); }
    });
    viewer.addEventListener("keyup", (event) => event.stopPropagation());
    viewer.addEventListener("click", (event) => { if (event.target === frame) viewer.close(); });
    viewer.addEventListener("close", () => {
      window.removeEventListener("popstate", leave);
      viewer.remove();
      (buttons[at].isConnected ? buttons[at] : origin).focus();
    });
    window.addEventListener("popstate", leave);
    (origin.closest(".detail") || document.body).append(viewer); // a dialog below keeps the focus inside itself
    show(0);
    viewer.showModal();
    frame.focus();
  };

  document.addEventListener("click", (event) => {
    const origin = event.target.closest?.(".enlarge");
    if (origin) open(origin);
  });
})();
