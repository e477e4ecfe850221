/* The map of the checkpoints: roads and states drawn by ourselves, no tiles, nothing from outside.
   In: the register by its address, states, pulses, trajectories. Out: the event "pick" with a checkpoint id.
   Never: two names over each other; the one that matters less is hidden until its place is tapped. */
import { leaflet as L } from "nicegui-leaflet";
import { loadResource } from "../../static/utils/resources.js";

const MOST_STOPS = 12; // as the server sends
const TOKENS = { active: "--good", quiet: "--quiet", alarm: "--critical", fault: "--warning", unknown: "--soft" };
const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const escape = (text) => Object.assign(document.createElement("span"), { textContent: text }).innerHTML;

const NEAR_PX = 8; // of a tap beside the place of a hidden name; a finger is no pointer
const GAP_PX = 1; // between two names
const collide = (a, b) => a.left < b.right + GAP_PX && b.left < a.right + GAP_PX && a.top < b.bottom + GAP_PX && b.top < a.bottom + GAP_PX;
const holds = (box, { x, y }) => x > box.left - NEAR_PX && x < box.right + NEAR_PX && y > box.top - NEAR_PX && y < box.bottom + NEAR_PX;

/* A canvas marker whose shape tells its state as its colour does. */
const Mark = L.CircleMarker.extend({
  _updatePath() {
    const renderer = this._renderer;
    if (!renderer._drawing || this._empty()) return;
    const { x, y } = this._point, r = this._radius, c = renderer._ctx;
    c.beginPath();
    if (this.options.state === "alarm") {
      c.moveTo(x, y - r * 1.5); c.lineTo(x + r * 1.5, y); c.lineTo(x, y + r * 1.5); c.lineTo(x - r * 1.5, y); c.closePath();
    } else if (this.options.state === "fault") {
      c.moveTo(x, y - r * 1.3); c.lineTo(x + r * 1.25, y + r); c.lineTo(x - r * 1.25, y + r); c.closePath();
    } else {
      c.arc(x, y, r, 0, Math.PI * 2);
    }
    renderer._fillStroke(c, this);
  },
});

