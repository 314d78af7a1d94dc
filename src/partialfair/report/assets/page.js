/* The state of the report, its controls, and everything that depends on them. Names from the data are inserted as text only. */

const LEAST_WIDTH = 2;
const FEW = 30;
const N_INTERVALS = (GRID * (GRID + 1)) / 2; // on whole percents, including those that are too narrow to be shown

const data = JSON.parse(byId("data").textContent);
const models = data.models.map((model) => new Model(model, data.settings.rankWithin));
const own = data.settings.ownThreshold ? models[0].thresholds.length - 1 : null;
const changes = data.changes && new Changes(data.changes);
const audited = {
  model: data.settings.model,
  other: models.length > 1 && data.settings.model !== 0 ? 0 : null,
  i: data.settings.interval[0],
  j: data.settings.interval[1],
  t: own ?? clip(Math.round((data.settings.interval[0] + data.settings.interval[1]) / 2), 1, 99) - 1,
  pair: null,
  scale: data.settings.scale,
};
const state = { ...audited };
const { reach, bands, higherIsBetter } = data.settings;
const SIDE = higherIsBetter ? "above" : "below";
const FROM_BEST = higherIsBetter ? "from the top" : "from the best (lowest scores)";

const shownModel = () => models[state.model];
const otherModel = () => (state.other === null || state.other === state.model ? null : models[state.other]);
const shownPair = () => (state.pair === null ? null : shownModel().pairs[state.pair]);
const nameOf = (k) => shortName(shownModel().groups[k].name);
const between = ([a, b]) => `${nameOf(a)} and ${nameOf(b)}`;
const number = (value) => (Number.isNaN(value) ? "undefined" : fixed(value, 3));
const gapText = (gap) =>
  gap === null ? "–" : gap.isOutside ? "n/a (threshold outside the interval)" : number(gap.value);
const OF_ALL_RANKS = ["inter_group_pairwise", "intra_group_pairwise"];
const AT_THRESHOLD = ["demographic_parity", "equal_opportunity", "equalized_odds"];
/** Whether the report has a confidence interval for what is shown of a metric. */
const isAudited = (metric) =>
  (state.pair === null || shownModel().nPairs === 1) &&
  (OF_ALL_RANKS.includes(metric) ||
    (data.settings.onGrid &&
      ["i", "j", ...(metric === "group_auc" ? [] : ["scale"])].every((key) => state[key] === audited[key]) &&
      (!AT_THRESHOLD.includes(metric) || (own !== null && state.t === own))));
/** Limits of a gap: the confidence interval of the report if there is one, else the simultaneous band. */
const limitsOf = (model, metric, gap) => {
  if (!bands || gap === null || Number.isNaN(gap.value)) return null;
  if (isAudited(metric) && model.limits[metric]) {
    const [low, high] = model.limits[metric];
    return { low, high, kind: "interval" };
  }
  return gap.low === undefined ? null : { low: gap.low, high: gap.high, kind: "band" };
};
const limitsText = (limits) => (limits === null ? "–" : `${number(limits.low)} – ${number(limits.high)}`);
/** A sentence; with several models it begins with the name of the model. */
const titled = (text) =>
  models.length > 1
    ? `${shortName(shownModel().name)}: ${text}`
    : text.charAt(0).toUpperCase() + text.slice(1);
const ranksText = (i, j) => `ranks ${general(i, 4)}–${general(j, 4)}%`;

/* ---- sentences ---- */

const parityKind = () => (state.scale === "interval" ? "parity" : "parityAbsolute");
const parityGap = () => shownModel().ofPairs(parityKind(), state.i, state.j, shownPair());

/** The ranks at which the gap of a pair is attained. */
const whereOf = (pair) => {
  const gap = pair[parityKind()](state.i, state.j);
  return state.scale === "interval" ? pair.whereParity(gap, state.i, state.j) : pair.whereParityAbsolute(gap);
};

