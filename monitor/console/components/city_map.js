/* The map of the checkpoints: roads and states drawn by ourselves, no tiles, nothing from outside.
   In: the register by its address, states, pulses, trajectories. Out: the event "pick" with a checkpoint id. */
import { leaflet as L } from "nicegui-leaflet";
import { loadResource } from "../../static/utils/resources.js";

const MOST_STOPS = 12; // as the server sends
const TOKENS = { active: "--good", quiet: "--quiet", alarm: "--critical", fault: "--warning", unknown: "--soft" };
const colour = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
const escape = (text) => Object.assign(document.createElement("span"), { textContent: text }).innerHTML;

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
    this.map = L.map(this.$el, { preferCanvas: true, attributionControl: false, zoomSnap: 0.25, center: [0, 0], zoom: 2 });
    L.control.scale({ imperial: false }).addTo(this.map);
    this.marks = new Map(); this.states = new Map(this.waiting || []); this.roads = []; this.track_ = null;
    this.map.on("zoomend", this.names);
    this.themes = new MutationObserver(this.repaint);
    this.themes.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    await this.load();
    this.ready = true;
    (this.later || []).forEach((step) => step());
    this.sizes = new ResizeObserver(() => this.map.invalidateSize());
    this.sizes.observe(this.$el);
  },
  unmounted() { this.themes?.disconnect(); this.sizes?.disconnect(); this.map?.remove(); },
  methods: {
    async load() {
      const reply = await fetch(this.register);
      if (!reply.ok) return;
      const register = await reply.json();
      const name = (thing) => (this.language === "en" ? thing.name_en : thing.name) || thing.name;
      for (const road of register.roads) {
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
        mark.bindTooltip(() => `${escape(mark.label)} · ${escape(this.words[mark.options.state] || "")}`);
        mark.on("click", () => { this.picked = mark.id; this.$emit("pick", mark.id); });
        mark.addTo(this.map); this.marks.set(mark.id, mark);
      }
      for (const district of register.districts) {
        const spots = register.checkpoints.filter((point) => point.district_id === district.district_id);
        if (!spots.length) continue;
        const mean = (key) => spots.reduce((sum, point) => sum + point[key], 0) / spots.length;
        L.tooltip({ permanent: true, direction: "center", className: "district", interactive: false })
          .setLatLng([mean("latitude"), mean("longitude")]).setContent(escape(name(district))).addTo(this.map);
      }
      this.repaint(); this.fit();
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
    paint(mark) {
      const main = colour(TOKENS[mark.options.state] || "--soft");
      const hollow = mark.options.state === "quiet" || mark.options.state === "unknown";
      mark.setStyle({ color: main, fillColor: hollow ? colour("--ground") : main, fillOpacity: 1, weight: mark.options.state === "unknown" ? 1 : 2 });
    },
    repaint() {
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
          mark.options.state = state; this.paint(mark);
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
        this.track_ = { line, labels: [], count: 0, last: null, most: Math.max(MOST_STOPS, stops.length) };
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
      if (this.track_.labels.length > this.track_.most) this.track_.labels.shift().remove();
    },
    clear() {
      if (!this.track_) return;
      this.track_.line.remove(); this.track_.labels.forEach((tip) => tip.remove()); this.track_ = null;
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
