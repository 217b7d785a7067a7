"use strict";
// The table of questions and their pages. Texts of the run are set as text, never as
// markup, and nothing is fetched.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const items = data.items;
  const strips = data.strips;
  const ROW_PX = 30;
  const SPARE_ROWS = 12;
  const at = (id) => document.getElementById(id);
  const letter = (k) => (k === null || k < 0 ? "–" : String.fromCharCode(65 + k));
  const percent = (x) => (x === null ? "–" : (100 * x).toFixed(0));

  function make(name, properties = {}, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (key in made) made[key] = value;
      else made.setAttribute(key, value);
    }
    made.append(...inside);
    return made;
  }

  // What is not defined is no value: it is sorted last, and no filter takes it.
  const known = (k) => (k === null || k < 0 ? null : k);
  const yesNo = (x) => (x === null ? "–" : x ? "yes" : "no");
  const columns = [
    { name: "question", width: "30%", value: (r) => r.id, text: (r) => r.question ? `${r.id}  ${r.question}` : r.id },
    { name: "type", width: "11%", value: (r) => r.type || null, text: (r) => r.type },
    { name: "gold", width: "5%", value: (r) => known(r.gold), text: (r) => letter(r.gold) },
    { name: "answer", width: "7%", value: (r) => known(r.answer), text: (r) => letter(r.answer) },
    { name: "right", width: "6%", value: (r) => r.right, text: (r) => yesNo(r.right), mark: (r) => (r.right === null ? "" : r.right ? "yes" : "no") },
    { name: "orders right, %", width: "9%", value: (r) => r.accuracy, text: (r) => percent(r.accuracy) },
    { name: "phase flips", width: "8%", value: (r) => r.phase_flip, text: (r) => yesNo(r.phase_flip), mark: (r) => (r.phase_flip ? "no" : "") },
    { name: "order flips, %", width: "9%", value: (r) => r.order_flip, text: (r) => percent(r.order_flip) },
    { name: "half step", width: "7%", value: (r) => r.half_step, text: (r) => (r.half_step === null ? "–" : r.half_step ? "changed" : "same"), mark: (r) => (r.half_step ? "no" : "") },
    { name: "margin", width: "8%", value: (r) => r.margin, text: (r) => (r.margin === null ? "–" : r.margin.toFixed(2)) },
  ];

  // ---- filter and sort ------------------------------------------------------
  const searched = items.map((r) =>
    [r.id, r.benchmark, r.type, r.video, r.question, ...r.options].join("\n").toLowerCase());
  const hasHalf = items.some((r) => r.half_step !== null);
  const stable = (r) => r.phase_flip === 0 && r.order_flip === 0 && (!hasHalf || r.half_step === 0);
  const tests = {
    phase: (r) => r.phase_flip > 0,
    order: (r) => r.order_flip > 0,
    half: (r) => r.half_step > 0,
    wrong: (r) => r.right === 0,
    gap: (r) => r.right === 0 && stable(r),
    right: (r) => r.right === 1,
    missing: (r) => r.missing > 0,
    frames: (r, i) => String(i) in strips,
    shares: (r, i) => (strips[String(i)] || []).some((s) => s.shares.length),
  };
  let shown = items.map((_, i) => i);
  let chosen = 0;
  let sortBy = -1;
  let ascending = true;
  let opened = -1;

  function compare(i, j) {
    const value = columns[sortBy].value;
    const a = value(items[i]);
    const b = value(items[j]);
    if (a === null || b === null) return (a === null) - (b === null) || i - j;
    const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return (ascending ? order : -order) || i - j;
  }

  function refresh() {
    const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = at("kind").value;
    const test = tests[at("which").value] || (() => true);
    shown = [];
    items.forEach((r, i) => {
      if ((!kind || r.type === kind) && test(r, i) && words.every((w) => searched[i].includes(w))) shown.push(i);
    });
    if (sortBy >= 0) shown.sort(compare);
    chosen = 0;
    at("count").textContent = `${shown.length} of ${items.length}`;
    at("scroller").scrollTop = 0;
    at("items").setAttribute("aria-rowcount", String(shown.length + 1));
    draw();
  }

  // ---- the table: only rows in sight exist ----------------------------------
  const scroller = at("scroller");
  let drawn = "";

  function space(rows) {
    const cell = make("td", { colSpan: columns.length });
    cell.style.height = `${rows * ROW_PX}px`;
    return make("tr", { className: "space", "aria-hidden": "true" }, cell);
  }

  function row(place) {
    const i = shown[place];
    const cells = columns.map((c) => {
      const text = c.text ? c.text(items[i]) : c.value(items[i]);
      return make("td", { role: "gridcell", title: c === columns[0] ? text : "", className: c.mark ? c.mark(items[i]) : "" }, text);
    });
    const made = make("tr", { className: place === chosen ? "item chosen" : "item", "aria-rowindex": String(place + 2), "aria-selected": String(place === chosen), id: `row-${i}` }, ...cells);
    made.addEventListener("click", () => { chosen = place; open(i); });
    return made;
  }

  function draw(all = false) {
    const first = all ? 0 : Math.max(0, Math.floor(scroller.scrollTop / ROW_PX) - SPARE_ROWS);
    // the box is no higher than its rows, and never higher than the window
    const n = Math.ceil(window.innerHeight / ROW_PX) + 2 * SPARE_ROWS;
    const last = all ? shown.length : Math.min(shown.length, first + n);
    const rows = [];
    if (first > 0) rows.push(space(first));
    for (let place = first; place < last; place++) rows.push(row(place));
    if (last < shown.length) rows.push(space(shown.length - last));
    if (!shown.length) rows.push(make("tr", {}, make("td", { colSpan: columns.length }, "No question is like that.")));
    at("rows").replaceChildren(...rows);
    drawn = `${first} ${last}`;
    if (shown.length) scroller.setAttribute("aria-activedescendant", `row-${shown[chosen]}`);
  }

  scroller.addEventListener("scroll", () => {
    const first = Math.max(0, Math.floor(scroller.scrollTop / ROW_PX) - SPARE_ROWS);
    if (Math.abs(first - Number(drawn.split(" ")[0])) >= SPARE_ROWS / 2) draw();
  }, { passive: true });
  window.addEventListener("resize", () => draw());
  window.addEventListener("beforeprint", () => draw(true));
  window.addEventListener("afterprint", () => draw());

  function move(by) {
    if (!shown.length) return;
    chosen = Math.min(shown.length - 1, Math.max(0, chosen + by));
    const top = chosen * ROW_PX;
    const sight = scroller.clientHeight - at("columns").offsetHeight - ROW_PX;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > scroller.scrollTop + sight) scroller.scrollTop = top - sight;
    draw();
  }

  columns.forEach((c, n) => {
    const button = make("button", { type: "button", title: data.about[c.name] || "" }, c.name);
    const head = make("th", { scope: "col", "aria-sort": "none" }, button);
    head.style.width = c.width;
    button.addEventListener("click", () => {
      ascending = sortBy === n ? !ascending : true;
      sortBy = n;
      [...at("columns").children].forEach((one, m) => {
        const way = m !== n ? "none" : ascending ? "ascending" : "descending";
        one.setAttribute("aria-sort", way);
        one.firstChild.textContent = columns[m].name + { none: "", ascending: " ▲", descending: " ▼" }[way];
      });
      refresh();
    });
    at("columns").append(head);
  });
  for (const kind of [...new Set(items.map((r) => r.type))].filter(Boolean).sort()) {
    at("kind").append(make("option", { value: kind }, kind));
  }
  at("to-words").addEventListener("click", () => { at("words").open = true; });
  at("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["search", "kind", "which"]) at(id).addEventListener("input", refresh);

  // ---- the page of a question -----------------------------------------------
  const shares = (values) => values.map((p, k) => `${letter(k)} ${(p / 10).toFixed(1)} %`).join(", ");

  function bar(values) {
    const made = make("div", { className: "bar", role: "img", "aria-label": shares(values) });
    values.forEach((p, k) => {
      const part = make("span", { className: `c${k % 8}` });
      part.style.width = `${p / 10}%`;
      made.append(part);
    });
    return made;
  }

  function cell(answer, values, main) {
    const known = Boolean(values) && values.every((p) => p >= 0);
    const title = known ? shares(values) : "no posterior";
    const shownText = known && answer >= 0 ? `${letter(answer)} ${(values[answer] / 10).toFixed(1)}` : letter(answer);
    const made = make("td", { title, className: answer >= 0 && answer !== main ? "other" : "" }, shownText);
    if (known) made.append(bar(values));
    return made;
  }

  function posteriors(r) {
    const n = r.orders.length;
    const head = make("tr", {}, make("th", { scope: "col" }, "arm"));
    for (let m = 0; m < n; m++) {
      head.append(make("th", { scope: "col", title: "options as shown" }, r.orders[m].map(letter).join("")));
    }
    const body = make("tbody");
    for (const [arm, answers] of Object.entries(r.answers)) {
      const values = r.posteriors && r.posteriors[arm];
      const line = make("tr", { className: arm === "fusion" ? "pooled" : "" }, make("th", { scope: "row" }, arm));
      answers.forEach((answer, m) => line.append(cell(answer, values && values[m], r.answer)));
      body.append(line);
    }
    const caption = make("caption", { className: "note" }, "Answers, with the posterior of each in percent; columns are option orders, in the letters of the list above. Outlined: not the consensus.");
    return make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Answers and posteriors by arm and order" }, make("table", { className: "posteriors" }, caption, make("thead", {}, head), body));
  }

  // What frames add to an answer: a bar above the line speaks for it, one below against.
  const signed = (v) => {
    if (v === null) return "–";
    const digits = Math.abs(v).toFixed(2);
    return digits === "0.00" ? digits : `${v < 0 ? "−" : "+"}${digits}`;
  };

  function shareTitle(share) {
    const order = `options shown as ${share.order.map(letter).join("")}`;
    const base = share.base === null ? "" : `${signed(share.base)} with all frames`;
    const pairs = share.shared > 1 ? `each ${share.shared} frames share tokens` : "";
    const flip = share.first ? `adds over that of phase ${share.other}` : `of phase ${share.other} adds over it`;
    const what = share.kind === "flip"
      ? `Flip, ${letter(share.option)} against ${letter(share.against)}: what a frame ${flip}`
      : `For ${letter(share.option)}: what a frame adds to its log-posterior`;
    return [`${what}, nats`, base, share.how, order, pairs, share.note].filter(Boolean).join(" · ");
  }

  function shareRow(share, s, most, width) {
    const toward = share.kind === "flip" ? `${letter(share.option)} against ${letter(share.against)}` : letter(share.option);
    const row = make("div", { className: "shares", role: "group", "aria-label": shareTitle(share) });
    row.style.gridTemplateColumns = `repeat(${share.values.length}, 1fr)`;
    row.style.width = width;
    share.values.forEach((value, i) => {
      const tall = value === null || !most ? 0 : 50 * Math.abs(value) / most;
      const bar = make("span", { className: `share ${value < 0 ? "against" : "for"}` });
      bar.style.height = `${tall}%`;
      const said = value === null ? "no value" : `${signed(value)} nats for ${toward}`;
      const well = make("span", { className: "well", role: "img", "aria-label": `frame ${s.frames[i]}: ${said}`, title: `frame ${s.frames[i]}: ${said}` }, bar);
      row.append(make("span", {}, well, make("span", { className: "value" }, signed(value))));
    });
    return row;
  }

  function strip(s, scale) {
    const made = make("div", { className: "strip", tabIndex: 0, role: "region", "aria-label": `Frames of phase ${s.phase}` });
    const left = s.n > s.frames.length ? `, ${s.frames.length} of ${s.n} shown` : "";
    const width = `${s.w || 112 * s.frames.length}px`;
    made.append(make("h4", {}, `Phase ${s.phase}${left}`));
    if (s.source) {
      const image = make("img", { loading: "lazy", decoding: "async", width: s.w, height: s.h, alt: `Frames ${s.frames.join(", ")}` });
      image.addEventListener("error", () => image.replaceWith(make("p", { className: "no" }, `The picture ${s.source.slice(0, 80)} is not there; it belongs beside this file.`)));
      image.src = s.source;
      made.append(image);
    }
    if (s.source || s.shares.length) {
      const labels = make("div", { className: "frames" });
      labels.style.gridTemplateColumns = `repeat(${s.frames.length}, 1fr)`;
      labels.style.width = width;
      s.frames.forEach((index, i) => labels.append(make("span", {}, s.times.length ? `${index} · ${s.times[i].toFixed(2)} s` : String(index))));
      made.append(labels);
    }
    for (const share of s.shares) {
      made.append(make("p", { className: "note share-title" }, shareTitle(share)), shareRow(share, s, scale(share), width));
    }
    if (s.note) made.append(make("p", { className: "note" }, s.note));
    return made;
  }

  // Bars of one kind and method have one scale over all phases of a question.
  function scaleOf(frames) {
    const most = {};
    const name = (share) => `${share.kind} ${share.how}`;
    for (const share of frames.flatMap((s) => s.shares)) {
      for (const value of share.values) most[name(share)] = Math.max(most[name(share)] || 0, Math.abs(value || 0));
    }
    return (share) => most[name(share)];
  }

  function facts(r) {
    const parts = [
      `consensus of ${data.main}: ${letter(r.answer)}`,
      `gold: ${letter(r.gold)}`,
      `phases ${r.phase_flip === null ? "–" : r.phase_flip ? "disagree" : "agree"}`,
      `another order changes the answer at ${percent(r.order_flip)} % of the phases`,
    ];
    if (r.half_step !== null) parts.push(r.half_step ? "half a step changes the consensus" : "half a step does not change the consensus");
    if (r.missing) parts.push(`${r.missing} ${r.missing === 1 ? "pass" : "passes"} missing`);
    if (r.video) parts.push(`video ${r.video}${r.duration === null ? "" : `, ${r.duration.toFixed(1)} s`}`);
    return parts.join(" · ");
  }

  // The pooled bar is no arm: what counts is the consensus, and the two may differ.
  function fusedNote(r) {
    if (r.answer < 0) return "No answer counts here: passes are missing.";
    const votes = r.answers[data.main];
    const n = votes.filter((k) => k === r.answer).length;
    const counted = `The answer that counts is the consensus of ${data.main}, ${letter(r.answer)}: ${n} of ${votes.length} option orders have it`;
    if (r.pooled_answer === r.answer) return `${counted}, and the mean over the orders agrees.`;
    return `${counted}. The mean over phases and orders, shown here, would answer ${letter(r.pooled_answer)} instead; no rate of this report is of that answer.`;
  }

  function open(i) {
    opened = i;
    const r = items[i];
    const page = at("item");
    const close = make("button", { type: "button", id: "close" }, "Close (Esc)");
    const before = make("button", { type: "button", id: "before" }, "Previous (k)");
    const after = make("button", { type: "button", id: "after" }, "Next (j)");
    close.addEventListener("click", shut);
    before.addEventListener("click", () => step(-1));
    after.addEventListener("click", () => step(1));
    const title = make("h2", { id: "item-title", tabIndex: -1 }, r.question || r.id);
    const list = make("ol");
    for (let k = 0; k < r.k; k++) {
      const swatch = make("span", { className: `swatch c${k % 8}`, "aria-hidden": "true" });
      const text = make("li", {}, swatch, r.options[k] || "");
      if (k === r.gold) text.append(make("strong", { className: "yes" }, "  (right)"));
      if (k === r.answer) text.append(make("strong", {}, `  (consensus of ${data.main})`));
      list.append(text);
    }
    page.replaceChildren(
      make("nav", { "aria-label": "Question" }, close, before, after), title,
      make("p", { className: "note" }, `${r.benchmark}/${r.id}${r.type ? ` · ${r.type}` : ""} · ${facts(r)}`),
      list);
    if (r.fused && r.fused.every((p) => p >= 0)) {
      page.append(
        make("h3", {}, "Fused over phases and orders"),
        make("p", { id: "fused" }, shares(r.fused), bar(r.fused)),
        make("p", { id: "fused-note", className: r.pooled_answer === r.answer || r.answer < 0 ? "note" : "no" }, fusedNote(r)));
    }
    page.append(make("h3", {}, "By arm and order"), posteriors(r), make("h3", {}, "Frames"));
    const frames = strips[String(i)] || [];
    if (frames.length) page.append(...frames.map((s) => strip(s, scaleOf(frames))));
    else page.append(make("p", { className: "note" }, "No frames were decoded for this question; report with a greater --frames, and with --questions where the file has moved."));
    page.hidden = false;
    history.replaceState(null, "", `#item=${i}`);
    title.focus({ preventScroll: true });
    page.scrollIntoView({ block: "start" });
    draw();
  }

  function shut() {
    opened = -1;
    at("item").hidden = true;
    at("item").replaceChildren();
    history.replaceState(null, "", "#questions");
    scroller.focus();
  }

  function step(by) {
    move(by);
    if (shown.length) open(shown[chosen]);
  }

  // ---- keys ------------------------------------------------------------------
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && opened >= 0) { shut(); return; }
    if (event.key === "Escape" && typing) { scroller.focus(); return; }
    if (typing) return;
    const inTable = event.target === scroller;
    const page = Math.max(1, Math.floor(scroller.clientHeight / ROW_PX) - 2);
    const keys = {
      "/": () => at("search").focus(),
      j: () => (opened >= 0 ? step(1) : move(1)),
      k: () => (opened >= 0 ? step(-1) : move(-1)),
    };
    if (inTable) {
      Object.assign(keys, {
        ArrowDown: () => move(1), ArrowUp: () => move(-1),
        PageDown: () => move(page), PageUp: () => move(-page),
        Home: () => move(-items.length), End: () => move(items.length),
        Enter: () => shown.length && open(shown[chosen]),
      });
    }
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });

  refresh();
  function follow() {
    const asked = /^#item=(.*)$/.exec(location.hash);
    const i = asked && /^\d+$/.test(asked[1]) ? Number(asked[1]) : -1;
    const there = i >= 0 && i < items.length;
    const last = items.length ? `they are #item=0 to #item=${items.length - 1}` : "there are none";
    at("absent").textContent = asked && !there ? `There is no question #item=${asked[1]} on this page: ${last}.` : "";
    if (!there) return;
    chosen = Math.max(0, shown.indexOf(i));
    move(0);
    open(i);
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