/** Where the gap is attained: proportions above one score, if the report has the curve of the pair. */
const whereText = (gap) => {
  const pair = shownModel().pairOf(gap.pair),
    where = pair && whereOf(pair);
  if (!where) return "";
  const shares = where.map((rank) =>
    state.scale === "interval"
      ? (clip(rank, state.i / GRID, state.j / GRID) - state.i / GRID) / ((state.j - state.i) / GRID)
      : rank,
  );
  const of = state.scale === "interval" ? "the interval of " : "";
  return (
    `: ${SIDE} the same score lie ${percent(shares[0], 1)} of ${of}${nameOf(gap.pair[0])} and ` +
    `${percent(shares[1], 1)} of ${of}${nameOf(gap.pair[1])}`
  );
};

/** By how much and where the groups differ. */
const differ = (gap) => {
  if (gap.value < 1e-9) return `the scores of ${between(gap.pair)} do not differ in these data`;
  const value = number(gap.value),
    pair = between(gap.pair);
  const single = shownPair() || shownModel().nPairs === 1;
  const which = single
    ? `${pair} differ by ${value}`
    : `the largest gap of any two groups is ${value}, between ${pair}`;
  return which + whereText(gap);
};

/** What the gap shows about new data. */
const claim = (gap) => {
  const limits = limitsOf(shownModel(), "statistical_parity", gap);
  if (!bands) return "The model was trained on these rows: the gap shows nothing about new data.";
  const basis =
    limits.kind === "interval"
      ? `${reach} interval`
      : `${reach} band, corrected for searching all intervals`;
  return `${limits.low > 0 ? "Gap" : "No gap"} detected (${basis}: ${limitsText(limits)}).`;
};

const thinText = (thin) => {
  if (thin.length === 0) return "";
  const first = shortName(thin[0].name);
  const whom = thin.length === 1 ? `group ${first}` : `${thin.length} groups, among them ${first}`;
  return ` The interval holds fewer than ${FEW} members of ${whom}: gaps there are mostly noise.`;
};

const sentence = () => {
  const gap = parityGap(),
    { i, j } = state;
  const start =
    state.scale === "interval"
      ? `among ${ranksText(i, j)} ${FROM_BEST} of each group`
      : `at thresholds that lie at ${ranksText(i, j)} ${FROM_BEST} of either group`;
  const thin = shownModel().groups.filter((group) => group.effectiveInside(i, j) < FEW);
  return titled(`${start}, ${differ(gap)}. ${claim(gap)}${thinText(thin)}`);
};

/** The groups that metrics with labels leave out, because they have too few rows with a label. */
const tooFewTexts = () =>
  Object.entries(shownModel().tooFew).map(([metric, groups]) => {
    const some = groups.slice(0, 3).map(nameOf).join(", ");
    const more = groups.length > 3 ? ` and ${groups.length - 3} more` : "";
    return `Too small to evaluate by ${data.titles[metric]}, and left out of it: ${some}${more}.`;
  });

const metricsText = () => {
  const whose = shownPair() ? `between ${between(shownPair().groups)}` : "of the worst pair";
  const score = general(shownModel().thresholds[state.t]);
  const illustration = own === null ? " (for illustration: no threshold was audited)" : "";
  const parts = [
    `Gaps ${whose}, at ${ranksText(state.i, state.j)} ${FROM_BEST}; selected: score ${SIDE} ${score}${illustration}.`,
    "Group AUC and the pairwise gaps have one scale, and the pairwise gaps include all ranks.",
  ];
  if (bands)
    parts.push(
      `Limits: ${reach}. “interval”: confidence interval of this gap alone, as audited. “band”: simultaneous for all ` +
        "intervals, pairs and thresholds, for choices other than the audited ones, and therefore longer. “As audited” has further limits, with explanations.",
    );
  else parts.push("No limits: the model was trained on these rows.");
  if (shownModel().hasLabels)
    parts.push(
      data.settings.rankWithin === "group"
        ? "Ranks are counted within the group, also where labels are compared."
        : "Where labels are compared, ranks are counted within the group and label.",
    );
  else
    parts.push("Equal opportunity, equalized odds and the pairwise gaps need labels, which were not given.");
  return [...parts, ...tooFewTexts()].join(" ");
};

/* ---- tables ---- */

const cell = (row, text, classes = "") => row.appendChild(element("td", text, classes));

