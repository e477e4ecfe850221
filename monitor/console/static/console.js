/* What pages need in the browser beyond NiceGUI's elements. All data comes in as JSON, never as code. */
window.databus = (() => {
  const texts = () => window.databusTexts || {};
  const word = (group, value) => (texts()[group] || {})[value] || value || "";

  // -- the address: search, filters, the open record -----------------------------------------------
  const here = () => location.pathname + location.search;
  const go = (address, replaces) => history[replaces ? "replaceState" : "pushState"]({}, "", address);
  window.addEventListener("popstate", () => emitEvent("address", location.search));
  /* A form that leads back to this page leads back to what it shows now. */
  document.addEventListener("submit", (event) => {
    const next = event.target.elements.namedItem("next");
    if (next) next.value = here();
  });

  // -- the end of a session, and of the connection -------------------------------------------------
  /* The session is over: nothing of the page stays, the log-in page says why. */
  const leave = () => location.replace("/login?ended=1&next=" + encodeURIComponent(here()));
  const popup = () => document.getElementById("popup");
  /* A page that missed the message, or whose connection was refused, does not learn that its session is over: it asks. */
  const ASK_SECONDS = 5;
  const askWhoWeAre = async () => {
    try {
      const reply = await fetch("/assets/icon.svg", { cache: "no-store", redirect: "manual" });
      if (reply.status === 401) leave();
    } catch (error) { /* the console itself is away; NiceGUI tries again */ }
  };
  document.addEventListener("DOMContentLoaded", () => {
    const [lost, retry] = popup()?.querySelectorAll("span") || [];
    if (lost) lost.textContent = word("connection", "lost");
    if (retry) retry.textContent = word("connection", "retry");
    setInterval(askWhoWeAre, ASK_SECONDS * 1000);
  });

  // -- cells of grids -----------------------------------------------------------------------------
  /* The grid takes a string of a renderer for HTML; what devices and operators write is text. */
  const asText = (renderer) => (params) => {
    const shown = renderer(params);
    if (shown === "" || shown == null || shown instanceof Element) return shown ?? "";
    return Object.assign(document.createElement("span"), { textContent: String(shown) });
  };
  const picture = (params) => {
    if (!params.value) return "";
    const image = document.createElement("img");
    image.src = params.value;
    image.className = "thumb";
    image.alt = "";
    image.loading = "lazy";
    image.onerror = () => image.remove();
    return image;
  };
  /* A value of a device: a known one in the page's language, another as it came. */
  const value = (params) => {
    const known = texts().value || {}, text = String(params.value ?? "").trim();
    return known[text] || known[text.toLowerCase()] || text;
  };
  const key = (params) => word("key", params.value);
  const kind = (params) => word("kind", params.value);
  const severity = (params) => word("severity", params.value);
  const stage = (params) => word("stage", params.value);
  /* A word that the server has already put into the page's language, beside the value that colours it. */
  const told = (params) => (params.data || {})[params.colDef.field + "_text"] ?? "";
  const bytes = (params) => {
    if (params.value == null) return "";
    let value = Number(params.value), unit = 0;
    while (value >= 1024 && unit < 4) { value /= 1024; unit += 1; }
    return `${value.toFixed(unit && value < 100 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}/s`;
  };
  /* Of the alarms of a rule that somebody has judged. */
  const falseShare = (params) => {
    const { judged, false_alarms: wrong } = params.data || {};
    return judged ? `${wrong} / ${judged}` : "";
  };
  const state = (params) => word("state", params.value);
  const reason = (params) => word("reason", params.value);
  const incident = (params) => word("incident", params.value);
  const severityClass = (params) => ["sev", "sev-" + String(params.value).replace(/[^a-z]/g, "")];
  const reasons = (params) =>
    Object.entries(params.value || {}).map(([key, count]) => `${word("reason", key)} ${count}`).join(word("list", "comma"));
  /* The conditions of a rule; a value that was asked for in both languages is said once. */
  const match = (params) => Object.entries(params.value || {})
    .map(([attribute, values]) => `${word("attribute", attribute)} = ${[...new Set(values.map((one) => value({ value: one })))].join(" / ")}`)
    .concat((params.data || {}).where_text || [])
    .join(word("list", "semicolon"));
  const validity = (params) => {
    const { valid_from: from, valid_until: until } = params.data || {};
    return from === undefined ? "" : (from ? `${from} – ` : "") + (until || word("watch", "forever"));
  };
  const clock = (params) => (params.value || "").slice(11);
  const number = (params) => (params.value == null ? "" : Number(params.value).toLocaleString("en-US"));
  const percent = (params) => (params.value == null ? "" : Number(params.value).toFixed(1) + " %");
  const duration = (params) => {
    const ms = params.value;
    if (ms == null) return "";
    return Math.abs(ms) < 10000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
  };

  // -- grids --------------------------------------------------------------------------------------
  /* Pages of an API that hands out cursors; a block that the grid asks again finds its cursor again. */
  const source = (address, parameters) => {
    const cursors = { 0: "" };
    return {
      getRows: async (request) => {
        if (!address) return request.successCallback([], 0);
        const query = new URLSearchParams({ ...parameters, limit: request.endRow - request.startRow, cursor: cursors[request.startRow] || "" });
        try {
          const rows = [];
          do { // a page may be short and have a cursor all the same
            const reply = await fetch(`${address}?${query}`);
            if (reply.status === 401) return leave();
            if (!reply.ok) return request.failCallback();
            const page = await reply.json();
            rows.push(...page.rows);
            query.set("cursor", page.cursor);
            query.set("limit", request.endRow - request.startRow - rows.length);
          } while (query.get("cursor") && rows.length < request.endRow - request.startRow);
          const following = query.get("cursor");
          if (following) cursors[request.endRow] = following;
          request.successCallback(rows, following ? -1 : request.startRow + rows.length);
        } catch {
          request.failCallback();
        }
      },
    };
  };
  const ask = (grid, address, parameters) => getElement(grid)?.api?.setGridOption("datasource", source(address, parameters));

  const refresh = (grid) => getElement(grid)?.api?.refreshInfiniteCache();

  /* New rows on top, old ones out, known ones as they are now; the grid keeps its scroll and selection. */
  const prepend = (grid, rows, most) => {
    const api = getElement(grid)?.api;
    if (!api) return;
    const key = api.getGridOption("getRowId");
    const known = (row) => api.getRowNode(key({ data: row }));
    const fresh = rows.filter((row) => !known(row));
    const gone = [];
    const excess = api.getDisplayedRowCount() + fresh.length - most;
    for (let i = 0; i < excess; i++) {
      const node = api.getDisplayedRowAtIndex(api.getDisplayedRowCount() - 1 - i);
      if (node) gone.push(node.data);
    }
    api.applyTransaction({ add: fresh, addIndex: 0, update: rows.filter(known), remove: gone });
  };
  const update = (grid, rows) => {
    const api = getElement(grid)?.api;
    if (!api) return;
    const key = api.getGridOption("getRowId");
    const known = (row) => api.getRowNode(key({ data: row }));
    const keep = new Set(rows.map((row) => key({ data: row })));
    const gone = [];
    api.forEachNode((node) => keep.has(node.id) || gone.push(node.data));
    api.applyTransaction({ add: rows.filter((row) => !known(row)), update: rows.filter(known), remove: gone });
  };
  const filter = (grid, text) => getElement(grid)?.api?.setGridOption("quickFilterText", text);

  /* On a narrow screen a row is a card: the columns' own words and renderers, without a header. */
  const narrow = window.matchMedia("(max-width: 700px)");
  const LINE_PX = 22, CARD_FRAME_PX = 16, ROW_PX = 32;
  const isPicture = (column) => column.field === "picture";
  const isWide = (column) => (column.flex || 0) >= 2 || (column.width || 0) >= 180;
  const cardHeight = (columns) => {
    const wide = columns.filter(isWide).length, pictures = columns.filter(isPicture).length;
    return (wide + Math.ceil((columns.length - wide - pictures) / 2)) * LINE_PX + CARD_FRAME_PX;
  };
  const made = (tag, classes, ...content) => {
    const element = Object.assign(document.createElement(tag), { className: classes });
    element.append(...content);
    return element;
  };
  const cellOf = (column, params) => {
    const cell = { ...params, colDef: column, value: params.data[column.field] };
    const shown = column.cellRenderer ? column.cellRenderer(cell)
      : column.valueFormatter ? column.valueFormatter(cell) : cell.value;
    const classes = typeof column.cellClass === "function" ? column.cellClass(cell) : column.cellClass || [];
    return { shown: shown ?? "", classes: [classes].flat().filter((name) => !/^(ag-|num$)/.test(name)).join(" ") };
  };
  const card = (columns) => (params) => {
    if (!params.data) return word("grid", "loadingOoo");
    const pictures = [], pairs = made("div", "pairs");
    for (const column of columns) {
      const { shown, classes } = cellOf(column, params);
      if (shown === "") continue;
      if (isPicture(column)) pictures.push(shown);
      else pairs.append(made("div", isWide(column) ? "pair wide" : "pair", made("span", "name", column.headerName), made("span", classes, shown)));
    }
    return made("div", "card", ...pictures, pairs);
  };
  /* A column of deeds stays beside the card; the others are kept hidden, for their order. */
  const isDeed = (column) => Boolean(column.context?.deed);
  const fit = (api) => {
    const wide = api.getColumnDefs().map((column) => ({ ...column, hide: false }));
    const columns = wide.filter((column) => !isDeed(column));
    const label = document.querySelector(`[grid-id="${api.getGridId()}"]`)?.closest(".nicegui-aggrid")?.getAttribute("aria-label");
    const only = {
      colId: "card", headerName: label ?? "", flex: 1, minWidth: 200, cellClass: "card-cell", cellRenderer: card(columns),
      valueGetter: (params) => JSON.stringify(params.data), getQuickFilterText: () => "",
    };
    const lay = () => {
      if (api.isDestroyed()) return;
      const rowPx = narrow.matches ? cardHeight(columns) : ROW_PX;
      const element = document.querySelector(`[grid-id="${api.getGridId()}"]`)?.closest(".nicegui-aggrid");
      element?.style.setProperty("--row-height", rowPx + "px"); // `theme.css` leaves room for some rows
      const hidden = wide.map((column) => ({ ...column, hide: !isDeed(column) }));
      api.setGridOption("headerHeight", narrow.matches ? 0 : ROW_PX);
      api.setGridOption("rowHeight", rowPx);
      api.setGridOption("columnDefs", narrow.matches ? [only, ...hidden] : wide);
      const asked = api.getGridOption("datasource"); // blocks keep the height they were asked with
      if (asked) api.setGridOption("datasource", { ...asked });
    };
    if (narrow.matches) lay();
    narrow.addEventListener("change", lay);
  };

  // -- charts -------------------------------------------------------------------------------------
  /* One point per series; the browser keeps the curve, the server sends only what is new. */
  const point = (chart, values, most) => {
    const drawn = getElement(chart)?.chart;
    if (!drawn) return;
    const series = drawn.getOption().series.map((one, i) => {
      const data = one.data.slice(-(most - 1));
      data.push(values[i]);
      return { data };
    });
    drawn.setOption({ series }, { lazyUpdate: true });
  };
  const seconds = (value) => (value / 1000).toFixed(value < 9950 ? 2 : 1) + " s";
  const decade = (value) => (value < 1000 ? `${value} ms` : `${(value / 1000).toLocaleString("en-US")} s`);

  // -- the frame ----------------------------------------------------------------------------------
  const startClock = (id, zone) => {
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    const tell = () => {
      const element = document.getElementById(id);
      if (element) element.textContent = format.format(new Date());
    };
    tell();
    setInterval(tell, 1000);
  };
  const siteTime = (zone, options) => {
    const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, ...options });
    return (value) => format.format(new Date(value));
  };
  return { asText, told, match, validity, bytes, picture, value, key, kind, severity, stage, falseShare, severityClass, state, reason, incident, reasons, clock, number, percent, duration, source, ask, refresh,
           prepend, update, filter, point, seconds, decade, startClock, siteTime, leave, go, fit };
})();
