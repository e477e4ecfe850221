/* Alarms in the browser: keys, sound and desktop notices, how long somebody was away. Kept per browser. */
window.databusAlarms = (() => {
  const kept = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem("databus." + name);
      localStorage.setItem("databus." + name, value);
    } catch (error) { /* a browser that keeps nothing */ }
    return null;
  };

  // -- from alarm to alarm -------------------------------------------------------------------------
  const typing = (target) => target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
  const openAlarm = () => new URLSearchParams(location.search).get("alarm") || "";
  /* The alarm before or behind the open one, in the order of the grid; the first where none is open. */
  const neighbour = (grid, step) => {
    const api = getElement(grid)?.api;
    if (!api) return "";
    let at = -1;
    const open = openAlarm(), count = api.getDisplayedRowCount();
    const idAt = (row) => api.getDisplayedRowAtIndex(row)?.data?.alarm_id || "";
    for (let row = 0; open && row < count && at < 0; row++) if (idAt(row) === open) at = row;
    const next = at < 0 ? 0 : at + step;
    if (next < 0 || next >= count) return "";
    api.ensureIndexVisible(next);
    return idAt(next);
  };
  const STEPS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
  const ACTS = { t: "take", c: "confirm", f: "false" };
  const listen = (grid) => {
    document.addEventListener("keydown", (event) => press(grid, event));
    document.body.dataset.alarmKeys = "on";
  };
  const press = (grid, event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.repeat && ACTS[event.key]) return;
    if (typing(event.target) || document.querySelector(".alarm-dialog")) return;
    if (event.key.startsWith("Arrow") && !openAlarm()) return;
    if (STEPS[event.key]) {
      const id = neighbour(grid, STEPS[event.key]);
      event.preventDefault();
      if (id) emitEvent("alarm_step", id);
    } else if (ACTS[event.key] && openAlarm()) {
      event.preventDefault();
      emitEvent("alarm_act", { op: ACTS[event.key], alarm: openAlarm() });
    }
  };

  // -- away ----------------------------------------------------------------------------------------
  const AWAY_MS = 120000, LOOK_MS = 15000;
  const look = () => {
    if (document.hidden) return;
    const now = Date.now(), seen = Number(kept("seen") || 0);
    if (seen && now - seen > AWAY_MS) kept("away", String(seen));
    kept("seen", String(now));
  };
  look();
  setInterval(look, LOOK_MS);
  document.addEventListener("visibilitychange", look);
  const awaySince = () => Number(kept("away") || 0);

  // -- sound and desktop notice --------------------------------------------------------------------
  const isOn = (name) => kept(name) === "1";
  let audio = null;
  const beep = () => {
    audio = audio || new AudioContext();
    const tone = audio.createOscillator(), gain = audio.createGain();
    tone.frequency.value = 880;
    gain.gain.value = 0.1;
    tone.connect(gain).connect(audio.destination);
    tone.start();
    tone.stop(audio.currentTime + 0.25);
  };
  /* One sound and one notice for what comes together, however much it is. */
  const tell = (rows) => {
    if (!rows.length) return;
    if (isOn("sound")) beep();
    if (isOn("notice") && window.Notification && Notification.permission === "granted") {
      const first = rows[0], more = rows.length > 1 ? ` (+${rows.length - 1})` : "";
      const shown = new Notification(first.rule + more, { body: `${first.plate} ${first.place}`, tag: "databus-alarm" });
      shown.onclick = () => { window.focus(); emitEvent("alarm_step", first.id); };
    }
  };
  const turn = async (name) => {
    if (name === "notice" && !isOn(name) && window.Notification && await Notification.requestPermission() !== "granted") return "denied";
    if (name === "notice" && !window.Notification) return "denied";
    kept(name, isOn(name) ? "0" : "1");
    if (name === "sound" && isOn(name)) beep();
    return isOn(name) ? "on" : "off";
  };
  const state = () => ({ sound: isOn("sound"), notice: isOn("notice") });

  return { listen, awaySince, tell, turn, state };
})();