const NOT_FOLLOWED = "the interval, groups and threshold chosen above do not change it";
/** The audited gap of a metric that this script cannot compute. */
const auditedRow = (metric, span) => {
  const [title, gap, interval, , , pair] = shownModel().audited[metric];
  const row = document.createElement("tr");
  row.appendChild(element("th", title)).scope = "row";
  const value = cell(row, `${gap} (${interval}), as audited: ${NOT_FOLLOWED}`);
  Object.assign(value, { colSpan: span }).dataset.audited = metric;
  cell(row, pair).dataset.pair = metric;
  return row;
};

const headings = (titles) => {
  const row = document.createElement("tr");
  for (const [text, classes] of titles)
    Object.assign(row.appendChild(element("th", text, classes ?? "")), { scope: "col" });
  return row;
};

/** The cells of a gap of a model and of its limits. */
const gapCells = (row, model, metric, gap) => {
  const limits = limitsOf(model, metric, gap);
  const value = cell(row, gapText(gap), gap?.isOutside ? "number outside" : "number");
  if (gap?.isOutside) {
    value.colSpan = 2;
    return { value, limits };
  }
  const limit = cell(row, limitsText(limits), "number");
  if (limits) limit.append(" ", element("small", limits.kind));
  return { value, limit, limits };
};

const drawMetrics = () => {
  const table = byId("metrics"),
    [model, other] = [shownModel(), otherModel()];
  const gapsOf = (one) => one.gaps(state.i, state.j, state.t, one === model || !shownPair() ? shownPair() : one.pairOf(shownPair().groups));
  const [gaps, otherGaps] = [gapsOf(model), other && gapsOf(other)];
  const models = other ? [other, model] : [model];
  const columns = models.flatMap(({ name }) => [
    [other ? `gap, ${shortName(name)}` : "gap", "number"],
    [`${reach} limits`, "number"],
  ]);
  table.tHead.replaceChildren(headings([["metric"], ...columns, ["between"]]));
  const rows = Object.entries(gaps).map(([metric, scales]) => {
    const row = document.createElement("tr");
    row.appendChild(element("th", data.titles[metric])).scope = "row";
    const scale = scales.absolute ? state.scale : "interval";
    const gap = scales[scale];
    if (other) gapCells(row, other, metric, otherGaps[metric][scale]).value.dataset.other = metric;
    const { value, limit, limits } = gapCells(row, model, metric, gap);
    Object.assign(value.dataset, { metric, scale, value: gap ? String(gap.value) : "" });
    if (limits) Object.assign(limit.dataset, { metric, [limits.kind]: scale, low: limits.low, high: limits.high });
    cell(row, gap ? between(gap.pair) : "too small to evaluate").dataset.pair = metric;
    return row;
  });
  const others = Object.keys(model.audited).filter((metric) => !(metric in gaps));
  table.tBodies[0].replaceChildren(...rows, ...others.map((metric) => auditedRow(metric, columns.length)));
  byId("metrics-text").textContent = metricsText();
};

const drawGroups = () => {
  const { i, j, t } = state,
    { groups, hasLabels } = shownModel();
  byId("groups").querySelector(".labels").hidden = !hasLabels;
  byId("groups").tBodies[0].replaceChildren(
    ...groups.map((group) => {
      const row = document.createElement("tr");
      row.appendChild(element("th", group.name)).scope = "row";
      cell(row, group.n.toLocaleString("en"), "number");
      const few = group.effectiveInside(i, j) < FEW;
      const inside = cell(
        row,
        `${membersText(group.inside(i, j))}${few ? " (few)" : ""}`,
        few ? "number warn" : "number",
      );
      inside.dataset.inside = String(group.inside(i, j));
      if (hasLabels)
        cell(row, percent((group.positives[j] - group.positives[i]) / ((j - i) / GRID), 1), "number");
      cell(row, percent(group.selected(i, j, t).interval, 1), "number");
      return row;
    }),
  );
  sortRows(byId("groups"));
};

