/* A file of plates goes from the browser to the API as it lies on the disk; what is said of it comes back. */
"use strict";

window.databusLists = (() => {
  const SHOWN = 50, CHARACTERS = 200;
  let refused = [];

  const chosen = (id) => document.getElementById(`c${id}`)?.files?.[0];

  /* How large a file is that was chosen; 0: none. */
  const size = (id) => chosen(id)?.size || 0;

  /* Of the answer only as much as a page shows: it goes through the page's own connection. */
  const send = async (id, address) => {
    const file = chosen(id);
    if (!file) return { status: 0, body: {} };
    try {
      const answer = await fetch(address, { method: "POST", body: file });
      const body = await answer.json();
      refused = body.refused_lines || [];
      body.refused_lines = refused.slice(0, SHOWN).map((one) => ({
        ...one, text: one.text.slice(0, CHARACTERS), id: one.line,
      }));
      return { status: answer.status, body };
    } catch (error) {
      return { status: 0, body: { error: String(error) } };
    }
  };

  const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;

  /* The refused lines of the last answer, as a file. */
  const save = (name, heads, reason) => {
    const rows = refused.map((one) => [one.line, one.text, one[reason]]);
    const text = [heads, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };

  return { size, send, save };
})();