export default {
  template: "<div></div>",
  props: { resourcePath: String, register: String, language: String, words: Object, label: String },
  async mounted() {
    await this.$nextTick();
    await loadResource(window.path_prefix + `${this.resourcePath}/leaflet/leaflet.css`);
    this.$el.setAttribute("role", "application");
    this.$el.setAttribute("aria-label", this.label);
    this.map = L.map(this.$el, { preferCanvas: true, attributionControl: false, fadeAnimation: false, zoomSnap: 0.25, center: [0, 0], zoom: 2 });
    L.control.scale({ imperial: false }).addTo(this.map);
    this.marks = new Map(); this.states = new Map(this.waiting || []); this.roads = []; this.districts = []; this.areas = []; this.shown = []; this.track_ = null; this.drawing = null;
    this.chosen = null; // the hidden name that was tapped
    this.map.on("zoomend", this.names);
    this.map.on("zoomend moveend resize tooltipopen tooltipclose", this.arrange);
    this.map.on("click", (event) => this.drawing ? this.corner(event.latlng) : this.tap({ x: event.originalEvent.clientX, y: event.originalEvent.clientY }));
    // The map says that a zoom has ended by its own clock; names may still be on their way to their places by the browser's.
    for (const kind of ["transitionend", "transitioncancel"]) this.map.getPane("tooltipPane").addEventListener(kind, this.arrange);
    this.themes = new MutationObserver(this.repaint);
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    await this.load();
    this.ready = true;
    (this.later || []).forEach((step) => step());
    this.sizes = new ResizeObserver(() => this.map.invalidateSize());
    this.sizes.observe(this.$el);
  },
  unmounted() { this.themes?.disconnect(); this.sizes?.disconnect(); cancelAnimationFrame(this.arranging); this.map?.remove(); },
  methods: {
    async load() {
      const reply = await fetch(this.register);
      if (!reply.ok) return;
      const register = await reply.json();
      const name = (thing) => (this.language === "en" ? thing.name_en : thing.name) || thing.name;
      for (const district of register.districts) for (const part of district.area || []) {
        this.areas.push(L.polygon(part, { weight: 1, fill: false, dashArray: "4 4", interactive: false }).addTo(this.map));
      }
      for (const road of register.roads) {
        if ((road.line || []).length < 2) continue;
        const line = L.polyline(road.line, { weight: 3, interactive: false }).addTo(this.map);
        const at = Math.max(1, Math.floor(road.line.length / 2)); // between two crossings, where no mark stands
        const [a, b] = [road.line[at - 1], road.line[at] || road.line[at - 1]];
        const middle = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
        const tip = L.tooltip({ permanent: true, direction: "center", className: "road", interactive: false }).setLatLng(middle).setContent(escape(name(road)));
        this.roads.push({ line, tip });
      }
      for (const point of register.checkpoints) {
        const mark = new Mark([point.latitude, point.longitude], { radius: 6, weight: 2, state: "unknown" });
        mark.label = name(point); mark.id = point.checkpoint_id;
        mark.bindTooltip(() => [mark.label, this.words[mark.options.state] || "", ...this.stopsAt(mark.id)].map(escape).join(" · "));
        mark.on("click", (event) => {
          if (this.drawing) { L.DomEvent.stopPropagation(event); this.corner(mark.getLatLng()); return; }
          this.picked = mark.id; this.$emit("pick", mark.id);
        });
        mark.addTo(this.map); this.marks.set(mark.id, mark);
      }
      for (const district of register.districts) {
        const spots = register.checkpoints.filter((point) => point.district_id === district.district_id);
        if (!spots.length) continue;
        const mean = (key) => spots.reduce((sum, point) => sum + point[key], 0) / spots.length;
        this.districts.push(L.tooltip({ permanent: true, direction: "center", className: "district", interactive: false })
          .setLatLng([mean("latitude"), mean("longitude")]).setContent(escape(name(district))).addTo(this.map));
      }
      this.repaint(); this.fit(); this.arrange();
    },
    fit() {
      const spots = [...this.marks.values()].map((mark) => mark.getLatLng());
      if (spots.length) this.map.fitBounds(L.latLngBounds(spots).pad(0.08), { animate: false });
      this.names();
    },
    names() {
      const width = this.map.getSize().x;
      for (const { line, tip } of this.roads) {
        const [a, b] = [line.getBounds().getNorthWest(), line.getBounds().getSouthEast()].map((p) => this.map.latLngToContainerPoint(p));
        const long = Math.hypot(a.x - b.x, a.y - b.y) > Math.max(150, width / 8);
        if (long) tip.addTo(this.map); else tip.remove();
      }
    },
    /* Once for whatever has happened before the browser draws again. */
    arrange() {
      cancelAnimationFrame(this.arranging);
      this.arranging = requestAnimationFrame(() => this.separate());
    },
    /* All names, the most telling first: what was tapped, the newest stops, districts, roads. */
    tips() {
      const opened = [...this.marks.values()].filter((mark) => mark.isTooltipOpen()).map((mark) => mark.getTooltip());
      const stops = this.track_ ? [...this.track_.labels].reverse() : [];
      const all = [...(this.chosen ? [this.chosen] : []), ...opened, ...stops, ...this.districts, ...this.roads.map(({ tip }) => tip)];
      return [...new Set(all)].filter((tip) => tip.getElement()?.isConnected);
    },
    /* A name that would lie over a more telling one is not shown. Hidden ones keep their box, so all is measured before
       anything is written. */
    separate() {
      const elements = this.tips().map((tip) => tip.getElement());
      const boxes = elements.map((element) => element.getBoundingClientRect());
      const shown = [];
      elements.forEach((element, i) => {
        const free = boxes[i].width > 0 && !shown.some((box) => collide(box, boxes[i]));
        if (free) shown.push(boxes[i]);
        element.classList.toggle("covered", !free);
      });
    },
    /* The hidden name whose place was tapped comes to the front; a tap anywhere else gives its place back. */
    tap(point) {
      const distance = ({ box }) => Math.hypot(point.x - (box.left + box.right) / 2, point.y - (box.top + box.bottom) / 2);
      const under = this.tips().map((tip) => ({ tip, box: tip.getElement().getBoundingClientRect() }))
        .filter(({ tip, box }) => tip.getElement().classList.contains("covered") && holds(box, point))
        .sort((a, b) => distance(a) - distance(b));
      this.chosen = under[0]?.tip || null;
      this.arrange();
    },
    retell(mark) { if (mark.isTooltipOpen()) { mark.getTooltip().update(); this.arrange(); } },
    stopsAt(id) { return this.track_ ? this.track_.stops.filter((stop) => stop.id === id).map(({ said }) => said) : []; },
    paint(mark) {
      const main = colour(TOKENS[mark.options.state] || "--soft");
      const hollow = mark.options.state === "quiet" || mark.options.state === "unknown";
      mark.setStyle({ color: main, fillColor: hollow ? colour("--ground") : main, fillOpacity: 1, weight: mark.options.state === "unknown" ? 1 : 2 });
    },
    repaint() {
      this.areas.forEach((area) => area.setStyle({ color: colour("--soft") }));
      this.shown.forEach((shape) => shape.setStyle({ color: colour("--accent") || colour("--good") }));
      this.roads.forEach(({ line }) => line.setStyle({ color: colour("--line"), opacity: 1 }));
      this.marks.forEach((mark) => this.paint(mark));
      if (this.track_) this.track_.line.setStyle({ color: colour("--critical") });
    },
    whenReady(step) { if (this.ready) step(); else (this.later = this.later || []).push(step); },
    setStates(states) {
      this.whenReady(() => {
        for (const [id, state] of states) {
          const mark = this.marks.get(id);
          if (!mark || mark.options.state === state) continue;
          mark.options.state = state; this.paint(mark); this.retell(mark);
          if (state === "alarm" || state === "fault") mark.bringToFront();
        }
      });
    },
    pulse(id, severity) {
      this.whenReady(() => {
        const mark = this.marks.get(id);
        if (!mark) return;
        const icon = L.divIcon({ className: "", iconSize: [90, 90], html: `<div class="pulse ${severity.replace(/[^a-z]/g, "")}" style="width:90px;height:90px"></div>` });
        const ring = L.marker(mark.getLatLng(), { icon, interactive: false, keyboard: false }).addTo(this.map);
        setTimeout(() => ring.remove(), 5000);
      });
    },
    /* The whole trajectory, or one more place of it: ids of checkpoints with the time of each. */
    track(stops) {
      this.whenReady(() => {
        this.clear();
        const line = L.polyline([], { color: colour("--critical"), weight: 4, dashArray: "1 8", lineCap: "round" }).addTo(this.map);
        this.track_ = { line, labels: [], stops: [], count: 0, last: null, most: Math.max(MOST_STOPS, stops.length) };
        stops.forEach((stop) => this.grow_(stop));
      });
    },
    grow(stop) { this.whenReady(() => this.track_ ? this.grow_(stop) : this.track([stop])); },
    grow_({ id, time, number }) {
      const mark = this.marks.get(id);
      if (!mark || this.track_.last === id) return;
      this.track_.last = id;
      const spots = this.track_.line.getLatLngs();
      this.track_.line.setLatLngs([...spots, mark.getLatLng()].slice(-this.track_.most));
      this.track_.count += 1;
      const tip = L.tooltip({ permanent: true, direction: "top", offset: [0, -8] }).setLatLng(mark.getLatLng()).setContent(`${number || this.track_.count}.<span class="at"> ${escape(time)}</span>`);
      this.track_.labels.push(tip.addTo(this.map));
      this.track_.stops.push({ id, said: `${number || this.track_.count}. ${time}` });
      this.retell(mark);
      if (this.track_.labels.length > this.track_.most) { this.track_.labels.shift().remove(); this.track_.stops.shift(); }
      this.arrange();
    },
    /* What a rule names: polygons as [latitude, longitude], and rings around checkpoints. */
    showPlaces(areas, ids) {
      this.whenReady(() => {
        this.shown.forEach((shape) => shape.remove());
        const polygons = areas.map((corners) => L.polygon(corners, { weight: 3, fillOpacity: 0.12, interactive: false }));
        const rings = ids.map((id) => this.marks.get(id)).filter(Boolean)
          .map((mark) => L.circleMarker(mark.getLatLng(), { radius: 11, weight: 2, fill: false, interactive: false }));
        this.shown = [...polygons, ...rings].map((shape) => shape.addTo(this.map));
        this.repaint();
      });
    },
    /* A polygon corner by corner; each change is told with all of them, as [longitude, latitude]. */
    draw(on) {
      this.whenReady(() => {
        this.drawing?.line.remove();
        this.drawing = on ? { corners: [], line: L.polygon([], { color: colour("--critical"), weight: 3, fillOpacity: 0.1, interactive: false }).addTo(this.map) } : null;
        this.map.doubleClickZoom[on ? "disable" : "enable"]();
        this.$el.classList.toggle("drawing", Boolean(on));
        this.drawn();
      });
    },
    corner(at) { this.drawing.corners.push(at); this.drawn(); },
    undo() { if (this.drawing) { this.drawing.corners.pop(); this.drawn(); } },
    drawn() {
      const corners = this.drawing?.corners || [];
      this.drawing?.line.setLatLngs(corners);
      this.$emit("drawn", corners.map(({ lng, lat }) => [Number(lng.toFixed(6)), Number(lat.toFixed(6))]));
    },
    clear() {
      if (!this.track_) return;
      this.track_.line.remove(); this.track_.labels.forEach((tip) => tip.remove()); this.track_ = null; this.chosen = null;
      this.arrange();
    },
    select(id) {
      this.whenReady(() => {
        const mark = this.marks.get(id);
        if (!mark) return;
        if (this.picked !== id) this.map.setView(mark.getLatLng(), Math.max(this.map.getZoom(), 15)); // who clicked it sees it
        this.picked = null; mark.openTooltip();
      });
    },
  },
};