/** Changes from the compared model, by default the first one (for the first model, the second one). */
const drawModelChanges = () => {
  if (!changes) return;
  const { i, j, model, other } = state;
  const before = other !== null && other !== model ? other : model === 0 ? 1 : 0;
  const picked = shownPair()?.groups.map((k) => shownModel().groups[k].name);
  drawChanges(byId("changes"), changes.lines([before, model], i, j, picked));
  sortRows(byId("changes"));
  const [from, to] = [before, model].map((k) => shortName(models[k].name));
  const start = `From ${from} to ${to}, at ${ranksText(i, j)} ${FROM_BEST} of each group.`;
  byId("changes-text").textContent = `${start} ${changes.text([before, model])}`;
};

/* ---- sorting ---- */

const sortKey = (row, column) => {
  const text = row.cells[column].textContent;
  const number = parseFloat(text.replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
};

/** Sort the rows of a table by its chosen column, if any. */
const sortRows = (table) => {
  if (table.dataset.column === undefined) return;
  const column = Number(table.dataset.column),
    sign = table.dataset.order === "descending" ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => [sortKey(row, column), row]);
  rows.sort(([a], [b]) => sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(b)));
  table.tBodies[0].append(...rows.map(([, row]) => row));
};

/** Turn column titles into buttons: numbers are sorted in descending order first, texts in ascending order. */
const makeSortable = (table) => {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    const button = element("button", title.textContent);
    button.type = "button";
    title.replaceChildren(button);
    button.addEventListener("click", () => {
      const rows = [...table.tBodies[0].rows];
      const isText = rows.some((row) => typeof sortKey(row, column) === "string");
      const isSame = table.dataset.column === String(column);
      const order = isSame
        ? table.dataset.order === "ascending" ? "descending" : "ascending"
        : isText ? "ascending" : "descending";
      Object.assign(table.dataset, { column, order });
      for (const one of titles) one.removeAttribute("aria-sort");
      title.setAttribute("aria-sort", order);
      sortRows(table);
    });
  });
};

/* ---- verdict ---- */

const drawVerdict = () => {
  for (const section of document.querySelectorAll(".summary"))
    section.hidden = Number(section.dataset.model) !== state.model;
};

/* ---- figures ---- */

const maps = new Map();
const heatMap = new HeatMap(byId("map"), byId("heat"), bands, (i, j) => moveEnds(i, j));

const drawMap = () => {
  const key = `${state.model}/${state.scale}/${state.pair}`;
  if (maps.size > 8) maps.clear();
  if (!maps.has(key)) maps.set(key, shownModel().map(state.scale, shownPair(), LEAST_WIDTH));
  if (heatMap.cells !== maps.get(key)) heatMap.show(maps.get(key));
  Object.assign(byId("ring").style, { left: `${state.i + 0.5}%`, bottom: `${state.j - 0.5}%` });
  byId("map-top").textContent =
    `${heatMap.top.toFixed(2)}${heatMap.exceeded && heatMap.top < 0.995 ? " or more" : ""}`;
  byId("map-text").textContent =
    `Gap of ${shownPair() ? between(shownPair().groups) : "the worst pair"} by where the interval ` +
    `begins (across) and ends (up), for those at least ${LEAST_WIDTH}% long. Ring: the interval shown.` +
    (bands
      ? ` Faded: the true gap could be 0 (${reach} band, simultaneous for all ${N_INTERVALS.toLocaleString("en")} intervals).`
      : "");
};

const densitiesText = (shown) => {
  const { bars, groups } = shownModel(),
    ranks = ranksText(state.i, state.j);
  if (!bars)
    return (
      `Bars below: the scores of each group's ${ranks}. Dashed line: the threshold. The first and the last ` +
      "step include all scores beyond them."
    );
  const others = groups.length > shown.length && groups.length <= MOST_FAINT ? " Dashes: the other groups." : "";
  const even = bars.even ? " Values are evenly spaced." : "";
  return (
    `Bars: ${shown.map(nameOf).join(" and ")}, side by side at the values that scores take; solid: the part ` +
    `at the group's ${ranks}. Dashed line: the threshold.${others}${even}`
  );
};

/** The pair that is drawn: the chosen one, or the worst, or the first one of the report. */
const drawnPair = () => shownPair() ?? shownModel().pairOf(parityGap().pair) ?? shownModel().pairs[0];

const drawCurves = () => {
  const pair = drawnPair(),
    other = otherModel();
  const compared = other && other.pairOf(pair.groups);
  drawCurve(byId("curve"), {
    pair,
    bands,
    names: pair.groups.map(nameOf),
    start: higherIsBetter ? "from the top" : "from the best (lowest)",
    i: state.i,
    j: state.j,
    where: whereOf(pair),
    other: compared,
  });
  byId("curve-text").textContent =
    `${between(pair.groups)} as the score ${higherIsBetter ? "falls" : "rises"}; equal scores follow the diagonal. Red square: the ` +
    `interval; cross: its largest gap.${bands ? ` Gray: the band in which chance alone would keep the whole curve (${reach}).` : ""}` +
    `${compared ? ` Dashed: ${shortName(other.name)}.` : ""}`;
  drawLegend(byId("legend"), legendOf(pair.groups), pair.groups);
  drawScores(pair.groups, other);
  drawCalibrations(pair.groups);
};

/** Groups that have a line in figures: all if there are few, else those compared. */
const legendOf = (shown) => {
  const { groups } = shownModel();
  return (groups.length <= MOST_FAINT ? groups.map((_, k) => k) : shown).map((k) => [k, nameOf(k)]);
};

/** Densities, with the compared model first. */
const drawScores = (shown, other) => {
  const { i, j, t } = state;
  const drawn = other ? [other, shownModel()] : [shownModel()];
  const place = byId("densities");
  if (place.children.length !== drawn.length)
    place.replaceChildren(
      ...drawn.map(() => {
        const panel = document.createElement("div");
        panel.append(document.createElement("h4"), document.createElement("div"));
        return panel;
      }),
    );
  const top = Math.max(...drawn.flatMap(({ groups }) => groups.flatMap(({ density }) => [...density])));
  drawn.forEach((model, k) => {
    const [title, figure] = place.children[k].children;
    title.hidden = drawn.length === 1;
    title.textContent = shortName(model.name);
    drawDensities(figure, { model, shown, i, j, t, top, higherIsBetter });
  });
  byId("densities-text").textContent = densitiesText(shown);
};

let calibrated = ""; // the key of the calibration curves, which do not depend on the interval
const drawCalibrations = (shown) => {
  const key = `${state.model}/${shown}`;
  byId("calibration-figure").hidden = !shownModel().hasLabels;
  if (!shownModel().hasLabels || calibrated === key) return;
  calibrated = key;
  drawCalibration(byId("calibration"), { model: shownModel(), shown });
  byId("calibration-text").textContent =
    "Rate of positives in every tenth of a group, at its mean score. Where the lines coincide, a score means the same in both groups.";
};

/** Gaps of other intervals. */
const drawOthers = () => {
  const { i, j, scale } = state,
    other = otherModel();
  const lineOf = (model, classes) => {
    const pair = shownPair() && model.pairOf(shownPair().groups);
    return {
      gaps: model.along(scale, pair, j - i),
      elsewhere: model.elsewhere(scale, pair, i, j, data.settings.minMembers),
      classes,
    };
  };
  const lines = [...(other ? [lineOf(other, "other")] : []), lineOf(shownModel(), "")];
  drawAlong(byId("along"), { i, j, lines });
  const textOf = ({ elsewhere }) =>
    elsewhere ? `${number(elsewhere.value)} at ${ranksText(elsewhere.i, elsewhere.j)}` : "none, as there is no other interval";
  byId("along-text").textContent =
    `The largest gap elsewhere is ${textOf(lines.at(-1))}` +
    `${other ? ` (dashed, ${shortName(other.name)}: ${textOf(lines[0])})` : ""}. Ring: the interval shown; gray: ` +
    "intervals that overlap it; diamond: the largest gap elsewhere, on intervals of the same width or on the remaining piece.";
};

const drawPath = () => {
  const place = byId("frontier");
  if (data.frontier === null) return;
  drawFrontier(place, {
    frontier: data.frontier,
    shown: state.model,
    choose: (model) => {
      set({ model });
      place.querySelector(".dot.shown")?.focus();
    },
    describe: (text) => {
      byId("frontier-text").textContent = text;
    },
  });
};

/* ---- controls ---- */

const setSlider = (id, value, low, high, text) => {
  const slider = byId(id);
  slider.setAttribute("aria-valuenow", value);
  slider.setAttribute("aria-valuemin", low);
  slider.setAttribute("aria-valuemax", high);
  slider.setAttribute("aria-valuetext", text);
};

const drawControls = () => {
  const { i, j, t } = state,
    width = j - i,
    shown = ranksText(i, j);
  Object.assign(byId("move").style, { left: `${i}%`, width: `${width}%` });
  byId("begin").style.left = `${i}%`;
  byId("end").style.left = `${j}%`;
  setSlider("begin", i, 0, j - LEAST_WIDTH, `${i}%`);
  setSlider("end", j, i + LEAST_WIDTH, GRID, `${j}%`);
  setSlider("move", i, 0, GRID - width, shown);
  setSlider("map", i, 0, GRID - LEAST_WIDTH, `${shown}, gap ${number(parityGap().value)}`);
  const rate = byId("rate"),
    theta = general(shownModel().thresholds[t]);
  rate.value = t === own ? clip(Math.round(100 * shownModel().selected[t]), 1, 99) : t + 1;
  const text =
    t === own
      ? `as audited: score ${SIDE} ${theta}`
      : `selects ${percent(shownModel().selected[t], 1)} of all: score ${SIDE} ${theta}`;
  byId("rate-text").textContent = `Threshold ${text}`;
  rate.setAttribute("aria-valuetext", text);
  for (const radio of document.getElementsByName("scale")) radio.checked = radio.value === state.scale;
  byId("pair").value = state.pair ?? "";
  byId("model").value = state.model;
  byId("other").value = state.other ?? "";
};

let announcing = 0;
const draw = () => {
  drawControls();
  drawMap();
  drawCurves();
  drawOthers();
  drawMetrics();
  drawGroups();
  drawModelChanges();
  // Screen readers announce the sentence when the interval has stopped moving.
  clearTimeout(announcing);
  const place = byId("sentence"),
    text = sentence();
  if (place.textContent === "") place.textContent = text;
  else
    announcing = setTimeout(() => {
      place.textContent = text;
    }, 120);
};

const fillPairs = () => {
  const model = shownModel();
  const few = model.pairs.length < model.nPairs;
  const worst = element(
    "option",
    few ? `worst of all ${model.nPairs.toLocaleString("en")} pairs` : "worst pair",
  );
  worst.value = "";
  byId("pair").replaceChildren(
    worst,
    ...model.pairs.map((pair, k) => {
      const option = element("option", between(pair.groups));
      option.value = k;
      return option;
    }),
  );
};

const set = (changes) => {
  const before = state.model;
  Object.assign(state, changes);
  if (state.model !== before) {
    fillPairs();
    drawPath();
    drawVerdict();
  }
  draw();
};

/** Move the ends to the requested ranks, with a width of at least two percent. */
const moveEnds = (i, j) => {
  const begin = clip(Math.round(i), 0, GRID - LEAST_WIDTH);
  set({ i: begin, j: clip(Math.round(j), begin + LEAST_WIDTH, GRID) });
};
const moveBegin = (i) => set({ i: clip(Math.round(i), 0, state.j - LEAST_WIDTH) });
const moveEnd = (j) => set({ j: clip(Math.round(j), state.i + LEAST_WIDTH, GRID) });
const moveBoth = (i) => {
  const width = state.j - state.i,
    begin = clip(Math.round(i), 0, GRID - width);
  set({ i: begin, j: begin + width });
};

const STEPS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -5,
  PageUp: 5,
  Home: -GRID,
  End: GRID,
};

const onKeys = (id, act) =>
  byId(id).addEventListener("keydown", (event) => {
    if (!(event.key in STEPS)) return;
    event.preventDefault();
    act(STEPS[event.key], event.key);
  });

const onDrag = (id, act) => {
  const handle = byId(id),
    bar = byId("bar");
  let from = null;
  const rank = (event) => ((event.clientX - bar.getBoundingClientRect().left) / bar.clientWidth) * GRID;
  handle.addEventListener("pointerdown", (event) => {
    handle.setPointerCapture(event.pointerId);
    handle.focus();
    from = { rank: rank(event), i: state.i };
    event.preventDefault();
  });
  handle.addEventListener("pointermove", (event) => from && act(rank(event), from));
  for (const done of ["pointerup", "pointercancel"])
    handle.addEventListener(done, () => {
      from = null;
    });
};

const wire = () => {
  onKeys("begin", (step) => moveBegin(state.i + step));
  onKeys("end", (step) => moveEnd(state.j + step));
  onKeys("move", (step) => moveBoth(state.i + step));
  onKeys("map", (step, key) =>
    key === "ArrowUp" || key === "ArrowDown" ? moveEnd(state.j + step) : moveBoth(state.i + step),
  );
  onDrag("begin", (rank) => moveBegin(rank));
  onDrag("end", (rank) => moveEnd(rank));
  onDrag("move", (rank, from) => moveBoth(from.i + rank - from.rank));
  byId("bar").addEventListener("pointerdown", (event) => {
    if (event.target !== byId("bar")) return; // outside the interval: the nearer end moves
    const rank =
      ((event.clientX - byId("bar").getBoundingClientRect().left) / byId("bar").clientWidth) * GRID;
    if (rank < state.i) moveBegin(rank);
    else moveEnd(rank);
  });
  byId("rate").addEventListener("input", (event) => set({ t: Number(event.target.value) - 1 }));
  byId("own-threshold").addEventListener("click", () => set({ t: own }));
  byId("pair").addEventListener("change", (event) =>
    set({ pair: event.target.value === "" ? null : Number(event.target.value) }),
  );
  byId("model").addEventListener("change", (event) => set({ model: Number(event.target.value) }));
  byId("other").addEventListener("change", (event) =>
    set({ other: event.target.value === "" ? null : Number(event.target.value) }),
  );
  byId("reset").addEventListener("click", () => set(audited));
  for (const radio of document.getElementsByName("scale"))
    radio.addEventListener("change", () => set({ scale: radio.value }));
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return; // only the height changed
    width = document.body.clientWidth;
    forgetWidths();
    calibrated = "";
    drawCurves();
    drawOthers();
    drawPath();
  }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => heatMap.paint());
  for (const table of document.querySelectorAll("table.sortable, details table")) makeSortable(table);
  // Links of the contents unfold their target, and all details are printed unfolded.
  for (const link of document.querySelectorAll(".contents a"))
    link.addEventListener("click", () => {
      const target = document.querySelector(link.getAttribute("href"));
      if (target.tagName === "DETAILS") target.open = true;
    });
  const folded = new Set();
  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details:not([open])")) {
      folded.add(one);
      one.open = true;
    }
    heatMap.paint("255, 255, 255"); // paper is white even if the screen is dark
  });
  addEventListener("afterprint", () => {
    for (const one of folded) one.open = false;
    folded.clear();
    heatMap.paint();
  });
};

const furnish = () => {
  for (const rank of [0, 20, 40, 60, 80, 100]) {
    const mark = byId("bar").appendChild(element("span", `${rank}%`, "scale"));
    mark.style.left = `${rank}%`;
    byId("map").appendChild(element("span", `${rank}%`, "tick across")).style.left = `${rank}%`;
    byId("map").appendChild(element("span", `${rank}%`, "tick up")).style.bottom = `${rank}%`;
  }
  byId("map").append(
    element("span", "the interval begins at rank", "name x"),
    element("span", "the interval ends at rank", "name y"),
  );
  byId("own-threshold").parentElement.hidden = own === null;
  for (const id of ["model", "other"]) {
    byId(id).parentElement.hidden = models.length === 1;
    byId(id).replaceChildren(
      ...models.map((model, k) => Object.assign(element("option", shortName(model.name)), { value: k })),
    );
  }
  byId("other").prepend(Object.assign(element("option", "none"), { value: "" }));
};

furnish();
fillPairs();
wire();
drawPath();
draw();
